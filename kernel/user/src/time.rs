//! The time since the machine was switched on, and lengths of time, both in nanoseconds; and what the CPU's own counter says.

use core::arch::x86_64::_rdtsc;
use core::ops::{Add, AddAssign, Mul, Sub};

use crate::syscall;

/// A length of time in nanoseconds. Sums and products end at the longest, differences at none.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default, Hash)]
#[repr(transparent)]
pub struct Nanos(u64);

impl Nanos {
    /// No time.
    pub const ZERO: Self = Self(0);

    /// So many of them.
    #[must_use]
    pub const fn new(count: u64) -> Self {
        Self(count)
    }

    /// So many microseconds.
    #[must_use]
    pub const fn from_micros(count: u64) -> Self {
        Self(count.saturating_mul(1_000))
    }

    /// So many milliseconds.
    #[must_use]
    pub const fn from_millis(count: u64) -> Self {
        Self(count.saturating_mul(1_000_000))
    }

    /// How many they are.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0
    }
}

impl Add for Nanos {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl Sub for Nanos {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

impl Mul<u64> for Nanos {
    type Output = Self;

    fn mul(self, times: u64) -> Self {
        Self(self.0.saturating_mul(times))
    }
}

/// A point in time: so many nanoseconds after the machine was switched on.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[repr(transparent)]
pub struct Instant(u64);

impl Instant {
    /// When the machine was switched on.
    pub const ZERO: Self = Self(0);
    /// Later than everything: for ever.
    pub const NEVER: Self = Self(u64::MAX);

    /// Now.
    #[must_use]
    pub fn now() -> Self {
        Self(syscall::time())
    }

    /// This long from now.
    #[must_use]
    pub fn after(time: Nanos) -> Self {
        Self::now() + time
    }

    /// The one so many nanoseconds after [`ZERO`](Self::ZERO), as calls have it.
    #[must_use]
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// How many nanoseconds after [`ZERO`](Self::ZERO) it is, as calls have it.
    #[must_use]
    pub const fn nanos(self) -> u64 {
        self.0
    }
}

impl Add<Nanos> for Instant {
    type Output = Self;

    /// So much later, at most [`Instant::NEVER`].
    fn add(self, time: Nanos) -> Self {
        Self(self.0.saturating_add(time.0))
    }
}

impl AddAssign<Nanos> for Instant {
    fn add_assign(&mut self, time: Nanos) {
        *self = *self + time;
    }
}

impl Sub for Instant {
    type Output = Nanos;

    /// How long it is after `earlier`; no time if it is before.
    fn sub(self, earlier: Self) -> Nanos {
        Nanos(self.0.saturating_sub(earlier.0))
    }
}

/// A point in time by the time stamp counter, in its cycles.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[repr(transparent)]
pub struct Cycles(u64);

impl Cycles {
    /// Before all others.
    pub const ZERO: Self = Self(0);

    /// Now: one instruction, without a call of the kernel.
    #[inline(always)]
    #[must_use]
    pub fn now() -> Self {
        // SAFETY: it reads a counter, which the kernel allows every task.
        Self(unsafe { _rdtsc() })
    }

    /// What the counter said, as calls have it.
    #[must_use]
    pub const fn new(count: u64) -> Self {
        Self(count)
    }

    /// What the counter said.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0
    }
}
