//! The histogram that the guest fills: a counter for every nanosecond where it matters, and
//! ever wider buckets above.
//!
//! Below [`LINEAR`] every value has a bucket of its own, so minimum, maximum and percentiles are
//! exact. From there to 2^[`TOP_BITS`] ns (18 minutes) each power of two is cut into 256 buckets,
//! so a value is known to 1/256 of itself. What is larger still is counted as overflow.

use core::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// Binary logarithm of [`LINEAR`].
pub const LINEAR_BITS: u32 = 16;
/// Values below this have a bucket of 1 ns each.
pub const LINEAR: usize = 1 << LINEAR_BITS;
/// Binary logarithm of the number of buckets into which each power of two above is cut.
pub const SUB_BITS: u32 = 8;
/// Values of 2^`TOP_BITS` ns and more are overflow.
pub const TOP_BITS: u32 = 40;
/// Number of buckets of the logarithmic part.
pub const NR_LOG: usize = ((TOP_BITS - LINEAR_BITS) as usize) << SUB_BITS;
/// Number of all buckets.
pub const NR_BUCKETS: usize = LINEAR + NR_LOG;

const _: () = assert!(LINEAR_BITS >= SUB_BITS && TOP_BITS > LINEAR_BITS && TOP_BITS < 64);

/// Counters of latencies; see the module's documentation.
///
/// One bucket counts to `u32::MAX` and then stays there.
#[repr(C)]
pub struct Histogram {
    /// `linear[ns]` for values below [`LINEAR`].
    pub linear: [AtomicU32; LINEAR],
    /// The rest, up to 2^[`TOP_BITS`].
    pub log: [AtomicU32; NR_LOG],
    /// How many were larger than that.
    pub overflow: AtomicU32,
    /// Keeps the size a multiple of 8 bytes.
    pub reserved: AtomicU32,
}

impl Histogram {
    /// An empty histogram. All zeros, so a static one lies in `.bss`.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            linear: [const { AtomicU32::new(0) }; LINEAR],
            log: [const { AtomicU32::new(0) }; NR_LOG],
            overflow: AtomicU32::new(0),
            reserved: AtomicU32::new(0),
        }
    }

    /// Counts a latency of `ns` nanoseconds.
    ///
    /// # Context
    ///
    /// Any, as long as there is one writer. Never panics, never blocks.
    #[inline]
    pub fn record(&self, ns: u64) {
        match self.linear.get(ns as usize) {
            Some(counter) => bump(counter),
            None => self.record_log(ns),
        }
    }

    /// The rare part of [`record`](Self::record), kept out of line.
    #[cold]
    #[inline(never)]
    fn record_log(&self, ns: u64) {
        bump(self.log.get(log_index(ns)).unwrap_or(&self.overflow));
    }

    /// The filled buckets in ascending order: the largest value of each and its count.
    pub fn buckets(&self) -> impl Iterator<Item = (u64, u32)> {
        self.linear
            .iter()
            .chain(&self.log)
            .enumerate()
            .map(|(index, counter)| (bucket_high(index), counter.load(Relaxed)))
            .filter(|&(_, count)| count != 0)
    }
}

impl Default for Histogram {
    fn default() -> Self {
        Self::new()
    }
}

/// One more, by the single writer of `counter`.
#[inline]
fn bump(counter: &AtomicU32) {
    counter.store(counter.load(Relaxed).saturating_add(1), Relaxed);
}

/// Index into [`Histogram::log`] of a value of at least [`LINEAR`]; [`NR_LOG`] or more if the
/// value is overflow.
const fn log_index(ns: u64) -> usize {
    let exponent = 63 - (ns | 1).leading_zeros();
    let octave = exponent.saturating_sub(LINEAR_BITS) as usize;
    let sub = (ns >> exponent.saturating_sub(SUB_BITS)) as usize & ((1 << SUB_BITS) - 1);
    (octave << SUB_BITS) | sub
}

/// The bucket that counts a value of less than 2^[`TOP_BITS`].
#[must_use]
pub const fn bucket_of(ns: u64) -> usize {
    if ns < LINEAR as u64 {
        return ns as usize;
    }
    LINEAR + log_index(ns)
}

/// The smallest value that bucket `index` counts (linear buckets first, then logarithmic ones).
#[must_use]
pub const fn bucket_low(index: usize) -> u64 {
    if index < LINEAR {
        return index as u64;
    }
    let (shift, sub) = log_parts(index);
    ((1 << SUB_BITS) + sub) << shift
}

/// The largest value that bucket `index` counts. It stands for the bucket in reports, so that a
/// latency is never understated.
#[must_use]
pub const fn bucket_high(index: usize) -> u64 {
    if index < LINEAR {
        return index as u64;
    }
    let (shift, _) = log_parts(index);
    bucket_low(index) + (1 << shift) - 1
}

/// Binary logarithm of the width of logarithmic bucket `index`, and its place in its octave.
const fn log_parts(index: usize) -> (u32, u64) {
    let log = index - LINEAR;
    let octave = (log >> SUB_BITS) as u32;
    (
        LINEAR_BITS - SUB_BITS + octave,
        (log & ((1 << SUB_BITS) - 1)) as u64,
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::{boxed::Box, vec::Vec};

    fn boxed() -> Box<Histogram> {
        Box::new(Histogram::new())
    }

    #[test]
    fn every_bucket_begins_where_the_one_before_ended() {
        assert_eq!(bucket_low(0), 0);
        for index in 1..NR_BUCKETS {
            assert_eq!(bucket_low(index), bucket_high(index - 1) + 1, "{index}");
        }
        assert_eq!(bucket_high(NR_BUCKETS - 1), (1 << TOP_BITS) - 1);
    }

    #[test]
    fn the_edges_of_a_logarithmic_bucket_fall_into_it() {
        for index in LINEAR..NR_BUCKETS {
            assert_eq!(bucket_of(bucket_low(index)), index);
            assert_eq!(bucket_of(bucket_high(index)), index);
            let width = bucket_high(index) - bucket_low(index) + 1;
            assert!(width << SUB_BITS <= bucket_low(index), "{index}");
        }
    }

    #[test]
    fn values_beyond_the_top_are_overflow() {
        let histogram = boxed();
        for ns in [1 << TOP_BITS, u64::MAX] {
            histogram.record(ns);
        }
        assert_eq!(histogram.overflow.load(Relaxed), 2);
        assert_eq!(histogram.buckets().count(), 0);
    }

    #[test]
    fn a_full_bucket_stays_full() {
        let histogram = boxed();
        histogram.linear[7].store(u32::MAX, Relaxed);
        histogram.record(7);
        let all: Vec<_> = histogram.buckets().collect();
        assert_eq!(all, [(7, u32::MAX)]);
    }
}
