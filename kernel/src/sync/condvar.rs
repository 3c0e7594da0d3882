//! Condition variable.

use super::mutex::Long;
use super::{MutexGuard, Waiters};
use crate::config::MAX_THREADS;
use crate::error::Error;
use crate::lock;
use crate::preempt;
use crate::sched;
use crate::thread::tcb::{Wait, Woken};
use crate::time::Instant;

/// A condition that threads wait for with a mutex held; one mutex at a time, as everywhere.
pub struct Condvar {
    waiters: Waiters,
}

impl Default for Condvar {
    fn default() -> Self {
        Self::new()
    }
}

impl Condvar {
    /// A condition no one waits for.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            waiters: Waiters::new(),
        }
    }

    /// Unlocks the mutex, waits to be notified, and locks it again; the first two are one step.
    ///
    /// # Errors
    /// [`Error::WrongContext`]; the mutex is still held then.
    pub fn wait<T>(&self, guard: &mut MutexGuard<'_, T>) -> Result<(), Error> {
        self.wait_until(guard, Instant::NEVER)
    }

    /// As [`Condvar::wait`], until `deadline` at most. The mutex is held again in any case.
    ///
    /// # Errors
    /// [`Error::TimedOut`], [`Error::WrongContext`].
    ///
    /// # Panics
    /// If locking again would close a circle, since the caller holds another mutex that the new owner waits for; or if
    /// the new owner has ended with the mutex locked.
    pub fn wait_until<T>(
        &self,
        guard: &mut MutexGuard<'_, T>,
        deadline: Instant,
    ) -> Result<(), Error> {
        if !sched::may_block() {
            return Err(Error::WrongContext);
        }
        let mutex = guard.raw();
        let mut section = lock::enter_thread();
        // SAFETY: the running thread's own block, inside a section.
        let t = unsafe { &mut *crate::arch::percpu::current() };
        sched::begin_wait(
            &mut section,
            t,
            Wait::Queue,
            self.waiters.as_ptr(),
            deadline.cycles(),
        );
        // Nothing runs between: interrupts are off. The thread is in the queue before the mutex is free.
        let unlocked = mutex.unlock_in(&mut section);
        debug_assert!(
            unlocked.is_ok(),
            "the guard says that this thread owns the mutex"
        );
        // SAFETY: this CPU's own, inside a section.
        let next = unsafe { sched::of_cpu(crate::arch::percpu::this()) }
            .rq
            .pick_next();
        sched::switch_to(&mut section, next);
        // SAFETY: as above. Not by `t`: the waker wrote there meanwhile.
        let woken = unsafe { (*crate::arch::percpu::current()).woken };
        let locked = mutex.lock_in(&mut section, sched::FOREVER, Long::Accepted);
        section.leave();
        // Going on without the mutex would be unsound, and there is no way back to before the wait.
        assert!(
            locked.is_ok(),
            "the mutex cannot be locked again after the wait: a deadlock, or its owner has ended"
        );
        if woken == Woken::TimedOut {
            Err(Error::TimedOut)
        } else {
            Ok(())
        }
    }

    /// Wakes the most important waiter; says whether there was one.
    ///
    /// # Context
    /// Threads and interrupt handlers.
    pub fn notify_one(&self) -> bool {
        let mut section = lock::enter();
        // SAFETY: inside a section, where this is the only reference.
        let waiters = unsafe { &mut *self.waiters.as_ptr() };
        let woken = sched::wake_first(&mut section, waiters).is_some();
        section.leave();
        woken
    }

    /// Wakes all waiters, one section for each; says how many. No thread of this CPU runs before all are woken, so one
    /// that waits again is not woken twice. With other CPUs, at most as many wake-ups as there can be threads.
    ///
    /// # Context
    /// Threads and interrupt handlers.
    pub fn notify_all(&self) -> usize {
        let _all = preempt::disable();
        (0..MAX_THREADS).take_while(|_| self.notify_one()).count()
    }
}
