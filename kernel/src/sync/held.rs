//! The kernel's own mutexes, which have no data of their own: what each of them is the right to is held by a type.

use core::marker::PhantomData;

use super::raw_mutex::{Long, RawMutex};
use crate::clock::Instant;
use crate::error::Error;

/// What one of the kernel's own mutexes is the right to.
pub(crate) trait Right {
    /// The mutex.
    const MUTEX: &'static RawMutex;
}

/// The running thread holds the mutex of this right until this is dropped.
#[must_use = "the mutex is given back at once"]
pub(crate) struct Held<R: Right> {
    /// Not `Send`: the owner is a thread.
    _not_send: PhantomData<*const R>,
}

impl<R: Right> Held<R> {
    /// Waits until no one else has it.
    ///
    /// # Errors
    /// Those of [`Mutex::lock`](crate::sync::Mutex::lock).
    ///
    /// # Context
    /// Threads that may block.
    #[inline(never)]
    pub(crate) fn wait() -> Result<Self, Error> {
        R::MUTEX.lock(Instant::NEVER, Long::Refused)?;
        Ok(Self {
            _not_send: PhantomData,
        })
    }
}

impl<R: Right> Drop for Held<R> {
    /// Not inlined: each right has several holders.
    #[inline(never)]
    fn drop(&mut self) {
        // This thread owns it, so that cannot fail.
        let result = R::MUTEX.unlock();
        debug_assert!(result.is_ok());
    }
}
