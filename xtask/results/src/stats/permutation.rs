//! A permutation test of two groups of runs by several metrics at once.
//!
//! The statistic of a metric is how far the groups' means are apart, with the metric scaled to the same spread over all
//! runs. (It is the correlation between value and group: Student's t grows with it, whatever the group sizes.) If the
//! groups do not differ, every way to divide the same runs into groups of these sizes is as likely as the one that was
//! observed. A metric's p is the share of ways in which the largest statistic *of any metric* reaches what was observed of
//! this one (Westfall and Young's max T, single step): so p holds for all metrics together, however they depend on each
//! other, and the probability of even one false alarm is at most the level. Nothing is assumed of the shape of a
//! distribution; only that the runs could as well have been made in any other order.

/// Up to so many ways all are tried; 10 runs against 10 have 184,756.
const MAX_WAYS: u64 = 200_000;
/// Beyond, so many are drawn, and the observed one counted with them.
const NR_DRAWN: u64 = 99_999;
/// What statistics may differ by and count as equal: sums of the same numbers in another order.
const EQUAL: f64 = 1e-9;

/// What the test found.
#[derive(Clone, Debug, PartialEq)]
pub struct Found {
    /// The adjusted p of each metric.
    pub p: Vec<f64>,
    /// Ways to divide the runs that were tried.
    pub ways: u64,
    /// Whether these are all there are.
    pub is_complete: bool,
}

/// Makes the test. Each metric has its value for every run, the first group's `nr_first` runs first.
///
/// # Panics
///
/// If the metrics have not the same number of runs, or either group has none.
#[must_use]
pub fn test(metrics: &[Vec<f64>], nr_first: usize) -> Found {
    let nr = metrics.first().map_or(nr_first + 1, Vec::len);
    assert!(metrics.iter().all(|metric| metric.len() == nr) && 0 < nr_first && nr_first < nr);
    let metrics: Vec<_> = metrics.iter().map(|metric| scaled(metric)).collect();
    let observed: Vec<_> = metrics
        .iter()
        .map(|it| statistic(it, 0..nr_first))
        .collect();
    // As all values of a metric sum up to 0, either group has the same statistic.
    let smaller = nr_first.min(nr - nr_first);
    let mut reached = vec![0u64; metrics.len()];
    let mut tried = 0;
    let mut judge = |group: &[usize]| {
        let each = metrics
            .iter()
            .map(|it| statistic(it, group.iter().copied()));
        let largest = each.fold(0.0, f64::max);
        tried += 1;
        for (reached, observed) in reached.iter_mut().zip(&observed) {
            *reached += u64::from(largest >= observed - EQUAL);
        }
    };
    let is_complete = ways(nr, smaller).is_some_and(|ways| ways <= MAX_WAYS);
    if is_complete {
        every_group(nr, smaller, &mut judge);
    } else {
        judge(&(0..nr_first).collect::<Vec<_>>());
        drawn_groups(nr, smaller, &mut judge);
    }
    Found {
        p: reached.iter().map(|&it| it as f64 / tried as f64).collect(),
        ways: tried,
        is_complete,
    }
}

/// Centred, and of length 1; all 0 if all values are the same.
fn scaled(metric: &[f64]) -> Vec<f64> {
    let mean = metric.iter().sum::<f64>() / metric.len() as f64;
    let length = metric
        .iter()
        .map(|it| (it - mean).powi(2))
        .sum::<f64>()
        .sqrt();
    // What rounding leaves of equal values is no spread.
    let is_spread = length > EQUAL * mean.abs();
    let scale = |it: &f64| {
        if is_spread { (it - mean) / length } else { 0.0 }
    };
    metric.iter().map(scale).collect()
}

fn statistic(scaled: &[f64], group: impl Iterator<Item = usize>) -> f64 {
    group.map(|run| scaled[run]).sum::<f64>().abs()
}

/// Ways to choose `k` of `n`; `None` if there are too many to count.
fn ways(n: usize, k: usize) -> Option<u64> {
    (1..=k as u64).try_fold(1u64, |ways, at| {
        Some(ways.checked_mul(n as u64 - k as u64 + at)? / at)
    })
}

/// Every choice of `k` of `n`, in lexical order.
fn every_group(n: usize, k: usize, judge: &mut impl FnMut(&[usize])) {
    let mut group: Vec<_> = (0..k).collect();
    loop {
        judge(&group);
        // The last that can still go up does, and those behind it follow closely.
        let Some(at) = (0..k).rev().find(|&at| group[at] < n - k + at) else {
            return;
        };
        group[at] += 1;
        for next in at + 1..k {
            group[next] = group[next - 1] + 1;
        }
    }
}

/// [`NR_DRAWN`] choices of `k` of `n`, the same ones each time, so that the same runs have the same p.
fn drawn_groups(n: usize, k: usize, judge: &mut impl FnMut(&[usize])) {
    let mut random = Random(n as u64);
    let mut all: Vec<_> = (0..n).collect();
    for _ in 0..NR_DRAWN {
        for at in 0..k {
            all.swap(at, at + random.below(n - at));
        }
        judge(&all[..k]);
    }
}

/// Random numbers: Vigna's SplitMix64.
#[derive(Debug)]
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// One of 0 … `limit` - 1.
    fn below(&mut self, limit: usize) -> usize {
        ((u128::from(self.next()) * limit as u128) >> 64) as usize
    }
}

#[cfg(test)]
mod tests;
