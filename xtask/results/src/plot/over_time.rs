//! Latency over time. Where there are more activations than places, a place shows the range of its own.

use super::{Axis, Chart, Role, Room, SIZE, above, nice_step, ticks};

/// Places that a picture has.
const NR_PLACES: usize = 180;

/// The range of the latencies of some activations in a row. Nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    /// When the first was due.
    pub at: u64,
    /// The smallest.
    pub min: u64,
    /// The largest.
    pub max: u64,
}

/// Puts samples (when, latency) into at most as many ranges as a picture has places for, each of the same length of
/// time; gives that length too.
#[must_use]
pub fn ranges(samples: &[(u64, u64)]) -> (Vec<Range>, u64) {
    let (Some(&(first, _)), Some(&(last, _))) = (samples.first(), samples.last()) else {
        return (Vec::new(), 1);
    };
    let length = nice_step(last.saturating_sub(first) / NR_PLACES as u64 + 1);
    let mut ranges: Vec<(u64, Range)> = Vec::new();
    for &(at, ns) in samples {
        let place = at.saturating_sub(first) / length;
        match ranges.last_mut().filter(|(last, _)| *last == place) {
            Some((_, range)) => {
                range.min = range.min.min(ns);
                range.max = range.max.max(ns);
            }
            None => ranges.push((
                place,
                Range {
                    at,
                    min: ns,
                    max: ns,
                },
            )),
        }
    }
    (ranges.into_iter().map(|(_, range)| range).collect(), length)
}

/// Draws the ranges of several series of samples (when in ns, latency in ns).
pub fn picture(title: &str, series: &[(Role, Vec<(u64, u64)>)]) -> String {
    let series: Vec<_> = series
        .iter()
        .map(|(role, samples)| (*role, ranges(samples).0))
        .collect();
    let all = || series.iter().flat_map(|(_, ranges)| ranges);
    let (unit, name) = unit(all().map(|range| range.at).max().unwrap_or(0));
    let seconds = |ns: u64| ns as f64 / unit;
    let low = all()
        .map(|range| seconds(range.at))
        .fold(f64::INFINITY, f64::min);
    let high = all().map(|range| seconds(range.at)).fold(0.0, f64::max);
    let (low, high) = if low < high {
        (low, high)
    } else {
        (high, high + 1.0)
    };
    let margin = (high - low) * 0.02;
    let top = above(all().map(|range| range.max));
    let (from, to) = (low - margin, high + margin);
    let x = Axis::new(from..to, ticks(from, to, 5))
        .plain()
        .title(format!("the guest's time in {name}; latency in ns"));
    let y = Axis::new(0.0..top, ticks(0.0, top, 5));
    let mut chart = Chart::new(SIZE, title, Room::right(20.0), x, y);
    for (role, ranges) in &series {
        for range in ranges {
            let (at, min, max) = (seconds(range.at), range.min as f64, range.max as f64);
            if min < max {
                chart.line(*role, &[(at, min), (at, max)], 2.0);
            }
            chart.dot(*role, (at, max), 2.0);
        }
    }
    chart.finish()
}

/// The unit of a time axis that ends there: its nanoseconds and its name.
fn unit(end: u64) -> (f64, &'static str) {
    match end {
        0..5_000_000 => (1e3, "µs"),
        5_000_000..5_000_000_000 => (1e6, "ms"),
        5_000_000_000..600_000_000_000 => (1e9, "s"),
        _ => (60e9, "min"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn no_extreme_gets_lost(
            gaps in prop::collection::vec((1u64..5_000_000, 0u64..10_000), 1..2000),
        ) {
            let mut at = 0;
            let samples: Vec<_> = gaps.iter().map(|&(gap, ns)| { at += gap; (at, ns) }).collect();
            let (ranges, _) = ranges(&samples);
            prop_assert!(ranges.len() <= NR_PLACES + 1);
            let max = samples.iter().map(|&(_, ns)| ns).max();
            let min = samples.iter().map(|&(_, ns)| ns).min();
            prop_assert_eq!(ranges.iter().map(|range| range.max).max(), max);
            prop_assert_eq!(ranges.iter().map(|range| range.min).min(), min);
        }
    }

    #[test]
    fn one_sample_can_be_drawn() {
        picture("t", &[(Role::Thread, vec![(18_000_000, 376)])]);
        picture("t", &[(Role::Thread, vec![])]);
    }
}
