//! Statistics of runs that are not exact.
//!
//! Latencies that follow each other in one run depend on one another, and each run has an offset of its own (how the
//! host placed it, what else the host did). So samples of one run are no independent observations, and no test takes them
//! for such: two runs of the same system would "differ" with any p one likes. [`distance`] says how far apart two
//! distributions are and nothing of chance; [`permutation`] tests whole runs against each other, one observation each.

pub mod permutation;

use serde::Serialize;
use takt_timerlat::stats::ExactHistogram;

/// The level at which a difference counts as shown.
pub const LEVEL: f64 = 0.05;

/// How far apart two distributions are. It describes these samples; whether others would be so far apart it does not say.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Distance {
    /// The largest distance between both distribution functions: Kolmogorov and Smirnov's D.
    pub kolmogorov_smirnov_d: f64,
    /// The probability that a sample of the second is larger than one of the first, equal ones counted half: Mann and
    /// Whitney's U as a share of all pairs.
    pub second_is_larger: f64,
}

/// How far apart these are; not at all where one has no samples.
#[must_use]
pub fn distance(a: &ExactHistogram, b: &ExactHistogram) -> Distance {
    let (nr_a, nr_b) = (a.count() as f64, b.count() as f64);
    if nr_a == 0.0 || nr_b == 0.0 {
        return Distance {
            kolmogorov_smirnov_d: 0.0,
            second_is_larger: 0.5,
        };
    }
    let (mut below_a, mut below_b, mut d, mut u) = (0f64, 0f64, 0f64, 0f64);
    for (_, in_a, in_b) in together(a, b) {
        let (in_a, in_b) = (in_a as f64, in_b as f64);
        u += in_b * (below_a + in_a / 2.0);
        below_a += in_a;
        below_b += in_b;
        d = d.max((below_a / nr_a - below_b / nr_b).abs());
    }
    Distance {
        kolmogorov_smirnov_d: d,
        second_is_larger: u / (nr_a * nr_b),
    }
}

/// The values of both, ascending, each with how often it came in the one and in the other. Samples that were too large for
/// any bucket count as one value above all.
fn together(a: &ExactHistogram, b: &ExactHistogram) -> Vec<(u64, u64, u64)> {
    let mut all: std::collections::BTreeMap<u64, (u64, u64)> = std::collections::BTreeMap::new();
    for (ns, count) in a.iter() {
        all.entry(ns).or_default().0 += count;
    }
    for (ns, count) in b.iter() {
        all.entry(ns).or_default().1 += count;
    }
    let over = (a.overflow(), b.overflow());
    let over = (over != (0, 0)).then_some((u64::MAX, over.0, over.1));
    all.into_iter()
        .map(|(ns, (a, b))| (ns, a, b))
        .chain(over)
        .collect()
}

impl Distance {
    /// In words.
    #[must_use]
    pub fn words(&self) -> String {
        format!(
            "Kolmogorov-Smirnov distance D = {:.4}; a sample of the second is larger with probability {:.3}",
            self.kolmogorov_smirnov_d, self.second_is_larger
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn collect(samples: &[u64], times: u64) -> ExactHistogram {
        let mut all = ExactHistogram::new();
        samples.iter().for_each(|&ns| all.record_n(ns, times));
        all
    }

    fn near(found: f64, expected: f64) {
        let error = (found - expected).abs();
        assert!(error <= 1e-12, "{found} instead of {expected}");
    }

    /// The statistics of `scipy.stats.ks_2samp` and of `mannwhitneyu(b, a)`.
    #[test]
    fn the_distance_is_what_scipys_statistics_say() {
        let a = collect(&[300, 300, 301, 305, 305, 310, 340], 20);
        let b = collect(&[300, 301, 301, 305, 306, 310, 345, 360], 20);
        let found = distance(&a, &b);
        near(found.kolmogorov_smirnov_d, 0.25);
        near(found.second_is_larger, 13800.0 / (140.0 * 160.0));
    }

    #[test]
    fn equal_samples_and_none_are_not_apart() {
        let one = collect(&[376], 1000);
        let none = ExactHistogram::new();
        for (a, b) in [(&one, &one), (&none, &none), (&one, &none)] {
            let found = distance(a, b);
            near(found.kolmogorov_smirnov_d, 0.0);
            near(found.second_is_larger, 0.5);
        }
        let found = distance(&one, &collect(&[377], 1000));
        near(found.kolmogorov_smirnov_d, 1.0);
        near(found.second_is_larger, 1.0);
    }

    proptest! {
        /// Both by their definitions, on the samples themselves.
        #[test]
        fn histograms_give_what_samples_give(
            a in prop::collection::vec(0u64..30, 1..40),
            b in prop::collection::vec(0u64..30, 1..40),
        ) {
            let found = distance(&collect(&a, 1), &collect(&b, 1));
            let share = |of: &[u64], x: u64| of.iter().filter(|&&it| it <= x).count() as f64 / of.len() as f64;
            let d = (0..30).map(|x| (share(&a, x) - share(&b, x)).abs()).fold(0.0, f64::max);
            prop_assert!((found.kolmogorov_smirnov_d - d).abs() < 1e-12);
            let pairs = a.iter().flat_map(|a| b.iter().map(move |b| match a.cmp(b) {
                std::cmp::Ordering::Less => 1.0,
                std::cmp::Ordering::Equal => 0.5,
                std::cmp::Ordering::Greater => 0.0,
            }));
            let share = pairs.sum::<f64>() / (a.len() * b.len()) as f64;
            prop_assert!((found.second_is_larger - share).abs() < 1e-12);
        }
    }
}
