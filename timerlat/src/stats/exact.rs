//! [`ExactHistogram`]: a distribution on the host, from which percentiles are taken.

use std::collections::BTreeMap;

use super::histogram::Scale;

/// A distribution of latencies in nanoseconds: how often each value came.
///
/// Minimum, maximum, count and sum are those of the samples. A value that stands for a wide bucket
/// (see [`super::histogram`]) is the bucket's largest, at most the maximum.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExactHistogram {
    buckets: BTreeMap<u64, u64>,
    summary: Option<(u64, u64)>,
    count: u64,
    sum: u128,
    overflow: u64,
    scale: Scale,
}

impl ExactHistogram {
    /// No samples.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes in `count` samples of `ns`.
    pub fn record_n(&mut self, ns: u64, count: u64) {
        if count == 0 {
            return;
        }
        *self.buckets.entry(ns).or_default() += count;
        self.count += count;
        self.sum += u128::from(ns) * u128::from(count);
        self.widen(ns, ns);
    }

    /// Takes in a sample.
    pub fn record(&mut self, ns: u64) {
        self.record_n(ns, 1);
    }

    /// A distribution from buckets and the samples' own minimum, maximum and sum, which the
    /// buckets may know less exactly. `overflow` samples are in no bucket.
    #[must_use]
    pub fn from_parts(
        buckets: impl IntoIterator<Item = (u64, u64)>,
        overflow: u64,
        (min, max): (u64, u64),
        sum: u64,
    ) -> Self {
        let mut all = Self::new();
        for (ns, count) in buckets {
            all.record_n(ns.clamp(min, max), count);
        }
        all.count += overflow;
        all.overflow = overflow;
        if all.count != 0 {
            all.sum = sum.into();
            all.summary = Some((min, max));
        }
        all
    }

    /// The same, of buckets of that scale.
    #[must_use]
    pub fn with_scale(self, scale: Scale) -> Self {
        Self { scale, ..self }
    }

    /// Values below are exact from the start, those from here on where it [is exact](Self::is_exact).
    #[must_use]
    pub fn exact_below(&self) -> u64 {
        self.scale.linear() as u64
    }

    /// The same with the exact values of the samples from [`exact_below`](Self::exact_below) on, which are among these; `None` if they are others
    /// than those that the buckets have counted.
    #[must_use]
    pub fn refined(&self, samples: impl IntoIterator<Item = u64>) -> Option<Self> {
        let mut buckets = self.buckets.clone();
        let wide = buckets.split_off(&self.exact_below());
        let mut counted = BTreeMap::<usize, u64>::new();
        for ns in samples.into_iter().filter(|ns| *ns >= self.exact_below()) {
            *buckets.entry(ns).or_default() += 1;
            *counted.entry(self.scale.bucket_of(ns)).or_default() += 1;
        }
        let is_same = counted.into_iter().eq(wide
            .into_iter()
            .map(|(ns, count)| (self.scale.bucket_of(ns), count)));
        let refined = Self {
            buckets,
            ..self.clone()
        };
        (is_same && refined.is_exact()).then_some(refined)
    }

    /// Whether these samples, each by its own value, are those that this one has counted, whose values may stand for buckets.
    #[must_use]
    pub fn is_of(&self, samples: &Self) -> bool {
        let buckets = |of: &Self| {
            let mut buckets = BTreeMap::<usize, u64>::new();
            for (ns, count) in of.iter() {
                *buckets.entry(self.scale.bucket_of(ns)).or_default() += count;
            }
            buckets
        };
        let figures = |of: &Self| (of.summary, of.count, of.sum, of.overflow);
        figures(self) == figures(samples) && buckets(self) == buckets(samples)
    }

    /// Whether each value is a sample's own, and none stands for a bucket.
    #[must_use]
    pub fn is_exact(&self) -> bool {
        let each = self
            .iter()
            .map(|(ns, count)| u128::from(ns) * u128::from(count));
        // A bucket's value is its largest.
        self.overflow == 0 && each.sum::<u128>() == self.sum
    }

    /// Takes in all of `other`'s samples.
    pub fn merge(&mut self, other: &Self) {
        let (own, its) = (self.scale.linear_bits(), other.scale.linear_bits());
        // What has no samples says nothing.
        if self.count == 0 || other.count != 0 && its < own {
            self.scale = other.scale;
        }
        for (&ns, &count) in &other.buckets {
            *self.buckets.entry(ns).or_default() += count;
        }
        self.count += other.count;
        self.sum += other.sum;
        self.overflow += other.overflow;
        if let Some((min, max)) = other.summary {
            self.widen(min, max);
        }
    }

