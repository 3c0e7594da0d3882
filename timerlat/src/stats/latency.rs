//! [`LatencyStats`]: the running figures of one kind of latency of one measured thread.

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::Histogram;

/// Count, current, minimum, maximum and sum of a latency, and its histogram. Nanoseconds.
#[repr(C)]
pub struct LatencyStats {
    /// Number of samples. Written last.
    pub count: AtomicU64,
    /// The last sample.
    pub cur: AtomicU64,
    /// The smallest sample; 0 while there is none.
    pub min: AtomicU64,
    /// The largest sample.
    pub max: AtomicU64,
    /// Sum of all samples, from which the average is made.
    pub sum: AtomicU64,
    /// How often each value came.
    pub hist: Histogram,
}

impl LatencyStats {
    /// No sample yet. All zeros, so a static one lies in `.bss`.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            count: AtomicU64::new(0),
            cur: AtomicU64::new(0),
            min: AtomicU64::new(0),
            max: AtomicU64::new(0),
            sum: AtomicU64::new(0),
            hist: Histogram::new(),
        }
    }

    /// Takes in a sample of `ns` nanoseconds.
    ///
    /// # Context
    ///
    /// Any, as long as there is one writer. Never panics, never blocks.
    #[inline]
    pub fn record(&self, ns: u64) {
        let count = self.count.load(Relaxed);
        self.cur.store(ns, Relaxed);
        if count == 0 || ns < self.min.load(Relaxed) {
            self.min.store(ns, Relaxed);
        }
        if ns > self.max.load(Relaxed) {
            self.max.store(ns, Relaxed);
        }
        self.sum
            .store(self.sum.load(Relaxed).wrapping_add(ns), Relaxed);
        self.hist.record(ns);
        self.count.store(count.wrapping_add(1), Relaxed);
    }
}

impl Default for LatencyStats {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::boxed::Box;

    #[test]
    fn zero_is_a_sample_like_any_other() {
        let stats = Box::new(LatencyStats::new());
        stats.record(5);
        stats.record(0);
        stats.record(9);
        assert_eq!(stats.count.load(Relaxed), 3);
        assert_eq!(stats.cur.load(Relaxed), 9);
        assert_eq!(stats.min.load(Relaxed), 0);
        assert_eq!(stats.max.load(Relaxed), 9);
        assert_eq!(stats.sum.load(Relaxed), 14);
    }
}
