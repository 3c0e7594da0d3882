//! How an operation is measured: alone, between two serialized readings of the TSC, less what those take; the mean of
//! each batch, and of those the median.

use std::arch::x86_64::{_mm_lfence, _rdtsc};

use crate::memory;

/// Operations of a batch.
pub const BATCH: usize = 64;
const NR_BATCHES: usize = 101;

/// Before each operation the structure is where the one before has left it, or in no cache.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Caches {
    Warm,
    Flushed,
}

/// Measures operations.
pub struct Clock {
    caches: Caches,
    own: u64,
    total: u64,
}

fn stamp() -> u64 {
    // SAFETY: SSE2 is part of the architecture.
    unsafe { _mm_lfence() };
    // SAFETY: reads the TSC.
    let now = unsafe { _rdtsc() };
    // SAFETY: as above.
    unsafe { _mm_lfence() };
    now
}

impl Clock {
    /// Measures an operation.
    #[inline(always)]
    pub fn time<R>(&mut self, act: impl FnOnce() -> R) -> R {
        if self.caches == Caches::Flushed {
            memory::flush();
        }
        let before = stamp();
        let result = std::hint::black_box(act());
        let after = stamp();
        self.total += (after - before).saturating_sub(self.own);
        result
    }
}

/// The median of batches, in cycles of an operation: `batch` begins anew each time and measures [`BATCH`] of them.
fn median(caches: Caches, mut batch: impl FnMut(&mut Clock)) -> u64 {
    let own = (0..1_000)
        .map(|_| (stamp(), stamp()))
        .map(|(a, b)| b - a)
        .min();
    let mut means: Vec<_> = (0..NR_BATCHES)
        .map(|_| {
            let mut clock = Clock {
                caches,
                own: own.unwrap_or(0),
                total: 0,
            };
            memory::inside(|| batch(&mut clock));
            clock.total / BATCH as u64
        })
        .collect();
    means.sort_unstable();
    means[NR_BATCHES / 2]
}

/// Measures and prints a row.
pub fn row(what: &str, structure: &str, nr: usize, mut batch: impl FnMut(&mut Clock)) {
    let [warm, flushed] = [Caches::Warm, Caches::Flushed].map(|caches| median(caches, &mut batch));
    println!("{what:<24} {structure:<22} {nr:>6} {warm:>8} {flushed:>8}");
}

/// A xorshift generator.
pub struct Random(pub u64);

impl Random {
    pub fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 20) % limit
    }
}
