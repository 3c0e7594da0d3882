//! Condition variable.
//!
//! Notifying all is one step: those who wait become those who are notified, and an empty queue takes their place. They
//! are then woken, a section for each, with interrupts and preemption on in between. Who is woken first may be more
//! important than the notifier and preempt it: so whoever comes back from a wait first wakes those that are still
//! there, and none of them has to wait until the notifier runs again.

use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use super::mutex::MutexGuard;
use super::raw_mutex::Long;
use crate::clock::Instant;
use crate::deferred::{self, Work};
use crate::error::Error;
use crate::sched;
use crate::section::{self, Any, Kernel, Kind, Scheduled, Section, Waiters};
use crate::thread::tcb::{TcbRef, Wait};
use crate::wait;

/// A condition that threads wait for with a mutex held; one mutex at a time, as everywhere.
///
/// ```ignore
#[doc = include_str!("examples/condvar.rs")]
/// ```
pub struct Condvar {
    /// Those who wait, and those who are notified and not yet woken; [`Condvar::nr_flips`] says which is which.
    queues: [Waiters; 2],
    /// How often all were notified; changes inside a section only.
    nr_flips: AtomicUsize,
    /// How many were woken after all were notified, wrapping; changes inside a section only.
    nr_woken: AtomicUsize,
    /// Those who are notified, and whom an interrupt handler has left to wake.
    rest: Work,
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
            queues: [const { Waiters::new() }; 2],
            nr_flips: AtomicUsize::new(0),
            nr_woken: AtomicUsize::new(0),
            rest: Work::new(Self::step),
        }
    }

    /// The first of both queues.
    #[inline(always)]
    fn first(&self) -> &Waiters {
        &self.queues[0]
    }

    /// Those who wait, and how.
    #[inline(always)]
    fn waiting(&self) -> (&Waiters, Wait) {
        let number = self.nr_flips.load(Relaxed) & 1;
        let wait = if number == 0 {
            Wait::Queue
        } else {
            Wait::Second
        };
        (&self.queues[number], wait)
    }

    /// Those who are notified and not yet woken.
    #[inline(always)]
    fn notified(&self) -> &Waiters {
        &self.queues[(self.nr_flips.load(Relaxed) & 1) ^ 1]
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
        let mut section = section::enter_object_thread(self.first());
        // The thread stands in the queue before the mutex is free, so no notification is missed.
        let (queue, wait) = self.waiting();
        wait::announce(&mut section, TcbRef::current(), queue, wait);
        section.leave_quietly();
        let unlocked = mutex.unlock();
        debug_assert!(
            unlocked.is_ok(),
            "the guard says that this thread owns the mutex"
        );
        let woken = wait::finish(deadline);
        // Those that were notified together with this one.
        self.wake_notified(section::enter_object_thread(self.first()))
            .leave();
        let locked = mutex.lock(Instant::NEVER, Long::Accepted);
        // Going on without the mutex would be unsound, and there is no way back to before the wait.
        assert!(
            locked.is_ok(),
            "the mutex cannot be locked again after the wait: a deadlock, or its owner has ended"
        );
        woken.result()
    }

    /// Wakes the most important waiter; says whether there was one.
    ///
    /// # Context
    /// Threads and interrupt handlers.
    pub fn notify_one(&self) -> bool {
        match wait::wake_first(section::enter_object(self.first()), self.waiting().0) {
            Ok(section) => section.leave(),
            Err(section) => {
                section.leave_quietly();
                return false;
            }
        }
        true
    }

    /// Wakes all who wait now, the most important first; says how many. A section for each: what they do when they run
    /// may come before the last is woken, but one that waits again is not woken twice. Those that others notify
    /// meanwhile in the same way count as well.
    ///
    /// # Context
    /// Threads and interrupt handlers. Where interrupts are off, in a handler above all, the rest is left to a later
    /// interrupt as soon as another is pending; those do not count.
    pub fn notify_all(&self) -> usize {
        let section = self.wake_notified(section::enter_object(self.first()));
        // No one is left in the other queue: it is for those who wait from now on.
        increment(&self.nr_flips);
        let before = self.nr_woken.load(Relaxed);
        let section = if section.is_from_enabled() {
            self.wake_notified(section)
        } else {
            self.wake_while_calm(section)
        };
        let woken = self.nr_woken.load(Relaxed).wrapping_sub(before);
        section.leave();
        woken
    }

    /// Wakes those who are notified, each in a section of its own. The last one of them, or the caller's if there is no
    /// one, goes on.
    #[inline(always)]
    fn wake_notified<K: Kind>(&self, mut section: Section<K>) -> Section<K> {
        if self.notified().is_empty(&mut section) && !self.rest.is_queued() {
            section
        } else {
            self.wake_some_notified(section)
        }
    }

    /// What found them had a section of its own.
    #[inline(never)]
    fn wake_some_notified<K: Kind>(&self, section: Section<K>) -> Section<K> {
        let section = section.narrow().reopen().lock_object(self.first());
        self.wake_all_but(section, |_| false)
    }

    /// With interrupts off, until another interrupt is pending; the rest is left to a later one.
    #[cold]
    #[inline(never)]
    fn wake_while_calm<K: Kind>(&self, section: Section<K>) -> Section<K> {
        self.wake_all_but(section, |kernel| {
            !self.notified().is_empty(kernel) && deferred::must_give_way()
        })
    }

    /// Each in a section of its own, but those whom `is_left` leaves to a later interrupt.
    #[inline(always)]
    fn wake_all_but<K: Kind>(
        &self,
        mut section: Section<K>,
        is_left: impl Fn(&mut Kernel) -> bool,
    ) -> Section<K> {
        let kind = section.kind();
        loop {
            match self.wake_next(section) {
                Ok(woken) => woken.leave(),
                Err(mut section) => {
                    self.rest.done(&mut section, self.first());
                    return section;
                }
            }
            section = self.enter_again(kind);
            if is_left(&mut section) {
                self.rest.queue(section, self.first(), self);
                return self.enter_again(kind);
            }
        }
    }

    #[inline(always)]
    fn enter_again<K: Kind>(&self, kind: K) -> Section<K> {
        kind.enter_again().lock_object(self.first())
    }

    /// Wakes the first of those who are notified; gives the section back as it was if there is none.
    #[inline(always)]
    fn wake_next<K: Kind>(&self, section: Section<K>) -> Result<Section<K, Scheduled>, Section<K>> {
        let woken = wait::wake_first(section, self.notified())?;
        increment(&self.nr_woken);
        Ok(woken)
    }

    /// # Safety
    /// It is told of a condition that is alive until the section ends.
    unsafe fn step(object: *const (), mut section: Section<Any>) {
        // SAFETY: the caller's duty.
        let condition = unsafe { &*object.cast::<Self>() };
        let next = condition.notified().pop(&mut section);
        if condition.notified().is_empty(&mut section) {
            condition.rest.done(&mut section, condition.first());
        }
        let Some(next) = next else {
            return section.leave_quietly();
        };
        increment(&condition.nr_woken);
        sched::wake_taken(section, TcbRef::of(next)).leave();
    }
}

/// Of what changes inside a section only.
#[inline(always)]
fn increment(count: &AtomicUsize) {
    count.store(count.load(Relaxed).wrapping_add(1), Relaxed);
}
