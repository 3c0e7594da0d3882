//! Objects that threads wait for, each with a time-out.
//!
//! | object | from interrupts | wakes |
//! |---|---|---|
//! | [`Semaphore`] | `give`, `try_take` | the most important waiter |
//! | [`Mutex`] | no | the most important waiter, which then owns it |
//! | [`EventFlags`] | `set`, `clear`, `get`, `try_wait` | every waiter whose condition holds, the most important first |
//! | [`Queue`] | `try_send`, `try_receive` | the most important waiter |
//! | [`Condvar`] | `notify_one`, `notify_all` | the most important waiter, or all |
//!
//! All are `const`-constructible statics. A waiting thread borrows the object, so it cannot go away meanwhile.

pub(crate) mod pi;
pub(crate) mod raw_mutex;

mod condvar;
mod event_flags;
mod mutex;
mod queue;
mod semaphore;

pub use condvar::Condvar;
pub use event_flags::{EventFlags, Mode};
pub use mutex::{Mutex, MutexGuard};
pub use queue::Queue;
pub use semaphore::Semaphore;

use core::cell::UnsafeCell;

use takt_scheduler::PrioQueue;

use crate::lock::Section;

/// A wait queue inside an object, reached through a section.
pub(crate) struct Waiters(UnsafeCell<PrioQueue>);

// SAFETY: reached inside a section only.
unsafe impl Sync for Waiters {}
// SAFETY: holds thread numbers only.
unsafe impl Send for Waiters {}

impl Waiters {
    pub(crate) const fn new() -> Self {
        Self(UnsafeCell::new(PrioQueue::new()))
    }

    #[inline(always)]
    #[expect(
        clippy::mut_from_ref,
        reason = "the section is the exclusive right to what is inside"
    )]
    pub(crate) fn get<'a>(&self, _section: &'a Section) -> &'a mut PrioQueue {
        // SAFETY: the section is exclusive; callers hold one such reference at a time.
        unsafe { &mut *self.0.get() }
    }

    #[inline(always)]
    pub(crate) fn as_ptr(&self) -> *mut PrioQueue {
        self.0.get()
    }
}
