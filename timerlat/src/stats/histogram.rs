//! The histogram that the guest fills: a counter for every nanosecond where it matters, and
//! ever wider buckets above.
//!
//! Below [`LINEAR`] every value has a bucket of its own, so minimum, maximum and percentiles are
//! exact. From there to 2^[`TOP_BITS`] ns (18 minutes) each power of two is cut into 256 buckets,
//! so a value is known to 1/256 of itself. What is larger still is counted as overflow.
//!
//! Where the exact part ends is a capacity of the image (`TAKT_HISTOGRAM_BITS`). The status block says which
//! it has, and the host, which reads images of any, counts by a [`Scale`].

use core::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// Binary logarithm of [`LINEAR`].
#[cfg(feature = "workload")]
pub const LINEAR_BITS: u32 = takt_kernel::config::HISTOGRAM_BITS as u32;
/// Binary logarithm of [`LINEAR`].
#[cfg(not(feature = "workload"))]
pub const LINEAR_BITS: u32 = 12;
/// Values below this have a bucket of 1 ns each.
pub const LINEAR: usize = Scale::OWN.linear();
/// Binary logarithm of the number of buckets into which each power of two above is cut.
pub const SUB_BITS: u32 = 8;
/// Values of 2^`TOP_BITS` ns and more are overflow.
pub const TOP_BITS: u32 = 40;
/// Number of buckets of the logarithmic part.
pub const NR_LOG: usize = Scale::OWN.nr_buckets() - LINEAR;

const _: () = assert!(
    Scale::new(LINEAR_BITS).is_some(),
    "TAKT_HISTOGRAM_BITS is not from 8 to 24"
);

/// Which values the buckets of a histogram count: those of 1 ns first, then the wider ones.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Scale {
    linear_bits: u32,
}

impl Scale {
    /// That of the histograms of this build.
    pub const OWN: Self = Self {
        linear_bits: LINEAR_BITS,
    };

    /// The one whose values below 2^`linear_bits` ns are exact; `None` if that is not from 8 to 24.
    #[must_use]
    pub const fn new(linear_bits: u32) -> Option<Self> {
        match linear_bits {
            SUB_BITS..=24 => Some(Self { linear_bits }),
            _ => None,
        }
    }

    /// Binary logarithm of [`linear`](Self::linear).
    #[must_use]
    pub const fn linear_bits(self) -> u32 {
        self.linear_bits
    }

    /// Values below this have a bucket each; and the number of those buckets.
    #[must_use]
    pub const fn linear(self) -> usize {
        1 << self.linear_bits
    }

    /// Number of all buckets.
    #[must_use]
    pub const fn nr_buckets(self) -> usize {
        self.linear() + (((TOP_BITS - self.linear_bits) as usize) << SUB_BITS)
    }

    /// Index among the wider buckets of a value of at least [`linear`](Self::linear); beyond them if the value is overflow.
    const fn log_index(self, ns: u64) -> usize {
        let exponent = 63 - (ns | 1).leading_zeros();
        let octave = exponent.saturating_sub(self.linear_bits) as usize;
        let sub = (ns >> exponent.saturating_sub(SUB_BITS)) as usize & ((1 << SUB_BITS) - 1);
        (octave << SUB_BITS) | sub
    }

    /// The bucket that counts a value of less than 2^[`TOP_BITS`].
    #[must_use]
    pub const fn bucket_of(self, ns: u64) -> usize {
        if ns < self.linear() as u64 {
            return ns as usize;
        }
        self.linear() + self.log_index(ns)
    }

    /// The smallest value that bucket `index` counts.
    #[must_use]
    pub const fn bucket_low(self, index: usize) -> u64 {
        if index < self.linear() {
            return index as u64;
        }
        let (shift, sub) = self.log_parts(index);
        ((1 << SUB_BITS) + sub) << shift
    }

    /// The largest value that bucket `index` counts. It stands for the bucket in reports, so that a
    /// latency is never understated.
    #[must_use]
    pub const fn bucket_high(self, index: usize) -> u64 {
        if index < self.linear() {
            return index as u64;
        }
        let (shift, _) = self.log_parts(index);
        self.bucket_low(index) + (1 << shift) - 1
    }

    /// Binary logarithm of the width of logarithmic bucket `index`, and its place in its octave.
    const fn log_parts(self, index: usize) -> (u32, u64) {
        let log = index - self.linear();
        let octave = (log >> SUB_BITS) as u32;
        (
            self.linear_bits - SUB_BITS + octave,
            (log & ((1 << SUB_BITS) - 1)) as u64,
        )
    }
}

impl Default for Scale {
    fn default() -> Self {
        Self::OWN
    }
}

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
        bump(
            self.log
                .get(Scale::OWN.log_index(ns))
                .unwrap_or(&self.overflow),
        );
    }

    /// The filled buckets in ascending order: the largest value of each and its count.
    pub fn buckets(&self) -> impl Iterator<Item = (u64, u32)> {
        self.linear
            .iter()
            .chain(&self.log)
            .enumerate()
            .map(|(index, counter)| (Scale::OWN.bucket_high(index), counter.load(Relaxed)))
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

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::{boxed::Box, vec::Vec};

    fn boxed() -> Box<Histogram> {
        Box::new(Histogram::new())
    }

    fn scales() -> impl Iterator<Item = Scale> {
        [8, 12, 16, 20].into_iter().filter_map(Scale::new)
    }

    #[test]
    fn every_bucket_begins_where_the_one_before_ended() {
        for scale in scales() {
            assert_eq!(scale.bucket_low(0), 0);
            let nr = scale.nr_buckets();
            for index in 1..nr {
                let end = scale.bucket_high(index - 1);
                assert_eq!(scale.bucket_low(index), end + 1, "{index} of {scale:?}");
            }
            assert_eq!(scale.bucket_high(nr - 1), (1 << TOP_BITS) - 1);
        }
        assert_eq!((Scale::new(7), Scale::new(25)), (None, None));
    }

    #[test]
    fn the_edges_of_a_logarithmic_bucket_fall_into_it() {
        for scale in scales() {
            for index in scale.linear()..scale.nr_buckets() {
                let (low, high) = (scale.bucket_low(index), scale.bucket_high(index));
                assert_eq!(
                    (scale.bucket_of(low), scale.bucket_of(high)),
                    (index, index)
                );
                assert!((high - low + 1) << SUB_BITS <= low, "{index} of {scale:?}");
            }
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
