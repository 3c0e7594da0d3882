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

/// A call's result as a word, for a register: 0, or one more than the error's place in the list.
///
/// # Invariants
/// There is none of another word: it is made from a result.
#[derive(Clone, Copy)]
pub(crate) struct Word(usize);

impl Word {
    /// That of a result.
    #[inline(always)]
    pub(crate) fn of(result: Result<(), Error>) -> Self {
        match result {
            Ok(()) => Self(0),
            Err(error) => Self(error as usize + 1),
        }
    }

    /// For a register.
    #[inline(always)]
    pub(crate) fn get(self) -> usize {
        self.0
    }

    /// The one that a register has.
    ///
    /// # Safety
    /// [`get`](Self::get) gave it.
    #[inline(always)]
    pub(crate) unsafe fn new(word: usize) -> Self {
        Self(word)
    }

    /// The result.
    #[inline(always)]
    pub(crate) fn result(self) -> Result<(), Error> {
        let Some(place) = self.0.checked_sub(1) else {
            return Ok(());
        };
        // SAFETY: by the invariant it is one more than the place of an error in the list.
        Err(unsafe { *ALL.get_unchecked(place) })
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
