//! Semaphores, mutexes and condition variables.

use core::mem::forget;

use takt_kernel::sync::{Condvar, Mutex, MutexGuard, Semaphore};
use takt_kernel::time::Instant;

use crate::object::{Body, Object};
use crate::result::{TAKT_INVALID_ARGUMENT, TAKT_OK, code, flatten, of_error};

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

/// A condition variable: a static variable, at first all zeros.
#[repr(C)]
pub struct TaktCondvar {
    storage: [u64; 48],
}

impl Body for Semaphore {
    type Storage = TaktSemaphore;
    const MAGIC: u32 = u32::from_le_bytes(*b"sema");
}

impl Body for Mutex<()> {
    type Storage = TaktMutex;
    const MAGIC: u32 = u32::from_le_bytes(*b"mutx");
}

impl Body for Condvar {
    type Storage = TaktCondvar;
    const MAGIC: u32 = u32::from_le_bytes(*b"cond");
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
    flatten(unsafe { locked(mutex) }.map(|guard| {
        drop(guard);
        TAKT_OK
    }))
}

/// The guard of a mutex that the calling thread has locked.
///
/// # Errors
/// `TAKT_NOT_OWNER`, and those of [`Object::get`].
///
/// # Safety
/// As takt_mutex_init.
unsafe fn locked(mutex: *mut TaktMutex) -> Result<MutexGuard<'static, ()>, i32> {
    // SAFETY: the caller's duty.
    let (_, mutex) = unsafe { Object::<Mutex<()>>::get(mutex) }?;
    // SAFETY: each guard is forgotten where it was made, and there are no data.
    unsafe { mutex.forgotten_guard() }.map_err(of_error)
}

/// Initialises a condition variable. `TAKT_OK`, `TAKT_INVALID_STATE`, `TAKT_INVALID_ARGUMENT`.
///
/// # Safety
/// The condition variable is static, and nothing else writes to it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn takt_condvar_init(condvar: *mut TaktCondvar) -> i32 {
    // SAFETY: the caller's duty.
    let done = unsafe { Object::init(condvar, Condvar::new()) };
    flatten(done.map(|()| TAKT_OK))
}

/// Unlocks the mutex, which the calling thread has locked, waits to be notified until `deadline` at most (cycles, or
/// TAKT_NEVER), and locks the mutex again; the first two are one step. The mutex is held again in any case: a fault ends the
/// machine if its new owner has ended without giving it back, or waits for another mutex of the caller's. `TAKT_OK`,
/// `TAKT_TIMED_OUT`, `TAKT_NOT_OWNER`, `TAKT_WRONG_CONTEXT`, `TAKT_NOT_INITIALISED`, `TAKT_INVALID_ARGUMENT`.
///
/// # Safety
/// As takt_condvar_init and takt_mutex_init.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn takt_condvar_wait(
    condvar: *mut TaktCondvar,
    mutex: *mut TaktMutex,
    deadline: u64,
) -> i32 {
    // SAFETY: the caller's duty.
    let condvar = unsafe { Object::<Condvar>::get(condvar) };
    flatten(condvar.and_then(|(_, condvar)| {
        // SAFETY: the caller's duty towards the mutex.
        let mut guard = unsafe { locked(mutex) }?;
        let result = condvar.wait_until(&mut guard, Instant::from_cycles(deadline));
        forget(guard);
        Ok(code(result))
    }))
}

/// Wakes the most important of those who wait, if there is one. `TAKT_OK`, `TAKT_NOT_INITIALISED`, `TAKT_INVALID_ARGUMENT`.
///
/// # Safety
/// As takt_condvar_init.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn takt_condvar_notify_one(condvar: *mut TaktCondvar) -> i32 {
    // SAFETY: the caller's duty.
    let condvar = unsafe { Object::<Condvar>::get(condvar) };
    flatten(condvar.map(|(_, it)| {
        it.notify_one();
        TAKT_OK
    }))
}

/// Wakes all who wait, the most important first. `TAKT_OK`, `TAKT_NOT_INITIALISED`, `TAKT_INVALID_ARGUMENT`.
///
/// # Safety
/// As takt_condvar_init.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn takt_condvar_notify_all(condvar: *mut TaktCondvar) -> i32 {
    // SAFETY: the caller's duty.
    let condvar = unsafe { Object::<Condvar>::get(condvar) };
    flatten(condvar.map(|(_, it)| {
        it.notify_all();
        TAKT_OK
    }))
}
