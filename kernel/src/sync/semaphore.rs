//! Counting semaphore.
//!
//! The count is one atomic word. While no one waits, give and take are a compare-and-swap each and never enter a
//! kernel section. `-1` says that someone waits: then everyone takes the slow path.

use core::sync::atomic::{
    AtomicI32,
    Ordering::{Acquire, Relaxed, Release},
};

use crate::arch::lock_prefix::locked_if_smp;
use crate::arch::proof;
use crate::clock::Instant;
use crate::error::Error;
use crate::sched;
use crate::section::{self, Section, Thread, Waiters};
use crate::switch::{self, AtOnce, Handoff};
use crate::wait;

const CONTENDED: i32 = -1;

/// A counting semaphore.
///
/// ```ignore
#[doc = include_str!("examples/semaphore.rs")]
/// ```
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
        let count = self.count.load(Relaxed);
        if count >= 0 {
            if count == self.max {
                return Err(Error::Overflow);
            }
            let given =
                locked_if_smp!(
                    self.count
                        .compare_exchange(count, count + 1, Release, Relaxed)
                );
            if given.is_ok() {
                return Ok(());
            }
        }
        self.begin_give().finish()
    }

    #[inline(never)]
    fn begin_give(&self) -> Handoff {
        let mut section = section::enter_object(&self.waiters);
        let (waiters, links) = section.waiting(&self.waiters);
        if let Some((tid, _)) = waiters.pop(links) {
            if waiters.is_empty() {
                self.count.store(0, Relaxed);
            }
            return switch::wake_taken::<_, AtOnce>(section, tid);
        }
        let result = self.give_without_waiter();
        Handoff::stay(section, result)
    }

    /// The last waiter's time-out came in between, or another CPU was quicker than the fast path.
    #[cold]
    #[inline(never)]
    fn give_without_waiter(&self) -> Result<(), Error> {
        loop {
            let count = self.count.load(Relaxed);
            let permits = count.max(0);
            if permits == self.max {
                return Err(Error::Overflow);
            }
            let given =
                locked_if_smp!(
                    self.count
                        .compare_exchange(count, permits + 1, Release, Relaxed)
                );
            if given.is_ok() {
                return Ok(());
            }
            proof::not_alone!("nobody else takes or gives a permit meanwhile");
        }
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
        let count = self.count.load(Relaxed);
        if count <= 0 {
            return Err(Error::WouldBlock);
        }
        let taken = locked_if_smp!(
            self.count
                .compare_exchange(count, count - 1, Acquire, Relaxed)
        );
        if taken.is_ok() {
            return Ok(());
        }
        self.try_take_again()
    }

    /// Another CPU, or an interrupt, was quicker. Apart, since a loop in the fast path would be aligned by a NOP.
    #[cold]
    #[inline(never)]
    fn try_take_again(&self) -> Result<(), Error> {
        loop {
            let count = self.count.load(Relaxed);
            if count <= 0 {
                return Err(Error::WouldBlock);
            }
            let taken =
                locked_if_smp!(
                    self.count
                        .compare_exchange(count, count - 1, Acquire, Relaxed)
                );
            if taken.is_ok() {
                return Ok(());
            }
            proof::bounded!("tries to take a permit that others take or give meanwhile");
        }
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
        self.taken(begin_take(self, deadline))
    }

    /// [`take_until`](Self::take_until) by a thread that may wait, and that announces its wait also where there is no time-out: then
    /// its time-out, if others have that come, ends it.
    #[cfg(feature = "tasks")]
    pub(crate) fn take_as_announced(&self, deadline: Instant) -> Result<(), Error> {
        let section = section::enter_object_thread(&self.waiters);
        self.taken(self.begin_take_until(section, deadline))
    }

    /// The second half of taking one.
    #[inline(always)]
    fn taken(&self, begun: Handoff) -> Result<(), Error> {
        let result = begun.finish();
        if result == Err(Error::TimedOut) {
            self.give_up();
        }
        result
    }

    /// Apart, since what others left takes a call to look at.
    #[inline(never)]
    fn begin_take_again(&self, section: Section<Thread>) -> Handoff {
        if self.contend_again() {
            return Handoff::stay(section, Ok(()));
        }
        wait::block_behind_others(section, &self.waiters)
    }

    /// Apart, since this wait goes in steps.
    #[inline(never)]
    fn begin_take_until(&self, section: Section<Thread>, deadline: Instant) -> Handoff {
        if self.contend() {
            return Handoff::stay(section, Ok(()));
        }
        let woken = wait::wait_until(section, &self.waiters, deadline);
        Handoff::done(woken.result())
    }

    /// Says that someone waits; or takes a permit after all, and says true.
    #[inline(always)]
    fn contend(&self) -> bool {
        let first = locked_if_smp!(self.count.compare_exchange(0, CONTENDED, Relaxed, Relaxed));
        first.is_err() && self.contend_again()
    }

    /// Someone waits already, or a permit has come since the fast path looked; and other CPUs' fast paths may still take
    /// and give.
    #[cold]
    #[inline(never)]
    fn contend_again(&self) -> bool {
        loop {
            if self.try_take().is_ok() {
                return true;
            }
            match locked_if_smp!(self.count.compare_exchange(0, CONTENDED, Relaxed, Relaxed)) {
                Ok(_) | Err(CONTENDED) => return false,
                Err(_) => proof::not_alone!("nobody else takes or gives a permit meanwhile"),
            }
        }
    }

    /// After a time-out, which took the thread out of the queue: without waiters the fast path is open again.
    #[cold]
    fn give_up(&self) {
        let mut section = section::enter_object_thread(&self.waiters);
        if self.waiters.is_empty(&mut section) {
            let _ = locked_if_smp!(self.count.compare_exchange(CONTENDED, 0, Relaxed, Relaxed));
        }
        section.leave_quietly();
    }
}

/// Without an entry for the function tracer, which would be a hundredth of a wait: it ends before the wait begins, and
/// `sched_switch` tells of that.
#[inline(never)]
#[cfg_attr(
    feature = "function",
    patchable_function_entry(prefix_nops = 0, entry_nops = 0)
)]
fn begin_take(semaphore: &Semaphore, deadline: Instant) -> Handoff {
    if !sched::may_block() {
        core::hint::cold_path();
        return Handoff::wrong_context();
    }
    let section = section::enter_object_thread(&semaphore.waiters);
    if deadline != Instant::NEVER {
        return semaphore.begin_take_until(section, deadline);
    }
    let count = &semaphore.count;
    let first = locked_if_smp!(count.compare_exchange(0, CONTENDED, Relaxed, Relaxed));
    if first.is_err() {
        core::hint::cold_path();
        return semaphore.begin_take_again(section);
    }
    wait::block(section, &semaphore.waiters)
}
