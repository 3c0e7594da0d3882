//! How often each latency came.

use std::fmt;

use takt_timerlat::stats::ExactHistogram;

use super::{Axis, Chart, Role, Room, SIZE, nice_step, ticks};

/// Buckets that a picture has at most, about.
const NR_BUCKETS: u64 = 80;

/// The axis of the counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// Heights are counts.
    Linear,
    /// Heights are logarithms of counts: what is rare is seen as well.
    Log,
}

impl fmt::Display for Scale {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Linear => "linear",
            Self::Log => "logarithmic",
        })
    }
}

/// A distribution cut into buckets of one width: the smallest value of each and its count.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Buckets {
    /// In ns.
    pub width: u64,
    /// Those that are not empty, ascending.
    pub counts: Vec<(u64, u64)>,
    /// Samples that were too large for any.
    pub overflow: u64,
}

/// The width of buckets that suits all of these.
#[must_use]
pub fn width<'h>(all: impl IntoIterator<Item = &'h ExactHistogram>) -> u64 {
    let limits = all.into_iter().filter_map(|it| it.min().zip(it.max()));
    let (low, high) = limits.fold((u64::MAX, 0), |(low, high), (min, max)| {
        (low.min(min), high.max(max))
    });
    nice_step(high.saturating_sub(low) / NR_BUCKETS + 1)
}

/// Cuts a distribution.
#[must_use]
pub fn cut(all: &ExactHistogram, width: u64) -> Buckets {
    let (counts, overflow) = all.rebucket(width, None);
    Buckets {
        width,
        counts: counts
            .into_iter()
            .filter(|&(_, count)| count != 0)
            .collect(),
        overflow,
    }
}

/// Draws them over one another. A single one is drawn as bars, several as outlines.
pub fn picture(title: &str, scale: Scale, series: &[(Role, Buckets)]) -> String {
    let width = series.first().map_or(1, |(_, buckets)| buckets.width) as f64;
    let all = || series.iter().flat_map(|(_, buckets)| &buckets.counts);
    let low = all().map(|&(low, _)| low).min().unwrap_or(0) as f64;
    let high = all().map(|&(low, _)| low).max().unwrap_or(0) as f64 + width;
    let top = all().map(|&(_, count)| count).max().unwrap_or(1).max(1) as f64;
    let margin = ((high - low) * 0.04).max(width * 1.5);
    let x = (low - margin).max(0.0 - width)..high + margin;
    // Whole values stand in the middle of their bars.
    let shift = if width <= 1.0 { 0.5 } else { 0.0 };
    let x = Axis::new(x.clone(), ticks(x.start.max(0.0), x.end, 5))
        .plain()
        .title("latency in ns");
    let (floor, y) = match scale {
        Scale::Linear => (0.0, Axis::new(0.0..top * 1.05, ticks(0.0, top, 5))),
        Scale::Log => (0.5, Axis::logarithmic(0.5..(top * 1.5).max(10.0))),
    };
    let mut chart = Chart::new(SIZE, title, Room::right(18.0), x, y);
    for (role, buckets) in series {
        if series.len() > 1 {
            chart.line(*role, &outline(&buckets.counts, width, shift, floor), 2.0);
            continue;
        }
        for &(low, count) in &buckets.counts {
            let low = low as f64 - shift;
            chart.bar(*role, (low, floor), (low + width, count as f64));
        }
    }
    chart.finish()
}

/// The outline of bars, from left to right.
fn outline(counts: &[(u64, u64)], width: f64, shift: f64, floor: f64) -> Vec<(f64, f64)> {
    let mut line: Vec<(f64, f64)> = Vec::new();
    let mut end = f64::NEG_INFINITY;
    for &(low, count) in counts {
        let low = low as f64 - shift;
        if low > end {
            if end.is_finite() {
                line.push((end, floor));
            }
            line.push((low, floor));
        }
        end = low + width;
        line.extend([(low, count as f64), (end, count as f64)]);
    }
    line.push((end, floor));
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    fn collect(samples: &[(u64, u64)]) -> ExactHistogram {
        let mut all = ExactHistogram::new();
        samples
            .iter()
            .for_each(|&(ns, count)| all.record_n(ns, count));
        all
    }

    /// The heights of the bars, in pixels.
    fn heights(svg: &str) -> Vec<f64> {
        let number = |tag: &str, name: &str| {
            let at = tag.find(&format!("{name}=\"")).unwrap() + name.len() + 2;
            tag[at..].split('"').next().unwrap().parse::<f64>().unwrap()
        };
        svg.split('<')
            .filter(|tag| tag.starts_with("rect class=\"f4\""))
            .map(|tag| number(tag, " height"))
            .collect()
    }

    #[test]
    fn bars_are_as_high_as_their_counts() {
        let buckets = cut(&collect(&[(10, 100), (11, 50), (15, 25)]), 1);
        let svg = picture("t", Scale::Linear, &[(Role::Thread, buckets)]);
        let heights = heights(&svg);
        assert_eq!(heights.len(), 3, "{svg}");
        assert!((heights[0] / heights[1] - 2.0).abs() < 0.05, "{heights:?}");
        assert!((heights[0] / heights[2] - 4.0).abs() < 0.15, "{heights:?}");
    }

    #[test]
    fn a_single_sample_is_seen_on_the_logarithmic_axis() {
        let buckets = cut(&collect(&[(10, 1_000_000), (90, 1)]), 1);
        let svg = picture("t", Scale::Log, &[(Role::Thread, buckets)]);
        let heights = heights(&svg);
        assert!(heights.len() == 2 && heights[1] > 5.0, "{heights:?}");
    }

    #[test]
    fn several_are_outlines() {
        let buckets = cut(&collect(&[(10, 3), (11, 3), (20, 1)]), 1);
        let line = outline(&buckets.counts, 1.0, 0.0, 0.0);
        assert_eq!(line.first(), Some(&(10.0, 0.0)));
        assert!(line.contains(&(12.0, 0.0)) && line.contains(&(20.0, 0.0)));
        let two = [
            (Role::Series(0), buckets.clone()),
            (Role::Series(1), buckets),
        ];
        let svg = picture("t", Scale::Log, &two);
        assert!(
            svg.contains("class=\"s20\"") && svg.contains("class=\"s21\""),
            "{svg}"
        );
    }

    #[test]
    fn nothing_can_be_drawn_too() {
        let none = cut(&ExactHistogram::new(), width([&ExactHistogram::new()]));
        picture("t", Scale::Log, &[(Role::Irq, none)]);
    }
}
