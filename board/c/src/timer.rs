//! Software timers.

use core::ffi::c_void;

use takt_kernel::time::{Expiry, Instant, Timer};

use crate::object::{Body, Object};
use crate::result::{TAKT_INVALID_ARGUMENT, TAKT_INVALID_STATE, TAKT_OK, flatten, of_error};

/// A software timer: a static variable, at first all zeros.
#[repr(C)]
pub struct TaktTimer {
    storage: [u64; 4],
}

/// What a timer is of; the kernel gives its function one number.
struct Made {
    timer: Timer,
    function: extern "C" fn(*mut c_void),
    argument: *mut c_void,
}

impl Body for Made {
    type Storage = TaktTimer;
    const MAGIC: u32 = u32::from_le_bytes(*b"timr");
}

/// The timer whose room is at this address has expired.
fn expired(storage: usize, _: Expiry) {
    // SAFETY: `takt_timer_init` filled it before the timer was armed.
    if let Ok((_, made)) = unsafe { Object::<Made>::get(storage as *mut TaktTimer) } {
        (made.function)(made.argument);
    }
}

/// Initialises a timer, for good: it calls `function` when it expires, in the timer interrupt. There it may log, give semaphores,
/// set flags, notify, arm and disarm timers, and must not wait. `TAKT_OK`, `TAKT_OUT_OF_RESOURCES`, `TAKT_INVALID_STATE`,
/// `TAKT_INVALID_ARGUMENT`.
///
/// # Safety
/// The timer is static, and nothing else writes to it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn takt_timer_init(
    timer: *mut TaktTimer,
    function: Option<extern "C" fn(argument: *mut c_void)>,
    argument: *mut c_void,
) -> i32 {
    let Some(function) = function else {
        return TAKT_INVALID_ARGUMENT;
    };
    // SAFETY: the caller's duty.
    let object = match unsafe { Object::<Made>::claim(timer) } {
        Ok(object) => object,
        Err(code) => return code,
    };
    match Timer::new(expired, timer as usize) {
        Ok(timer) => {
            object.publish(Made {
                timer,
                function,
                argument,
            });
            TAKT_OK
        }
        Err(error) => {
            object.clear();
            of_error(error)
        }
    }
}

/// Has a timer expire at this time, in cycles, or at another than before; at once if it is past; not at all
/// with TAKT_NEVER. `TAKT_OK`,
/// `TAKT_NOT_INITIALISED`, `TAKT_INVALID_ARGUMENT`.
///
/// # Safety
/// As takt_timer_init.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn takt_timer_arm(timer: *mut TaktTimer, deadline: u64) -> i32 {
    // SAFETY: the caller's duty.
    let made = unsafe { Object::<Made>::get(timer) };
    flatten(made.map(|(_, it)| {
        it.timer.arm(Instant::from_cycles(deadline));
        TAKT_OK
    }))
}

/// Has a timer not expire. `TAKT_OK`, `TAKT_INVALID_STATE` (it was not armed, or has expired), `TAKT_NOT_INITIALISED`,
/// `TAKT_INVALID_ARGUMENT`.
///
/// # Safety
/// As takt_timer_init.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn takt_timer_cancel(timer: *mut TaktTimer) -> i32 {
    // SAFETY: the caller's duty.
    let made = unsafe { Object::<Made>::get(timer) };
    flatten(made.map(|(_, it)| match it.timer.cancel() {
        true => TAKT_OK,
        false => TAKT_INVALID_STATE,
    }))
}
