//! Event flags.

use takt_kernel::sync::{EventFlags, Mode};
use takt_kernel::time::Instant;

use crate::object::{Body, Object};
use crate::result::{TAKT_INVALID_ARGUMENT, TAKT_OK, code, flatten};

/// 32 event flags: a static variable, at first all zeros.
#[repr(C)]
pub struct TaktFlags {
    storage: [u64; 32],
}

impl Body for EventFlags {
    type Storage = TaktFlags;
    const MAGIC: u32 = u32::from_le_bytes(*b"flag");
}

/// Wait for any of the flags.
pub const TAKT_ANY: u32 = 0;
/// Wait for all of the flags.
pub const TAKT_ALL: u32 = 1;
/// Wait for any of the flags, and clear those that were set.
pub const TAKT_ANY_CLEAR: u32 = 2;
/// Wait for all of the flags, and clear them.
pub const TAKT_ALL_CLEAR: u32 = 3;

/// Initialises event flags with these set. `TAKT_OK`, `TAKT_INVALID_STATE`, `TAKT_INVALID_ARGUMENT`.
///
/// # Safety
/// The flags are static, and nothing else writes to them.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn takt_flags_init(flags: *mut TaktFlags, initial: u32) -> i32 {
    // SAFETY: the caller's duty.
    let done = unsafe { Object::init(flags, EventFlags::new(initial)) };
    flatten(done.map(|()| TAKT_OK))
}

/// Sets flags and wakes every waiter whose condition now holds. `TAKT_OK`, `TAKT_NOT_INITIALISED`, `TAKT_INVALID_ARGUMENT`.
///
/// # Safety
/// As takt_flags_init.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn takt_flags_set(flags: *mut TaktFlags, bits: u32) -> i32 {
    // SAFETY: the caller's duty.
    let flags = unsafe { Object::<EventFlags>::get(flags) };
    flatten(flags.map(|(_, it)| {
        it.set(bits);
        TAKT_OK
    }))
}

/// Clears flags. `TAKT_OK`, `TAKT_NOT_INITIALISED`, `TAKT_INVALID_ARGUMENT`.
///
/// # Safety
/// As takt_flags_init.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn takt_flags_clear(flags: *mut TaktFlags, bits: u32) -> i32 {
    // SAFETY: the caller's duty.
    let flags = unsafe { Object::<EventFlags>::get(flags) };
    flatten(flags.map(|(_, it)| {
        it.clear(bits);
        TAKT_OK
    }))
}

/// Waits for flags, in one of the four ways that begin with TAKT_ANY and TAKT_ALL, until `deadline` at most: cycles, or
/// TAKT_NEVER. `found`, if it is not NULL, is given the flags as they were then, before any clearing. `TAKT_OK`,
/// `TAKT_TIMED_OUT`, `TAKT_WRONG_CONTEXT`, `TAKT_NOT_INITIALISED`, `TAKT_INVALID_ARGUMENT` (no flag, another way).
///
/// # Safety
/// As takt_flags_init; `found` is NULL or the caller's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn takt_flags_wait(
    flags: *mut TaktFlags,
    mask: u32,
    mode: u32,
    deadline: u64,
    found: *mut u32,
) -> i32 {
    // SAFETY: the caller's duty.
    let flags = match unsafe { Object::<EventFlags>::get(flags) } {
        Ok((_, flags)) => flags,
        Err(code) => return code,
    };
    let mode = match mode {
        TAKT_ANY => Mode::Any,
        TAKT_ALL => Mode::All,
        TAKT_ANY_CLEAR => Mode::AnyClear,
        TAKT_ALL_CLEAR => Mode::AllClear,
        _ => return TAKT_INVALID_ARGUMENT,
    };
    let result = flags.wait(mask, mode, Instant::from_cycles(deadline));
    code(result.map(|flags| {
        if !found.is_null() {
            // SAFETY: the caller's duty.
            unsafe { found.write(flags) };
        }
    }))
}
