//! Reading the time.
//!
//! A measurement is the difference of two readings of the TSC's low half, which under icount is the number of
//! instructions from the first `rdtsc` to the second. It contains the first `rdtsc` itself and the `mov` that keeps
//! its result: [`own_cost`] measures that. Rows are printed as they come out, with the own cost in a row beside them.

use core::arch::asm;
use core::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// The low half of the TSC.
///
/// Not `nomem`: no access to memory moves across it.
#[inline(always)]
pub fn stamp() -> u32 {
    let low: u32;
    // SAFETY: RDTSC is always there in long mode, and CR4.TSD is never set.
    unsafe { asm!("rdtsc", out("eax") low, out("edx") _, options(nostack, preserves_flags)) };
    low
}

/// What two readings in a row differ by.
#[inline(never)]
pub fn own_cost() -> u32 {
    let first = stamp();
    let second = stamp();
    second.wrapping_sub(first)
}

/// A time that one thread notes and another compares with.
pub struct Mark(AtomicU32);

impl Mark {
    /// Never noted.
    #[must_use]
    pub const fn new() -> Self {
        Self(AtomicU32::new(0))
    }

    /// Notes the time: `rdtsc`, `mov`.
    #[inline(always)]
    pub fn set(&self) {
        self.0.store(stamp(), Relaxed);
    }

    /// Instructions since then.
    #[inline(always)]
    pub fn since(&self) -> u32 {
        self.until(stamp())
    }

    /// Instructions from then to a reading of the time.
    #[inline(always)]
    pub fn until(&self, stamp: u32) -> u32 {
        stamp.wrapping_sub(self.0.load(Relaxed))
    }
}

impl Default for Mark {
    fn default() -> Self {
        Self::new()
    }
}

/// Where a measurement that crosses threads begins.
#[unsafe(export_name = "takt_bench_start")]
pub static START: Mark = Mark::new();

/// A result that is noted in one thread and reported in another.
pub struct Value(AtomicU32);

impl Value {
    /// Zero.
    #[must_use]
    pub const fn new() -> Self {
        Self(AtomicU32::new(0))
    }

    /// Notes the instructions since [`START`] was set.
    #[inline(always)]
    pub fn take(&self) {
        let value = START.since();
        self.0.store(value, Relaxed);
    }

    /// Adds one, as a benchmark's own counter does.
    #[inline(always)]
    pub fn count(&self) {
        self.0.store(self.0.load(Relaxed).wrapping_add(1), Relaxed);
    }

    /// The value.
    #[inline(always)]
    pub fn get(&self) -> u32 {
        self.0.load(Relaxed)
    }

    /// Sets it.
    #[inline(always)]
    pub fn set(&self, value: u32) {
        self.0.store(value, Relaxed);
    }
}

impl Default for Value {
    fn default() -> Self {
        Self::new()
    }
}

/// Total divided by count, rounded to the nearest.
#[must_use]
pub fn average(total: u32, count: u32) -> u32 {
    (total + count / 2) / count
}
