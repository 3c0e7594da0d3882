//! Threads.

use core::ffi::{c_char, c_void};

use takt_kernel::thread::{Builder, Thread};
use takt_kernel::time::Instant;

use crate::object::{Body, Object};
use crate::result::{TAKT_INVALID_ARGUMENT, code};
use crate::trace::text;

/// A thread: a static variable, at first all zeros.
#[repr(C)]
pub struct TaktThread {
    storage: [u64; 4],
}

/// A stack, as TAKT_STACK declares it: its lowest address and its size in bytes.
#[repr(C)]
pub struct TaktStack {
    bottom: *mut u8,
    size: usize,
}

/// What runs as a thread.
type Entry = extern "C" fn(*mut c_void);

/// What a thread is of; the kernel gives it one number to begin with.
struct Started {
    thread: Thread,
    entry: Entry,
    argument: *mut c_void,
}

impl Body for Started {
    type Storage = TaktThread;
    const MAGIC: u32 = u32::from_le_bytes(*b"thrd");
}

const PAGE: usize = 4096;

/// First code of the thread whose room is at this address.
fn begin(storage: usize) {
    // SAFETY: `takt_thread_spawn` filled it before the thread was started.
    if let Ok((_, started)) = unsafe { Object::<Started>::get(storage as *mut TaktThread) } {
        (started.entry)(started.argument);
    }
}

/// Starts a thread of this priority (0 to 99, 99 the most important) on the caller's CPU. It ends when `entry` returns, and
/// has to be joined. The name is UTF-8 and stays where it is. `TAKT_OK`, `TAKT_OUT_OF_RESOURCES`, `TAKT_STACK_IN_USE`,
/// `TAKT_INVALID_STATE` (not joined, or not zeroed), `TAKT_INVALID_ARGUMENT`.
///
/// # Safety
/// The thread is static and nothing else writes to it. The stack is one that TAKT_STACK declared.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn takt_thread_spawn(
    thread: *mut TaktThread,
    name: *const c_char,
    priority: u8,
    stack: *const TaktStack,
    entry: Option<extern "C" fn(argument: *mut c_void)>,
    argument: *mut c_void,
) -> i32 {
    // SAFETY: the caller's duty.
    let name = unsafe { text(name) };
    // SAFETY: null, or a stack that TAKT_STACK declared, by the caller's promise.
    let stack = unsafe { stack.as_ref() };
    let (Ok(name), Some(stack), Some(entry)) = (name, stack, entry) else {
        return TAKT_INVALID_ARGUMENT;
    };
    let is_whole = (stack.bottom as usize).is_multiple_of(PAGE) && stack.size.is_multiple_of(PAGE);
    if stack.bottom.is_null() || stack.size == 0 || !is_whole {
        return TAKT_INVALID_ARGUMENT;
    }
    // SAFETY: the caller's duty.
    let object = match unsafe { Object::<Started>::claim(thread) } {
        Ok(object) => object,
        Err(code) => return code,
    };
    let created = Builder::new(name, priority).and_then(|builder| {
        // SAFETY: the caller's duty: TAKT_STACK lays stacks out as it has to be.
        unsafe { builder.create_raw(stack.bottom, stack.size, begin, thread as usize) }
    });
    match created {
        Ok(created) => {
            object.publish(Started {
                thread: created,
                entry,
                argument,
            });
            code(created.start())
        }
        Err(error) => {
            object.clear();
            code(Err(error))
        }
    }
}

/// Waits for a thread's end, until `deadline` at most: cycles, or TAKT_NEVER. Afterwards the variable and the stack are free
/// for another thread. `TAKT_OK`, `TAKT_TIMED_OUT`, `TAKT_NO_SUCH_THREAD`, `TAKT_DEADLOCK` (itself), `TAKT_INVALID_STATE`
/// (another waits for it), `TAKT_WRONG_CONTEXT`, `TAKT_NOT_INITIALISED`, `TAKT_INVALID_ARGUMENT`.
///
/// # Safety
/// As takt_thread_spawn.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn takt_thread_join(thread: *mut TaktThread, deadline: u64) -> i32 {
    // SAFETY: the caller's duty.
    let (object, started) = match unsafe { Object::<Started>::get(thread) } {
        Ok(found) => found,
        Err(code) => return code,
    };
    // The kernel has one of several joiners succeed.
    let result = started.thread.join(Instant::from_cycles(deadline));
    code(result.map(|_| object.clear()))
}

/// Gives way to the other ready threads of the caller's priority.
#[unsafe(no_mangle)]
pub extern "C" fn takt_yield() {
    takt_kernel::yield_now();
}
