//! What an operation costs among how many others of its kind.

use super::{Axis, Chart, Role, Room, SIZE, above, short, ticks};
use crate::bench::Curve;

/// Draws curves; the axis of the numbers is logarithmic.
pub fn picture(title: &str, curves: &[Curve]) -> String {
    let all = || curves.iter().flat_map(|curve| &curve.points);
    let most = all().map(|&(nr, _)| nr).max().unwrap_or(1).max(2) as f64;
    let top = above(all().map(|&(_, value)| value));
    let place = |nr: u64| (nr.max(1) as f64).log10();
    let marks = [1, 10, 100, 1000, 10_000, 100_000]
        .into_iter()
        .filter(|&nr| nr as f64 <= most * 1.2)
        .map(place)
        .collect();
    let x = Axis::new(-0.08..most.log10() + 0.08, marks)
        .labels(|at| short(10f64.powf(at).round()))
        .title("how many there are; instructions");
    let y = Axis::new(0.0..top, ticks(0.0, top, 5));
    let mut chart = Chart::new(SIZE, title, Room::right(24.0), x, y);
    for (nr, curve) in curves.iter().enumerate() {
        let points = curve.points.iter();
        let points: Vec<_> = points
            .map(|&(nr, value)| (place(nr), value as f64))
            .collect();
        chart.dotted(Role::Series(nr), &points);
    }
    chart.finish()
}
