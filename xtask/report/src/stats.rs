//! Statistical tests of two distributions, on their exact histograms.
//!
//! Both tests take samples to be independent of one another. Latencies that follow each other are not quite, so a p-value
//! is rather too small; what decides in practice is how large a difference is, and that is said as well.

use serde::Serialize;
use takt_timerlat::stats::ExactHistogram;

/// The level at which a difference counts as shown.
pub const LEVEL: f64 = 0.01;

/// What a test found.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Found {
    /// The test's statistic.
    pub statistic: f64,
    /// The probability of one at least as extreme if there is no difference.
    pub p: f64,
}

/// Two-sample Kolmogorov-Smirnov, two-sided: are the distributions the same? The statistic is the largest distance between
/// both distribution functions, its p-value the asymptotic one, which is too large rather than too small where values occur
/// more than once.
#[must_use]
pub fn kolmogorov_smirnov(a: &ExactHistogram, b: &ExactHistogram) -> Found {
    let (nr_a, nr_b) = (a.count() as f64, b.count() as f64);
    if nr_a == 0.0 || nr_b == 0.0 {
        return Found {
            statistic: 0.0,
            p: 1.0,
        };
    }
    let (mut so_far_a, mut so_far_b, mut distance) = (0u64, 0u64, 0f64);
    for (_, in_a, in_b) in together(a, b) {
        so_far_a += in_a;
        so_far_b += in_b;
        let here = (so_far_a as f64 / nr_a - so_far_b as f64 / nr_b).abs();
        distance = distance.max(here);
    }
    let effective = nr_a * nr_b / (nr_a + nr_b);
    Found {
        statistic: distance,
        p: kolmogorov(effective.sqrt() * distance),
    }
}

/// Mann-Whitney's U, two-sided: is one usually larger than the other? The statistic is the number of pairs in which the
/// second sample is larger, equal ones counted half; the p-value is that of the normal approximation, corrected for ties and
/// continuity.
#[must_use]
pub fn mann_whitney(a: &ExactHistogram, b: &ExactHistogram) -> Found {
    let (nr_a, nr_b) = (a.count() as f64, b.count() as f64);
    let nr = nr_a + nr_b;
    let (mut u, mut below, mut ties) = (0f64, 0f64, 0f64);
    for (_, in_a, in_b) in together(a, b) {
        let (in_a, in_b) = (in_a as f64, in_b as f64);
        u += in_b * (below + in_a / 2.0);
        below += in_a;
        let same = in_a + in_b;
        ties += same * same * same - same;
    }
    let variance = nr_a * nr_b / 12.0 * ((nr + 1.0) - ties / (nr * (nr - 1.0)));
    let p = if variance > 0.0 {
        let away = ((u - nr_a * nr_b / 2.0).abs() - 0.5).max(0.0);
        libm::erfc(away / variance.sqrt() / std::f64::consts::SQRT_2)
    } else {
        // All samples are equal, or there are none.
        1.0
    };
    Found { statistic: u, p }
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

/// The upper tail of Kolmogorov's distribution.
fn kolmogorov(x: f64) -> f64 {
    use std::f64::consts::PI;
    if x <= 0.0 {
        return 1.0;
    }
    // Two series for the same: each converges fast where the other does not.
    let p = if x < 1.18 {
        let term = |k: i32| {
            let odd = f64::from(2 * k - 1);
            (-(odd * PI / x).powi(2) / 8.0).exp()
        };
        1.0 - (2.0 * PI).sqrt() / x * (1..=5).map(term).sum::<f64>()
    } else {
        let term = |k: i32| {
            let sign = if k % 2 == 1 { 2.0 } else { -2.0 };
            sign * (-2.0 * f64::from(k * k) * x * x).exp()
        };
        (1..=8).map(term).sum()
    };
    p.clamp(0.0, 1.0)
}

/// Both tests of two distributions.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Tests {
    /// Samples of each.
    pub count: (u64, u64),
    /// [`kolmogorov_smirnov`].
    pub kolmogorov_smirnov: Found,
    /// [`mann_whitney`].
    pub mann_whitney: Found,
    /// The probability that a sample of the second is larger than one of the first, equal ones counted half.
    pub second_is_larger: f64,
    /// The level.
    pub level: f64,
}

/// Makes both tests.
#[must_use]
pub fn test(a: &ExactHistogram, b: &ExactHistogram, level: f64) -> Tests {
    let mann_whitney = mann_whitney(a, b);
    let pairs = a.count() as f64 * b.count() as f64;
    Tests {
        count: (a.count(), b.count()),
        kolmogorov_smirnov: kolmogorov_smirnov(a, b),
        mann_whitney,
        second_is_larger: if pairs > 0.0 {
            mann_whitney.statistic / pairs
        } else {
            0.5
        },
        level,
    }
}

impl Tests {
    /// Whether one of them shows a difference. As there are two, each gets half of the level (Bonferroni).
    #[must_use]
    pub fn is_different(&self) -> bool {
        self.kolmogorov_smirnov.p.min(self.mann_whitney.p) < self.level / 2.0
    }

