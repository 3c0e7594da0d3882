//! Names of threads and timers, the importance of threads, and what deadlines are.
//!
//! A thread and its priority are one byte each, so that queue heads, links and trace records name
//! a thread in 8 bits.

/// A thread of the system, by its number.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(transparent)]
pub struct ThreadId(u8);

impl ThreadId {
    /// The thread of this number.
    #[inline(always)]
    #[must_use]
    pub const fn new(raw: u8) -> Self {
        Self(raw)
    }

    /// The number as an index into the tables of threads.
    #[inline(always)]
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }

    /// The number.
    #[inline(always)]
    #[must_use]
    pub const fn raw(self) -> u8 {
        self.0
    }
}

/// How important a thread is: 0 to 99, 99 the most important, as `SCHED_FIFO` counts.
///
/// Kept as its [rank](Self::rank), which is the level of the queues that hold threads of this
/// priority: no queue has to compute it.
///
/// There is deliberately no `Ord`: "greater" says nothing where one kernel counts up and the
/// next counts down. Ask [`is_more_important_than`](Self::is_more_important_than).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(transparent)]
pub struct Priority(u8);

impl Priority {
    /// The least important priority, 0.
    pub const MIN: Self = Self(99);
    /// The most important priority, 99.
    pub const MAX: Self = Self(0);
    /// What an idle thread shows: it is in no queue and below all that are.
    pub const IDLE: Self = Self(120);

    /// The priority of this number, if it is one.
    #[inline(always)]
    #[must_use]
    pub const fn new(raw: u8) -> Option<Self> {
        if raw <= 99 {
            Some(Self(99 - raw))
        } else {
            None
        }
    }

    /// The number, 0 to 99; 0 for an idle thread.
    #[inline(always)]
    #[must_use]
    pub const fn raw(self) -> u8 {
        99u8.saturating_sub(self.0)
    }

    /// The number by which ftrace shows a priority, Linux's own: 0 for the most important one, 99,
    /// up to 99 for the least important one, 0; 120 for an idle thread.
    #[inline(always)]
    #[must_use]
    pub const fn rank(self) -> u8 {
        self.0
    }

    /// Whether `self` goes before `other`. False for equals.
    #[inline(always)]
    #[must_use]
    pub const fn is_more_important_than(self, other: Self) -> bool {
        self.0 < other.0
    }

    /// The more important of two.
    #[inline(always)]
    #[must_use]
    pub const fn max_important(a: Self, b: Self) -> Self {
        if b.is_more_important_than(a) { b } else { a }
    }

    /// The priority of a level of a queue, which only ever held priorities.
    #[inline(always)]
    pub(crate) const fn from_level(level: u8) -> Self {
        Self(level)
    }
}

/// A point in time that a timer is armed for. The clock is the user's, and this its type.
pub trait Deadline: Copy + Ord {
    /// When the clock began: no deadline is before it.
    const ZERO: Self;
    /// The deadline that never comes, later than all others.
    const NEVER: Self;

    /// In cycles of the clock since it began, of which [`NEVER`](Self::NEVER) has `u64::MAX`. Deadlines are in the order of these.
    #[must_use]
    fn cycles(self) -> u64;
}

/// Cycles of whatever clock.
impl Deadline for u64 {
    const ZERO: Self = 0;
    const NEVER: Self = Self::MAX;

    #[inline(always)]
    fn cycles(self) -> u64 {
        self
    }
}

/// A timer of the system, by its number.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(transparent)]
pub struct TimerId(u16);

impl TimerId {
    /// The timer of this number.
    #[inline(always)]
    #[must_use]
    pub const fn new(raw: u16) -> Self {
        Self(raw)
    }

    /// The number as an index into the tables of timers.
    #[inline]
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }

    /// The number.
    #[inline]
    #[must_use]
    pub const fn raw(self) -> u16 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn priority_ends_at_99() {
        assert_eq!(Priority::new(0), Some(Priority::MIN));
        assert_eq!(Priority::new(99), Some(Priority::MAX));
        assert_eq!(Priority::new(100), None);
        assert_eq!(Priority::new(255), None);
    }

    #[test]
    fn importance_is_strict() {
        assert!(Priority::MAX.is_more_important_than(Priority::MIN));
        assert!(!Priority::MIN.is_more_important_than(Priority::MAX));
        assert!(!Priority::MAX.is_more_important_than(Priority::MAX));
        assert_eq!(
            Priority::max_important(Priority::MIN, Priority::MAX),
            Priority::MAX
        );
        assert_eq!(
            Priority::max_important(Priority::MAX, Priority::MIN),
            Priority::MAX
        );
    }

    #[test]
    fn rank_is_linuxs() {
        assert_eq!(Priority::new(95).map(Priority::rank), Some(4));
        assert_eq!(Priority::new(95).map(Priority::raw), Some(95));
        assert_eq!((Priority::IDLE.rank(), Priority::IDLE.raw()), (120, 0));
    }

    #[test]
    fn thread_id_keeps_its_number() {
        assert_eq!(ThreadId::new(255).index(), 255);
        assert_eq!(ThreadId::new(7).raw(), 7);
    }
}
