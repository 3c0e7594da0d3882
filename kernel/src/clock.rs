//! The clock: instants in cycles of the TSC, lengths of time in cycles and in nanoseconds, and how long a cycle is.

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::arch::tsc;

/// Frequency of the TSC in Hz; set once at boot.
static TSC_HZ: AtomicU64 = AtomicU64::new(1_000_000_000);
/// Nanoseconds to cycles: `(ns * mult) >> 32`.
static CYCLES_MULT: AtomicU64 = AtomicU64::new(1 << 32);
/// Cycles to nanoseconds: `(cycles * mult) >> 32`.
static NANOS_MULT: AtomicU64 = AtomicU64::new(1 << 32);

/// What both units of time can do. Sums and products end at the longest time, differences at none: what is too long to
/// count never comes.
macro_rules! unit {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default, Hash)]
        #[repr(transparent)]
        pub struct $name(u64);

        impl $name {
            /// No time.
            pub const ZERO: Self = Self(0);
            /// The longest time that can be counted.
            pub const MAX: Self = Self(u64::MAX);

            /// So many of them.
            #[inline(always)]
            #[must_use]
            pub const fn new(count: u64) -> Self {
                Self(count)
            }

            /// How many they are.
            #[inline(always)]
            #[must_use]
            pub const fn get(self) -> u64 {
                self.0
            }
        }

        impl core::ops::Add for $name {
            type Output = Self;

            #[inline(always)]
            fn add(self, other: Self) -> Self {
                Self(self.0.saturating_add(other.0))
            }
        }

        impl core::ops::Sub for $name {
            type Output = Self;

            #[inline(always)]
            fn sub(self, other: Self) -> Self {
                Self(self.0.saturating_sub(other.0))
            }
        }

        impl core::ops::Mul<u64> for $name {
            type Output = Self;

            #[inline(always)]
            fn mul(self, times: u64) -> Self {
                Self(self.0.saturating_mul(times))
            }
        }

        impl core::ops::Div<u64> for $name {
            type Output = Self;

            /// # Panics
            /// If `parts` is 0.
            #[inline(always)]
            fn div(self, parts: u64) -> Self {
                Self(self.0 / parts)
            }
        }
    };
}

unit! {
    /// A length of time in cycles of the TSC: what the kernel counts in.
    Cycles
}

unit! {
    /// A length of time in nanoseconds: what people and settings count in.
    Nanos
}

impl Cycles {
    /// In nanoseconds, rounded down; [`Nanos::MAX`] for what is more.
    #[inline]
    #[must_use]
    pub fn to_nanos(self) -> Nanos {
        Nanos(scale(self.0, &NANOS_MULT))
    }
}

impl Nanos {
    /// So many microseconds.
    #[inline(always)]
    #[must_use]
    pub const fn from_micros(count: u64) -> Self {
        Self(count.saturating_mul(1_000))
    }

    /// So many milliseconds.
    #[inline(always)]
    #[must_use]
    pub const fn from_millis(count: u64) -> Self {
        Self(count.saturating_mul(1_000_000))
    }

    /// So many seconds.
    #[inline(always)]
    #[must_use]
    pub const fn from_secs(count: u64) -> Self {
        Self(count.saturating_mul(1_000_000_000))
    }

    /// In cycles of the TSC, rounded down; [`Cycles::MAX`] for what is more.
    #[inline]
    #[must_use]
    pub fn to_cycles(self) -> Cycles {
        Cycles(scale(self.0, &CYCLES_MULT))
    }
}

/// A point in time, in cycles of the TSC.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[repr(transparent)]
pub struct Instant(u64);

impl Instant {
    /// When the counter was 0: the machine's start, or a moment before.
    pub const ZERO: Self = Self(0);
    /// Later than everything: no time-out.
    pub const NEVER: Self = Self(u64::MAX);

    /// Now.
    #[inline(always)]
    #[must_use]
    pub fn now() -> Self {
        Self(tsc::now())
    }

    /// The instant with this TSC value.
    #[inline(always)]
    #[must_use]
    pub const fn from_cycles(cycles: u64) -> Self {
        Self(cycles)
    }

    /// Its TSC value.
    #[inline(always)]
    #[must_use]
    pub const fn cycles(self) -> u64 {
        self.0
    }

    /// This long from now.
    #[must_use]
    pub fn after(time: Nanos) -> Self {
        Self::now() + time.to_cycles()
    }
}

impl Instant {
    /// How long it is after `earlier`, which it is not before: else the difference modulo 2<sup>64</sup>. One instruction, where
    /// `-` takes three.
    #[inline(always)]
    #[must_use]
    pub const fn wrapping_since(self, earlier: Self) -> Cycles {
        Cycles(self.0.wrapping_sub(earlier.0))
    }

