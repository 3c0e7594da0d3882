//! What a kernel call can fail with.

use takt_tracer::control::setting::Errno;

/// Declares the errors, and the list of all of them.
macro_rules! errors {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// Why a call did not do what it was asked to.
        #[derive(Clone, Copy, PartialEq, Eq, Debug, defmt::Format)]
        pub enum Error {
            $($(#[$doc])* $name,)*
        }

        /// Each at the place that is its number.
        const ALL: [Error; [$(Error::$name),*].len()] = [$(Error::$name),*];
    };
}

errors! {
    /// The time-out passed first.
    TimedOut,
    /// It would have to wait, and the caller cannot or does not want to.
    WouldBlock,
    /// The mutex is held by the caller, or waiting for it would close a circle.
    Deadlock,
    /// The caller does not hold the mutex.
    NotOwner,
    /// The thread that held the mutex has ended without giving it back: no one will, and what the mutex guards may be
    /// half done (POSIX: `EOWNERDEAD`).
    OwnerDied,
    /// The chain of mutexes is longer than the kernel follows.
    ChainTooLong,
    /// No such thread: it has ended, or never was.
    NoSuchThread,
    /// All threads, timers or whatever it needs are in use ([`crate::config`]).
    OutOfResources,
    /// The stack is in use by another thread.
    StackInUse,
    /// A count would pass its maximum.
    Overflow,
    /// Not possible in the state the object is in, e.g. starting a thread twice.
    InvalidState,
    /// An argument is out of its range.
    InvalidArgument,
    /// Not allowed in an interrupt handler or with preemption disabled.
    WrongContext,
}

/// A call's result as a number, for a register: 0, or one more than the error's.
#[inline(always)]
pub(crate) fn to_number(result: Result<(), Error>) -> usize {
    match result {
        Ok(()) => 0,
        Err(error) => error as usize + 1,
    }
}

/// The result that [`to_number`] gave.
#[inline(always)]
pub(crate) fn from_number(number: usize) -> Result<(), Error> {
    match number {
        0 => Ok(()),
        // Always in the list.
        number => Err(ALL[(number - 1) % ALL.len()]),
    }
}

/// The number that Linux gives where a setting cannot be carried out for this reason.
impl From<Error> for Errno {
    fn from(error: Error) -> Self {
        match error {
            Error::OutOfResources => Self::NoMemory,
            Error::InvalidState | Error::WouldBlock | Error::WrongContext => Self::Busy,
            Error::Overflow => Self::Overflow,
            _ => Self::Invalid,
        }
    }
}
