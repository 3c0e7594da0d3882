//! The clock: instants in cycles of the TSC, and how long a cycle is.

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::arch::tsc;

/// Frequency of the TSC in Hz; set once at boot.
static TSC_HZ: AtomicU64 = AtomicU64::new(1_000_000_000);
/// Nanoseconds to cycles: `(ns * mult) >> shift`.
static CYCLES_MULT: AtomicU64 = AtomicU64::new(1 << 32);
/// Cycles to nanoseconds: `(cycles * mult) >> 32`.
static NANOS_MULT: AtomicU64 = AtomicU64::new(1 << 32);

/// A point in time, in cycles of the TSC.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[repr(transparent)]
pub struct Instant(u64);

impl Instant {
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

    /// This many nanoseconds from now.
    #[must_use]
    pub fn after_nanos(nanos: u64) -> Self {
        Self::now() + nanos_to_cycles(nanos)
    }
}

impl core::ops::Add<u64> for Instant {
    type Output = Self;

    /// An instant that many cycles later.
    #[inline(always)]
    fn add(self, cycles: u64) -> Self {
        Self(self.0.saturating_add(cycles))
    }
}

/// Tells the kernel the frequency of the TSC. At boot, before any timer.
pub fn set_tsc_hz(hz: u64) {
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

/// Nanoseconds to cycles, rounded down; `u64::MAX` for what is more.
#[inline]
#[must_use]
pub fn nanos_to_cycles(nanos: u64) -> u64 {
    scale(nanos, &CYCLES_MULT)
}

/// Cycles to nanoseconds, rounded down; `u64::MAX` for what is more.
#[inline]
#[must_use]
pub fn cycles_to_nanos(cycles: u64) -> u64 {
    scale(cycles, &NANOS_MULT)
}
