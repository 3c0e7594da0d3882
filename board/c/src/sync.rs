//! Semaphores, mutexes and event flags.

use core::mem::forget;

use takt_kernel::sync::{EventFlags, Mode, Mutex, Semaphore};
use takt_kernel::time::Instant;

use crate::object::{Body, Object};
use crate::result::{TAKT_INVALID_ARGUMENT, TAKT_OK, code, flatten};

/// A counting semaphore: a static variable, at first all zeros.
#[repr(C)]
pub struct TaktSemaphore {
    storage: [u64; 24],
}

/// A mutex with priority inheritance: a static variable, at first all zeros.
#[repr(C)]
pub struct TaktMutex {
    storage: [u64; 24],
}

/// 32 event flags: a static variable, at first all zeros.
#[repr(C)]
pub struct TaktFlags {
    storage: [u64; 32],
}

impl Body for Semaphore {
    type Storage = TaktSemaphore;
    const MAGIC: u32 = u32::from_le_bytes(*b"sema");
}

impl Body for Mutex<()> {
    type Storage = TaktMutex;
    const MAGIC: u32 = u32::from_le_bytes(*b"mutx");
}

impl Body for EventFlags {
    type Storage = TaktFlags;
    const MAGIC: u32 = u32::from_le_bytes(*b"flag");
}

/// Initialises a semaphore with this many permits, and at most `max`, which is at most INT32_MAX. `TAKT_OK`,
/// `TAKT_INVALID_STATE`, `TAKT_INVALID_ARGUMENT`.
///
/// # Safety
/// The semaphore is static, and nothing else writes to it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn takt_semaphore_init(
    semaphore: *mut TaktSemaphore,
    initial: u32,
    max: u32,
) -> i32 {
    if initial > max || max > i32::MAX as u32 {
        return TAKT_INVALID_ARGUMENT;
    }
    // SAFETY: the caller's duty.
    let done = unsafe { Object::init(semaphore, Semaphore::new(initial, max)) };
    flatten(done.map(|()| TAKT_OK))
}

/// Gives one permit, to the most important waiter if there is one. `TAKT_OK`, `TAKT_OVERFLOW`, `TAKT_NOT_INITIALISED`,
/// `TAKT_INVALID_ARGUMENT`.
///
/// # Safety
/// As takt_semaphore_init.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn takt_semaphore_give(semaphore: *mut TaktSemaphore) -> i32 {
    // SAFETY: the caller's duty.
    let semaphore = unsafe { Object::<Semaphore>::get(semaphore) };
    flatten(semaphore.map(|(_, it)| code(it.give())))
}

/// Takes one permit, waiting for it until `deadline` at most: cycles, or TAKT_NEVER. `TAKT_OK`, `TAKT_TIMED_OUT`,
/// `TAKT_WRONG_CONTEXT`, `TAKT_NOT_INITIALISED`, `TAKT_INVALID_ARGUMENT`.
///
/// # Safety
/// As takt_semaphore_init.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn takt_semaphore_take(semaphore: *mut TaktSemaphore, deadline: u64) -> i32 {
    // SAFETY: the caller's duty.
    let semaphore = unsafe { Object::<Semaphore>::get(semaphore) };
    flatten(semaphore.map(|(_, it)| code(it.take_until(Instant::from_cycles(deadline)))))
}

/// Initialises a mutex, which is free. `TAKT_OK`, `TAKT_INVALID_STATE`, `TAKT_INVALID_ARGUMENT`.
///
/// # Safety
/// The mutex is static, and nothing else writes to it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn takt_mutex_init(mutex: *mut TaktMutex) -> i32 {
    // SAFETY: the caller's duty.
    let done = unsafe { Object::init(mutex, Mutex::new(())) };
    flatten(done.map(|()| TAKT_OK))
}

/// Locks a mutex, waiting for it until `deadline` at most: cycles, or TAKT_NEVER. `TAKT_OK`, `TAKT_TIMED_OUT`,
/// `TAKT_DEADLOCK`, `TAKT_CHAIN_TOO_LONG`, `TAKT_OWNER_DIED`, `TAKT_WRONG_CONTEXT`, `TAKT_NOT_INITIALISED`,
/// `TAKT_INVALID_ARGUMENT`.
///
/// # Safety
/// As takt_mutex_init.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn takt_mutex_lock(mutex: *mut TaktMutex, deadline: u64) -> i32 {
    // SAFETY: the caller's duty.
    let mutex = unsafe { Object::<Mutex<()>>::get(mutex) };
    flatten(mutex.map(|(_, it)| {
        // `takt_mutex_unlock` is what gives it back.
        code(it.lock_until(Instant::from_cycles(deadline)).map(forget))
    }))
}

/// Unlocks a mutex that the calling thread has locked. `TAKT_OK`, `TAKT_NOT_OWNER`, `TAKT_NOT_INITIALISED`,
/// `TAKT_INVALID_ARGUMENT`.
///
/// # Safety
/// As takt_mutex_init.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn takt_mutex_unlock(mutex: *mut TaktMutex) -> i32 {
    // SAFETY: the caller's duty.
    let mutex = unsafe { Object::<Mutex<()>>::get(mutex) };
    // SAFETY: `takt_mutex_lock` has forgotten its guard, and there are no data.
    flatten(mutex.map(|(_, it)| code(unsafe { it.unlock_forgotten() })))
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