    /// So much later, which is before [`Instant::NEVER`]: else the sum modulo 2<sup>64</sup>. One instruction, where `+` takes three.
    #[inline(always)]
    #[must_use]
    pub const fn wrapping_add(self, time: Cycles) -> Self {
        Self(self.0.wrapping_add(time.0))
    }

    /// So much earlier, which is not before [`Instant::ZERO`]: else the difference modulo 2<sup>64</sup>.
    #[inline(always)]
    #[must_use]
    pub const fn wrapping_sub(self, time: Cycles) -> Self {
        Self(self.0.wrapping_sub(time.0))
    }

    /// The last instant not after it that is a multiple of `period` after [`Instant::ZERO`].
    ///
    /// # Panics
    /// If `period` is no time.
    #[inline(always)]
    #[must_use]
    pub const fn previous_multiple_of(self, period: Cycles) -> Self {
        Self(self.0 / period.0 * period.0)
    }

    /// The first instant not before it that is a multiple of `period` after [`Instant::ZERO`], or [`Instant::NEVER`] if that comes
    /// first.
    ///
    /// # Panics
    /// If `period` is no time.
    #[inline(always)]
    #[must_use]
    pub const fn next_multiple_of(self, period: Cycles) -> Self {
        match self.0.checked_next_multiple_of(period.0) {
            Some(instant) => Self(instant),
            None if period.0 == 0 => panic!("a period of no time"),
            None => Self::NEVER,
        }
    }
}

impl core::ops::Add<Cycles> for Instant {
    type Output = Self;

    /// So much later, at most [`Instant::NEVER`].
    #[inline(always)]
    fn add(self, time: Cycles) -> Self {
        Self(self.0.saturating_add(time.0))
    }
}

impl core::ops::AddAssign<Cycles> for Instant {
    #[inline(always)]
    fn add_assign(&mut self, time: Cycles) {
        *self = *self + time;
    }
}

impl core::ops::Sub<Cycles> for Instant {
    type Output = Self;

    /// So much earlier, at the earliest [`Instant::ZERO`].
    #[inline(always)]
    fn sub(self, time: Cycles) -> Self {
        Self(self.0.saturating_sub(time.0))
    }
}

impl core::ops::Sub for Instant {
    type Output = Cycles;

    /// How long it is after `earlier`; no time if it is before.
    #[inline(always)]
    fn sub(self, earlier: Self) -> Cycles {
        Cycles(self.0.saturating_sub(earlier.0))
    }
}

impl takt_scheduler::Deadline for Instant {
    const ZERO: Self = Self::ZERO;
    const NEVER: Self = Self::NEVER;

    #[inline(always)]
    fn cycles(self) -> u64 {
        self.0
    }
}

/// A time that is written while others read it: each access is one instruction, which orders nothing else.
macro_rules! atomic {
    ($(#[$doc:meta])* $name:ident of $unit:ident) => {
        $(#[$doc])*
        #[derive(Debug)]
        #[repr(transparent)]
        pub struct $name(AtomicU64);

        impl $name {
            /// It begins with that.
            #[must_use]
            pub const fn new(value: $unit) -> Self {
                Self(AtomicU64::new(value.0))
            }

            /// What it is now.
            #[inline(always)]
            #[must_use]
            pub fn load(&self) -> $unit {
                $unit(self.0.load(Relaxed))
            }

            /// Sets it.
            #[inline(always)]
            pub fn store(&self, value: $unit) {
                self.0.store(value.0, Relaxed);
            }

            /// Sets it; gives what it was.
            #[inline(always)]
            pub fn swap(&self, value: $unit) -> $unit {
                $unit(self.0.swap(value.0, Relaxed))
            }
        }
    };
}

atomic! {
    /// A length of time in cycles, as a word that contexts share.
    AtomicCycles of Cycles
}

atomic! {
    /// A point in time, as a word that contexts share.
    AtomicInstant of Instant
}

impl AtomicCycles {
    /// So much more, at once.
    #[inline(always)]
    pub(crate) fn add(&self, time: Cycles) {
        self.0.fetch_add(time.0, Relaxed);
    }
}

/// Notes the frequency of the TSC. At boot, before any timer.
pub(crate) fn set_tsc_hz(hz: u64) {
    let hz = hz.max(1);
    TSC_HZ.store(hz, Relaxed);
    CYCLES_MULT.store(((u128::from(hz) << 32) / 1_000_000_000) as u64, Relaxed);
    NANOS_MULT.store(((1_000_000_000u128 << 32) / u128::from(hz)) as u64, Relaxed);
}

/// Frequency of the TSC in Hz.
#[must_use]
pub fn tsc_hz() -> u64 {
    TSC_HZ.load(Relaxed)
}

/// `(value * mult) >> 32`, or the largest number: what is too long to count never comes.
#[inline]
fn scale(value: u64, mult: &AtomicU64) -> u64 {
    let scaled = (u128::from(value) * u128::from(mult.load(Relaxed))) >> 32;
    u64::try_from(scaled).unwrap_or(u64::MAX)
}
