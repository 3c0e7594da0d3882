//! [`Waiters`]: the threads that wait for an object, ordered by priority. Every object that can be waited for has one.
//!
//! What links its threads is not in the object but in a table of the kernel's, with a place for each thread: a thread waits for one
//! object at a time.

use core::cell::UnsafeCell;

use takt_scheduler::WaitQueue;

/// A wait queue inside an object. What is in it a section lends ([`Kernel::waiting`](crate::section::Kernel::waiting)).
pub(crate) struct Waiters(pub(crate) UnsafeCell<WaitQueue>);

// SAFETY: `Kernel::waiting` alone reaches it, and one CPU at a time has what a section with the object's lock lends.
unsafe impl Sync for Waiters {}
// SAFETY: holds thread numbers only.
unsafe impl Send for Waiters {}

impl Waiters {
    pub(crate) const fn new() -> Self {
        Self(UnsafeCell::new(WaitQueue::new()))
    }
}
