//! Mutex around data; see [`raw_mutex`](super::raw_mutex) for how it works.

use core::cell::UnsafeCell;
use core::marker::PhantomData;
use core::ops::{Deref, DerefMut};

use super::raw_mutex::{Long, RawMutex};
use crate::clock::Instant;
use crate::error::Error;

/// A mutex around data, for threads.
///
/// A thread that ends with a mutex locked (its guard was forgotten, or it called
/// [`exit`](crate::thread::exit)) leaves it locked for good: all who wait for it or try to lock it later get
/// [`Error::OwnerDied`].
///
/// ```ignore
#[doc = include_str!("examples/mutex.rs")]
/// ```
pub struct Mutex<T> {
    raw: RawMutex,
    data: UnsafeCell<T>,
}

// SAFETY: the data are reached through the guard only, by one thread at a time.
unsafe impl<T: Send> Sync for Mutex<T> {}

/// The right to use a mutex's data; given back when dropped.
#[must_use = "the mutex is unlocked when the guard is dropped"]
pub struct MutexGuard<'a, T> {
    mutex: &'a Mutex<T>,
    /// Not `Send`: the owner is a thread.
    _not_send: PhantomData<*const ()>,
}

impl<T> Mutex<T> {
    /// A free mutex.
    pub const fn new(data: T) -> Self {
        Self {
            raw: RawMutex::new(),
            data: UnsafeCell::new(data),
        }
    }

    /// Locks it, waiting as long as it takes; the owner inherits the caller's priority meanwhile.
    ///
    /// # Errors
    /// [`Error::Deadlock`] if the caller owns it or waiting would close a circle, [`Error::ChainTooLong`],
    /// [`Error::OwnerDied`], [`Error::WrongContext`].
    #[inline]
    pub fn lock(&self) -> Result<MutexGuard<'_, T>, Error> {
        self.lock_until(Instant::NEVER)
    }

    /// Locks it, waiting until `deadline` at most.
    ///
    /// # Errors
    /// As [`Mutex::lock`], and [`Error::TimedOut`].
    #[inline]
    pub fn lock_until(&self, deadline: Instant) -> Result<MutexGuard<'_, T>, Error> {
        self.raw.lock(deadline, Long::Refused)?;
        Ok(self.guard())
    }

    /// Locks it if it is free.
    ///
    /// # Errors
    /// [`Error::WouldBlock`].
    ///
    /// # Context
    /// Threads; interrupt handlers, which lock it as the thread that they have interrupted. Where that is about to leave for
    /// good, other CPUs' threads that want the mutex before the handler has given it back get [`Error::OwnerDied`], and
    /// [`Error::Deadlock`] where they own what that thread waits for: what a
    /// handler shares with other CPUs is not for a mutex.
    #[inline]
    pub fn try_lock(&self) -> Result<MutexGuard<'_, T>, Error> {
        if self.raw.try_lock() {
            Ok(self.guard())
        } else {
            Err(Error::WouldBlock)
        }
    }

    /// The guard that the calling thread has forgotten: for callers who cannot keep one, as in C.
    ///
    /// # Errors
    /// [`Error::NotOwner`].
    ///
    /// # Safety
    /// The calling thread has no other guard of it, and uses no reference into the data that it got by the forgotten one.
    pub unsafe fn forgotten_guard(&self) -> Result<MutexGuard<'_, T>, Error> {
        match self.raw.is_own() {
            true => Ok(self.guard()),
            false => Err(Error::NotOwner),
        }
    }

    #[inline(always)]
    fn guard(&self) -> MutexGuard<'_, T> {
        MutexGuard {
            mutex: self,
            _not_send: PhantomData,
        }
    }
}

impl<'a, T> MutexGuard<'a, T> {
    pub(crate) fn raw(&self) -> &'a RawMutex {
        &self.mutex.raw
    }
}

impl<T> Deref for MutexGuard<'_, T> {
    type Target = T;

    #[inline(always)]
    fn deref(&self) -> &T {
        // SAFETY: the guard is the right to it.
        unsafe { &*self.mutex.data.get() }
    }
}

impl<T> DerefMut for MutexGuard<'_, T> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: the guard is the right to it.
        unsafe { &mut *self.mutex.data.get() }
    }
}

impl<T> Drop for MutexGuard<'_, T> {
    #[inline(always)]
    fn drop(&mut self) {
        // The guard exists, so this thread owns the mutex and unlocking cannot fail.
        let result = self.mutex.raw.unlock();
        debug_assert!(result.is_ok());
    }
}
