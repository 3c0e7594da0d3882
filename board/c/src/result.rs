//! What calls give: `TAKT_OK`, or why they did nothing.

use takt_kernel::Error;

/// It did what it was asked to.
pub const TAKT_OK: i32 = 0;
/// The deadline passed first.
pub const TAKT_TIMED_OUT: i32 = -1;
/// The mutex is held by the caller, or waiting for it would close a circle.
pub const TAKT_DEADLOCK: i32 = -2;
/// The caller does not hold the mutex.
pub const TAKT_NOT_OWNER: i32 = -3;
/// The thread that held the mutex has ended without giving it back.
pub const TAKT_OWNER_DIED: i32 = -4;
/// The chain of mutexes is longer than the kernel follows.
pub const TAKT_CHAIN_TOO_LONG: i32 = -5;
/// The thread has ended, and another has joined it.
pub const TAKT_NO_SUCH_THREAD: i32 = -6;
/// All threads are in use.
pub const TAKT_OUT_OF_RESOURCES: i32 = -7;
/// Another thread uses the stack.
pub const TAKT_STACK_IN_USE: i32 = -8;
/// The semaphore's count is at its maximum.
pub const TAKT_OVERFLOW: i32 = -9;
/// Not possible in the state the object is in: it is initialised already, or its memory was not zeroed.
pub const TAKT_INVALID_STATE: i32 = -10;
/// An argument is out of its range, or a pointer NULL or not aligned.
pub const TAKT_INVALID_ARGUMENT: i32 = -11;
/// Not allowed with preemption disabled.
pub const TAKT_WRONG_CONTEXT: i32 = -12;
/// It would have to wait.
pub const TAKT_WOULD_BLOCK: i32 = -13;
/// The object is not initialised, or the thread not started.
pub const TAKT_NOT_INITIALISED: i32 = -14;

/// Why a call of the kernel's did nothing, in C.
pub(crate) fn of_error(error: Error) -> i32 {
    match error {
        Error::TimedOut => TAKT_TIMED_OUT,
        Error::WouldBlock => TAKT_WOULD_BLOCK,
        Error::Deadlock => TAKT_DEADLOCK,
        Error::NotOwner => TAKT_NOT_OWNER,
        Error::OwnerDied => TAKT_OWNER_DIED,
        Error::ChainTooLong => TAKT_CHAIN_TOO_LONG,
        Error::NoSuchThread => TAKT_NO_SUCH_THREAD,
        Error::OutOfResources => TAKT_OUT_OF_RESOURCES,
        Error::StackInUse => TAKT_STACK_IN_USE,
        Error::Overflow => TAKT_OVERFLOW,
        Error::InvalidState => TAKT_INVALID_STATE,
        Error::InvalidArgument => TAKT_INVALID_ARGUMENT,
        Error::WrongContext => TAKT_WRONG_CONTEXT,
    }
}

/// What a call of the kernel's comes to in C.
pub(crate) fn code(result: Result<(), Error>) -> i32 {
    match result {
        Ok(()) => TAKT_OK,
        Err(error) => of_error(error),
    }
}

/// What a call comes to that can fail for C's own reasons as well.
pub(crate) fn flatten(result: Result<i32, i32>) -> i32 {
    result.unwrap_or_else(|code| code)
}
