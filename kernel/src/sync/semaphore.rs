//! Counting semaphore.
//!
//! The count is one atomic word. While no one waits, give and take are a compare-and-swap each and never enter a
//! kernel section. `-1` says that someone waits: then everyone takes the slow path.

use core::sync::atomic::{
    AtomicI32,
    Ordering::{Acquire, Relaxed, Release},
};

use super::Waiters;
use crate::error::Error;
use crate::handoff::Handoff;
use crate::lock;
use crate::sched;
use crate::thread::tcb::Wait;
use crate::time::Instant;

const CONTENDED: i32 = -1;

/// A counting semaphore.
pub struct Semaphore {
    count: AtomicI32,
    max: i32,
    waiters: Waiters,
}

impl Semaphore {
    /// With `initial` permits, and at most `max`.
    ///
    /// # Panics
    /// At compile time, if `initial` is above `max` or `max` above `i32::MAX`.
    #[must_use]
    pub const fn new(initial: u32, max: u32) -> Self {
        assert!(initial <= max && max <= i32::MAX as u32);
        Self {
            count: AtomicI32::new(initial as i32),
            max: max as i32,
            waiters: Waiters::new(),
        }
    }

    /// Permits that could be taken now.
    pub fn count(&self) -> u32 {
        self.count.load(Relaxed).max(0) as u32
    }

    /// Gives one permit, to the most important waiter if there is one.
    ///
    /// # Errors
    /// [`Error::Overflow`] if the count is at its maximum; nothing changes then.
    ///
    /// # Context
    /// Threads and interrupt handlers.
    #[inline]
    pub fn give(&self) -> Result<(), Error> {
        let mut count = self.count.load(Relaxed);
        while count >= 0 {
            if count == self.max {
                return Err(Error::Overflow);
            }
            match self
                .count
                .compare_exchange_weak(count, count + 1, Release, Relaxed)
            {
                Ok(_) => return Ok(()),
                Err(now) => count = now,
            }
        }
        self.begin_give().finish()
    }

    #[inline(never)]
    fn begin_give(&self) -> Handoff {
        let mut section = lock::enter();
        let result = self.give_in(&mut section);
        Handoff::end(section, result)
    }

    #[inline(always)]
    fn give_in(&self, section: &mut lock::Section) -> Result<(), Error> {
        // SAFETY: inside a section, where this is the only reference.
        let waiters = unsafe { &mut *self.waiters.as_ptr() };
        if let Some((tid, _)) = waiters.pop(section.links()) {
            if waiters.is_empty() {
                self.count.store(0, Relaxed);
            }
            sched::wake_taken(section, tid);
            return Ok(());
        }
        // The last waiter's time-out came in between.
        let count = self.count.load(Relaxed).max(0);
        if count == self.max {
            return Err(Error::Overflow);
        }
        self.count.store(count + 1, Release);
        Ok(())
    }

    /// Takes one permit if there is one.
    ///
    /// # Errors
    /// [`Error::WouldBlock`].
    ///
    /// # Context
    /// Threads and interrupt handlers.
    #[inline]
    pub fn try_take(&self) -> Result<(), Error> {
        let mut count = self.count.load(Relaxed);
        while count > 0 {
            match self
                .count
                .compare_exchange_weak(count, count - 1, Acquire, Relaxed)
            {
                Ok(_) => return Ok(()),
                Err(now) => count = now,
            }
        }
        Err(Error::WouldBlock)
    }

    /// Takes one permit, waiting for it.
    ///
    /// # Errors
    /// [`Error::WrongContext`] if it would have to wait where that is not allowed.
    #[inline]
    pub fn take(&self) -> Result<(), Error> {
        self.take_until(Instant::NEVER)
    }

    /// Takes one permit, waiting for it until `deadline` at most.
    ///
    /// # Errors
    /// [`Error::TimedOut`]; [`Error::WrongContext`] if it would have to wait where that is not allowed.
    #[inline]
    pub fn take_until(&self, deadline: Instant) -> Result<(), Error> {
        if self.try_take().is_ok() {
            return Ok(());
        }
        let result = self.begin_take(deadline).finish_wait();
        if result == Err(Error::TimedOut) {
            self.give_up();
        }
        result
    }

    #[inline(never)]
    fn begin_take(&self, deadline: Instant) -> Handoff {
        if !sched::may_block() {
            return Handoff::result(Err(Error::WrongContext));
        }
        let mut section = lock::enter_thread();
        // A permit may have come since the fast path looked; and other CPUs' fast paths may still raise a 0.
        loop {
            if self.try_take().is_ok() {
                return Handoff::stay(section, Ok(()));
            }
            match self.count.compare_exchange(0, CONTENDED, Relaxed, Relaxed) {
                Ok(_) | Err(CONTENDED) => break,
                Err(_) => {}
            }
        }
        let next = sched::begin_block(
            &mut section,
            Wait::Queue,
            self.waiters.as_ptr(),
            deadline.cycles(),
        );
        Handoff::switch(section, next, Ok(()))
    }

    /// After a time-out, which took the thread out of the queue: without waiters the fast path is open again.
    #[cold]
    fn give_up(&self) {
        let section = lock::enter_thread();
        if self.waiters.get(&section).is_empty() {
            let _ = self.count.compare_exchange(CONTENDED, 0, Relaxed, Relaxed);
        }
        section.leave_quietly();
    }
}
