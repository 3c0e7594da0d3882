//! The percentile curve: which latency so many percent of all samples do not exceed. The axis is stretched to the right,
//! where the rare ones are.

use takt_timerlat::stats::ExactHistogram;

use super::{Axis, Chart, Role, Room, SIZE, above, ticks};

/// The curve's points: the share of samples that are not larger, and the latency.
#[must_use]
pub fn points(all: &ExactHistogram) -> Vec<(f64, u64)> {
    let nr = all.count() as f64;
    let mut so_far = 0;
    all.iter()
        .map(|(ns, count)| {
            so_far += count;
            (so_far as f64 / nr, ns)
        })
        .collect()
}

/// Where a share stands on the axis: 0 for none, 1 for 90 %, 2 for 99 % …, `end` for all.
fn place(share: f64, end: f64) -> f64 {
    if share >= 1.0 {
        end
    } else {
        (-(1.0 - share).log10()).min(end)
    }
}

/// Draws the curves of several distributions.
pub fn picture(title: &str, series: &[(Role, &ExactHistogram)]) -> String {
    let most = series.iter().map(|(_, all)| all.count()).max().unwrap_or(1);
    // One digit more than the largest share that is not all.
    let end = (most.max(10) as f64).log10().ceil().clamp(1.0, 9.0) + 0.8;
    let top = above(series.iter().filter_map(|(_, all)| all.max()));
    let mut marks: Vec<f64> = (0..=end as u32).map(f64::from).collect();
    marks.push(end);
    let x = Axis::new(0.0..end, marks)
        .labels(|place| percent(place, end))
        .title("percent of samples; latency in ns");
    let y = Axis::new(0.0..top, ticks(0.0, top, 5));
    let mut chart = Chart::new(SIZE, title, Room::right(26.0), x, y);
    for (role, all) in series {
        let mut line = Vec::new();
        let mut last = 0.0;
        for (share, ns) in points(all) {
            // So many samples have this latency: a step.
            line.push((last, ns as f64));
            last = place(share, end);
            line.push((last, ns as f64));
        }
        chart.line(*role, &line, 2.0);
    }
    chart.finish()
}

/// The label of a place on the axis.
fn percent(at: f64, end: f64) -> String {
    if at >= end {
        return "100".into();
    }
    match at.round() as usize {
        0 => "0".into(),
        1 => "90".into(),
        2 => "99".into(),
        nr => format!("99.{}", "9".repeat(nr - 2)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_axis_is_stretched_to_the_right() {
        let labels: Vec<_> = [0.0, 1.0, 2.0, 4.0, 4.4].map(|at| percent(at, 4.4)).into();
        assert_eq!(labels, ["0", "90", "99", "99.99", "100"]);
        assert!((place(0.99, 4.4) - 2.0).abs() < 1e-9);
        assert_eq!(place(1.0, 4.4), 4.4);
    }

    #[test]
    fn points_are_the_shares_that_are_not_larger() {
        let mut all = ExactHistogram::new();
        all.record_n(4, 9);
        all.record_n(7, 1);
        assert_eq!(points(&all), [(0.9, 4), (1.0, 7)]);
    }
}
