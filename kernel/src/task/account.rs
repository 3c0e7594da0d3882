//! What a task may still run in its period, and what it has run.
//!
//! A budget is a deferrable server: it is whole again when a period begins, on a grid of periods that began with the task, and what
//! was left of the one before is lost. So nothing has to be kept of what was used when, and nothing has to be done when a
//! period begins but for a task that waits for that. What a task used beyond its budget, until the timer's interrupt was
//! there, or between two of its lives, is taken from the next ones.
//!
//! Source: J. K. Strosnider, J. P. Lehoczky, L. Sha, "The Deferrable Server Algorithm for Enhanced Hard Real-Time Aperiodic
//! Responsiveness in Real-Time Environments", IEEE Transactions on Computers 44 (1), 1995. Its bound: in any time `t` a
//! task with budget `C` and period `T` keeps less important ones from running for at most `C (1 + ⌈(t - C) / T⌉)`, which is twice
//! the budget at a period's end and the next one's beginning.

use core::sync::atomic::{AtomicBool, AtomicI64, AtomicU32, Ordering::Relaxed};

use crate::clock::{AtomicCycles, AtomicInstant, Cycles, Instant};

/// No task lives that one.
pub(super) const NO_LIFE: u32 = u32::MAX;

/// A task's account. It changes with interrupts off on the task's CPU only.
pub(crate) struct Account {
    /// What it may run in a period; 0 before its first life.
    budget: AtomicCycles,
    period: AtomicCycles,
    /// Cycles that are left; below zero what was used beyond.
    left: AtomicI64,
    /// Up to when it was charged, while it is.
    since: AtomicInstant,
    /// When the period ends.
    end: AtomicInstant,
    /// In which life the task may be throttled, [`NO_LIFE`] before the first one and behind the last. It is charged between lives, too.
    pub(super) life: AtomicU32,
    /// Whether it was told that nothing is left in this period.
    is_told: AtomicBool,
    /// Whether nothing was left when this period, or a life in it, began.
    is_owing: AtomicBool,
}

impl Account {
    pub(super) const fn new() -> Self {
        Self {
            budget: AtomicCycles::new(Cycles::ZERO),
            period: AtomicCycles::new(Cycles::ZERO),
            left: AtomicI64::new(0),
            since: AtomicInstant::new(Instant::ZERO),
            end: AtomicInstant::new(Instant::ZERO),
            life: AtomicU32::new(NO_LIFE),
            is_told: AtomicBool::new(false),
            is_owing: AtomicBool::new(false),
        }
    }

    /// The first period begins, unless one has. A further life goes on with what the one before has left.
    pub(crate) fn begin(&self, now: Instant, budget: Cycles, period: Cycles) {
        if self.end.load() == Instant::ZERO {
            self.budget.store(budget);
            self.period.store(period);
            self.left.store(budget.get() as i64, Relaxed);
            self.end.store(now.wrapping_add(period));
        }
    }

    /// Whether the task has come to ring 3, and its thread is not done with it.
    #[inline(always)]
    pub(crate) fn is_open(&self) -> bool {
        self.life.load(Relaxed) != NO_LIFE
    }

    /// From now on it is charged. Gives when nothing will be left.
    #[inline(always)]
    pub(crate) fn start(&self, now: Instant) -> Instant {
        self.since.store(now);
        self.renew(now);
        self.exhaustion()
    }

    /// When nothing will be left, as it is charged.
    #[inline(always)]
    pub(crate) fn exhaustion(&self) -> Instant {
        let left = self.left.load(Relaxed).max(0);
        (self.since.load()).wrapping_add(Cycles::new(left as u64))
    }

    /// Whether nothing was left when it was charged last.
    #[inline(always)]
    pub(crate) fn is_used_up(&self) -> bool {
        self.left.load(Relaxed) <= 0
    }

    /// Charges it up to now. Says whether something is left.
    #[inline(always)]
    pub(crate) fn charge(&self, now: Instant) -> bool {
        self.renew(now);
        let used = now - self.since.load();
        let left = self.left.load(Relaxed).saturating_sub(used.get() as i64);
        self.left.store(left, Relaxed);
        self.since.store(now);
        left > 0
    }

    /// If the period has ended, another one has begun.
    #[inline(always)]
    fn renew(&self, now: Instant) {
        if now >= self.end.load() {
            core::hint::cold_path();
            self.renew_at(now);
        }
    }

    #[inline(never)]
    fn renew_at(&self, now: Instant) {
        let (end, period) = (self.end.load(), self.period.load());
        let over = now.wrapping_since(end).get() / period.get();
        let begun = end.wrapping_add(Cycles::new(over * period.get()));
        self.end.store(begun.wrapping_add(period));
        // What it ran before the first of their beginnings was of the period before, and what was left of that is lost.
        let since = self.since.load();
        let before = (end - since).get() as i64;
        let debt = self.left.load(Relaxed).saturating_sub(before).min(0);
        let used = (begun - since.max(end)).get() as i64;
        let budget = self.budget.load().get() as i64;
        let given = budget.saturating_mul(over as i64 + 1);
        let left = debt.saturating_add(given).saturating_sub(used);
        self.left.store(left.min(budget), Relaxed);
        self.since.store(since.max(begun));
        self.is_told.store(false, Relaxed);
        self.is_owing.store(left <= 0, Relaxed);
    }

    /// A life begins, up to which it was charged.
    pub(super) fn begin_life(&self) {
        if self.left.load(Relaxed) <= 0 {
            self.is_owing.store(true, Relaxed);
        }
    }

    /// Whether what is used up in this period was so before it, or by the beginning of a life.
    pub(super) fn is_owing(&self) -> bool {
        self.is_owing.load(Relaxed)
    }

    /// When the period ends.
    pub(crate) fn end(&self) -> Instant {
        self.end.load()
    }

    /// It is told that nothing is left. Says whether that is the first time in this period.
    pub(crate) fn tell(&self) -> bool {
        let is_first = !self.is_told.load(Relaxed);
        self.is_told.store(true, Relaxed);
        is_first
    }
}
