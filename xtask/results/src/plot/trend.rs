//! A metric over runs, the oldest first.

use super::{Anchor, Axis, Chart, NR_SERIES, Role, Room, ticks};

/// Height of the names of the lines.
const LEGEND: u32 = 26;

/// Runs of one configuration: place among all, and value.
#[derive(Clone, Debug)]
pub struct Line {
    /// What the runs have in common.
    pub name: String,
    /// Place and value of each.
    pub points: Vec<(usize, f64)>,
}

/// Draws lines over runs whose revisions are `labels`.
pub fn picture(title: &str, labels: &[String], lines: &[Line]) -> String {
    let all = || lines.iter().flat_map(|line| &line.points);
    let top = all().map(|&(_, value)| value).fold(1.0, f64::max) * 1.1;
    let nr = labels.len().max(1);
    // A label for each run, or for every so manieth.
    let step = nr.div_ceil(5);
    // Below the axis it says which colour is which, if there is more than one.
    let legend = if lines.len() > 1 { LEGEND } else { 0 };
    let size = (860, 420 + legend);
    let marks = (0..nr).step_by(step).map(|at| at as f64).collect();
    let label = |at: f64| labels.get(at.round() as usize).cloned();
    let x = Axis::new(-0.3..nr as f64 - 0.7, marks)
        .plain()
        .labels(|at| label(at).unwrap_or_default())
        .title("revision");
    let y = Axis::new(0.0..top, ticks(0.0, top, 6)).title("ns");
    let room = Room {
        left: 80.0,
        right: 60.0,
        top: 40.0,
        bottom: 60.0 + f64::from(legend),
    };
    let mut chart = Chart::new(size, title, room, x, y);
    chart.words(
        Role::Ink,
        (f64::from(size.0) / 2.0, 24.0),
        Anchor::Middle,
        title,
    );
    for (nr, line) in lines.iter().enumerate() {
        let points = line.points.iter().map(|&(at, value)| (at as f64, value));
        chart.dotted(Role::Series(nr), &points.collect::<Vec<_>>());
    }
    if legend > 0 {
        let width = f64::from(size.0 - 20) / NR_SERIES as f64;
        for (nr, line) in lines.iter().enumerate() {
            let (x, y) = (20.0 + nr as f64 * width, f64::from(size.1 - LEGEND) + 8.0);
            chart.spot(Role::Series(nr), (x, y), 4.0);
            chart.words(Role::Ink, (x + 10.0, y + 5.0), Anchor::Start, &line.name);
        }
    }
    chart.finish()
}