    /// What they say: the verdict, then a line for each test.
    #[must_use]
    pub fn lines(&self) -> [String; 3] {
        let (ks, mw) = (self.kolmogorov_smirnov, self.mann_whitney);
        let percent = self.level * 100.0;
        let meaning = if self.is_different() {
            let direction = if mw.p >= self.level / 2.0 {
                "the distributions differ, though neither is usually larger"
            } else if self.second_is_larger > 0.5 {
                "the second is usually larger"
            } else {
                "the second is usually smaller"
            };
            format!("a difference is shown at the level of {percent} %: {direction}")
        } else {
            format!("no difference is shown at the level of {percent} %")
        };
        [
            format!("{meaning} ({} and {} samples)", self.count.0, self.count.1),
            format!(
                "Kolmogorov-Smirnov: D = {:.4}, p {}",
                ks.statistic,
                probability(ks.p)
            ),
            format!(
                "Mann-Whitney: U = {}, p {}; a sample of the second is larger with probability {:.3}",
                mw.statistic,
                probability(mw.p),
                self.second_is_larger,
            ),
        ]
    }

    /// The same in one line.
    #[must_use]
    pub fn words(&self) -> String {
        self.lines().join("; ")
    }
}

/// A probability as people write it.
fn probability(p: f64) -> String {
    match p {
        p if p < 1e-12 => "< 1e-12".into(),
        p if p < 0.001 => format!("= {p:.1e}"),
        p => format!("= {p:.4}"),
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
        assert!(
            error <= expected.abs() * 1e-9 + 1e-14,
            "{found} instead of {expected}"
        );
    }

    /// `scipy.special.kolmogorov`.
    #[test]
    fn kolmogorovs_distribution() {
        for (x, p) in [
            (0.3, 0.9999906941986655),
            (0.8, 0.5441424115741981),
            (1.0, 0.26999967167735456),
            (1.17, 0.12939004218561884),
            (1.19, 0.11774229287977166),
            (1.5, 0.022217962616525127),
            (2.5, 7.453306344157342e-6),
        ] {
            near(kolmogorov(x), p);
        }
        near(kolmogorov(0.0), 1.0);
    }

    /// `scipy.stats.ks_2samp` (its statistic; p by `scipy.special.kolmogorov`) and `mannwhitneyu(b, a)` with continuity.
    #[test]
    fn both_tests_say_what_scipys_say() {
        let a = collect(&[300, 300, 301, 305, 305, 310, 340], 20);
        let b = collect(&[300, 301, 301, 305, 306, 310, 345, 360], 20);
        let found = test(&a, &b, LEVEL);
        near(found.kolmogorov_smirnov.statistic, 0.25);
        near(found.kolmogorov_smirnov.p, 0.00017685397731964344);
        near(found.mann_whitney.statistic, 13800.0);
        near(found.mann_whitney.p, 0.0004369066316969144);
        assert!(found.is_different());
        assert!(
            found.words().contains("the second is usually larger"),
            "{}",
            found.words()
        );
    }

    #[test]
    fn equal_samples_and_none_are_no_difference() {
        let one = collect(&[376], 1000);
        let none = ExactHistogram::new();
        for (a, b) in [(&one, &one), (&none, &none), (&one, &none)] {
            let found = test(a, b, LEVEL);
            assert!(!found.is_different(), "{found:?}");
            assert!(found.mann_whitney.p.is_finite() && found.kolmogorov_smirnov.p.is_finite());
        }
        let other = collect(&[377], 1000);
        assert!(test(&one, &other, LEVEL).is_different());
    }

    proptest! {
        /// Both statistics by their definitions, on the samples themselves.
        #[test]
        fn histograms_give_what_samples_give(
            a in prop::collection::vec(0u64..30, 1..40),
            b in prop::collection::vec(0u64..30, 1..40),
        ) {
            let found = test(&collect(&a, 1), &collect(&b, 1), LEVEL);
            let share = |of: &[u64], x: u64| of.iter().filter(|&&it| it <= x).count() as f64 / of.len() as f64;
            let distance = (0..30).map(|x| (share(&a, x) - share(&b, x)).abs()).fold(0.0, f64::max);
            prop_assert!((found.kolmogorov_smirnov.statistic - distance).abs() < 1e-12);
            let pairs = a.iter().flat_map(|a| b.iter().map(move |b| match a.cmp(b) {
                std::cmp::Ordering::Less => 1.0,
                std::cmp::Ordering::Equal => 0.5,
                std::cmp::Ordering::Greater => 0.0,
            }));
            prop_assert!((found.mann_whitney.statistic - pairs.sum::<f64>()).abs() < 1e-9);
            prop_assert!((0.0..=1.0).contains(&found.mann_whitney.p));
            prop_assert!((0.0..=1.0).contains(&found.kolmogorov_smirnov.p));
        }
    }
}