    fn widen(&mut self, min: u64, max: u64) {
        let (old_min, old_max) = self.summary.unwrap_or((min, max));
        self.summary = Some((old_min.min(min), old_max.max(max)));
    }

    /// Number of samples, overflow included.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Samples that were too large for any bucket.
    #[must_use]
    pub fn overflow(&self) -> u64 {
        self.overflow
    }

    /// Sum of all samples in ns.
    #[must_use]
    pub fn sum(&self) -> u128 {
        self.sum
    }

    /// The smallest sample.
    #[must_use]
    pub fn min(&self) -> Option<u64> {
        self.summary.map(|(min, _)| min)
    }

    /// The largest sample.
    #[must_use]
    pub fn max(&self) -> Option<u64> {
        self.summary.map(|(_, max)| max)
    }

    /// The mean.
    #[must_use]
    pub fn avg(&self) -> Option<f64> {
        (self.count != 0).then(|| self.sum as f64 / self.count as f64)
    }

    /// The nearest-rank percentile, `per_mille` thousandths: the smallest sample such that at
    /// least that share of all samples is not larger. So it is always a value that was measured:
    /// of n samples in ascending order the one with number ⌈n·per_mille/1000⌉, the first being 1.
    /// 0 gives the minimum, 1000 the maximum.
    #[must_use]
    pub fn percentile(&self, per_mille: u32) -> Option<u64> {
        let (_, max) = self.summary?;
        let wanted = (u128::from(self.count) * u128::from(per_mille.min(1000))).div_ceil(1000);
        let mut seen = 0u128;
        for (&ns, &count) in &self.buckets {
            seen += u128::from(count);
            if seen >= wanted.max(1) {
                return Some(ns);
            }
        }
        Some(max)
    }

    /// The values that came, ascending, with their counts.
    pub fn iter(&self) -> impl Iterator<Item = (u64, u64)> {
        self.buckets.iter().map(|(&ns, &count)| (ns, count))
    }

    /// The samples in buckets of `width` ns, named by their smallest value, at most `limit` of
    /// them counted from 0. Samples beyond are in the second result, with those that have no
    /// bucket at all.
    #[must_use]
    pub fn rebucket(&self, width: u64, limit: Option<u64>) -> (BTreeMap<u64, u64>, u64) {
        let width = width.max(1);
        let mut buckets = BTreeMap::new();
        let mut over = self.overflow;
        for (&ns, &count) in &self.buckets {
            let index = ns / width;
            if limit.is_some_and(|limit| index >= limit) {
                over += count;
            } else {
                *buckets.entry(index * width).or_default() += count;
            }
        }
        (buckets, over)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::LatencyStats;
    use core::sync::atomic::Ordering::Relaxed;
    use proptest::prelude::*;
    use std::{boxed::Box, vec::Vec};

    /// The definition of a nearest-rank percentile, on sorted samples.
    fn nearest_rank(sorted: &[u64], per_mille: usize) -> u64 {
        sorted[(sorted.len() * per_mille).div_ceil(1000).max(1) - 1]
    }

    fn latency() -> impl Strategy<Value = u64> {
        prop_oneof![0..100u64, 0..1u64 << 17, 0..1u64 << 41]
    }

    fn collect(samples: &[u64]) -> ExactHistogram {
        let mut all = ExactHistogram::new();
        samples.iter().for_each(|&ns| all.record(ns));
        all
    }

    #[test]
    fn nothing_recorded_has_no_figures() {
        let none = ExactHistogram::new();
        assert_eq!((none.min(), none.max(), none.avg()), (None, None, None));
        assert_eq!(none.percentile(500), None);
        let none = ExactHistogram::from_parts([], 0, (0, 0), 0);
        assert_eq!((none.count(), none.max()), (0, None));
    }

    #[test]
    fn what_the_guest_knows_roughly_is_refined_by_the_samples() {
        const LINEAR: u64 = Scale::OWN.linear() as u64;
        let samples = [3, LINEAR - 1, LINEAR, LINEAR + 1, 1_000_001, 1_000_002];
        let stats = Box::new(LatencyStats::new());
        samples.iter().for_each(|&ns| stats.record(ns));
        let buckets = stats
            .hist
            .buckets()
            .map(|(ns, count)| (ns, u64::from(count)));
        let limits = (stats.min.load(Relaxed), stats.max.load(Relaxed));
        let rough = ExactHistogram::from_parts(buckets, 0, limits, stats.sum.load(Relaxed));
        assert!(!rough.is_exact() && rough.is_of(&collect(&samples)));
        assert!(!rough.is_of(&collect(&samples[1..])));
        // Of the same sum, but in other buckets.
        let [a, b, c, d, e, f] = samples;
        assert!(!rough.is_of(&collect(&[a + 1, b - 1, c, d, e, f])));
        let refined = rough.refined(samples).unwrap();
        assert_eq!(refined, collect(&samples));
        assert!(refined.is_exact());
        // One is missing, one is another.
        assert_eq!(rough.refined(samples[1..5].iter().copied()), None);
        let others = [3, LINEAR, LINEAR + 1, 1_000_001, 1_000_003];
        assert_eq!(rough.refined(others), None);
    }

    #[test]
    fn what_is_merged_is_as_exact_as_its_part_that_is_less_so() {
        let of = |bits| collect(&[7]).with_scale(Scale::new(bits).unwrap());
        let merged = |parts: &[ExactHistogram]| {
            let mut all = ExactHistogram::new();
            parts.iter().for_each(|part| all.merge(part));
            all.exact_below()
        };
        assert_eq!(merged(&[of(20)]), 1 << 20);
        assert_eq!(merged(&[of(9), of(20)]), 1 << 9);
        assert_eq!(merged(&[of(20), of(9)]), 1 << 9);
        assert_eq!(merged(&[of(20), ExactHistogram::new()]), 1 << 20);
    }

    #[test]
    fn rebucketing_counts_what_is_beyond() {
        let (buckets, over) = collect(&[0, 9, 10, 25, 30]).rebucket(10, Some(3));
        assert_eq!(
            buckets.into_iter().collect::<Vec<_>>(),
            [(0, 2), (10, 1), (20, 1)]
        );
        assert_eq!(over, 1);
    }

    proptest! {
        #[test]
        fn percentiles_are_those_of_the_sorted_samples(
            mut samples in prop::collection::vec(latency(), 1..300),
        ) {
            let all = collect(&samples);
            samples.sort_unstable();
            for per_mille in [0, 1, 250, 500, 900, 990, 999, 1000] {
                prop_assert_eq!(
                    all.percentile(per_mille),
                    Some(nearest_rank(&samples, per_mille as usize))
                );
            }
            prop_assert_eq!(all.min(), samples.first().copied());
            prop_assert_eq!(all.max(), samples.last().copied());
            prop_assert_eq!(all.sum(), samples.iter().map(|&ns| u128::from(ns)).sum());
        }

        #[test]
        fn merging_is_recording_both(
            a in prop::collection::vec(latency(), 0..100),
            b in prop::collection::vec(latency(), 0..100),
        ) {
            let mut merged = collect(&a);
            merged.merge(&collect(&b));
            prop_assert_eq!(merged, collect(&[a, b].concat()));
        }

        #[test]
        fn the_guests_histogram_is_exact_below_linear_and_near_above(
            mut samples in prop::collection::vec(latency(), 1..300),
        ) {
            let stats = Box::new(LatencyStats::new());
            samples.iter().for_each(|&ns| stats.record(ns));
            samples.sort_unstable();
            let seen = ExactHistogram::from_parts(
                stats.hist.buckets().map(|(ns, count)| (ns, count.into())),
                stats.hist.overflow.load(Relaxed).into(),
                (stats.min.load(Relaxed), stats.max.load(Relaxed)),
                stats.sum.load(Relaxed),
            );
            prop_assert_eq!(seen.count(), samples.len() as u64);
            prop_assert_eq!(seen.min(), samples.first().copied());
            prop_assert_eq!(seen.max(), samples.last().copied());
            for per_mille in [500, 990, 999] {
                let exact = nearest_rank(&samples, per_mille);
                let near = seen.percentile(per_mille as u32).unwrap();
                prop_assert!(near >= exact);
                if exact < 1 << 40 {
                    prop_assert!(near - exact <= exact >> 8);
                }
                if exact < seen.exact_below() {
                    prop_assert_eq!(near, exact);
                }
            }
        }
    }
}
