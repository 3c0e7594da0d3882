//! What an operation costs among how many others of its kind.

use anyhow::Result;
use plotters::prelude::*;

use super::{Axis, Role, SIZE, draw, short, text, ticks};
use crate::bench::Curve;

/// Draws curves; the axis of the numbers is logarithmic.
///
/// # Errors
///
/// What plotters says.
pub fn picture(title: &str, curves: &[Curve]) -> Result<String> {
    let all = || curves.iter().flat_map(|curve| &curve.points);
    let most = all().map(|&(nr, _)| nr).max().unwrap_or(1).max(2) as f64;
    let top = all().map(|&(_, value)| value).max().unwrap_or(1).max(1) as f64 * 1.08;
    let mut numbers: Vec<u64> = all().map(|&(nr, _)| nr).collect();
    numbers.sort_unstable();
    numbers.dedup();
    draw(SIZE, title, |area| {
        let place = |nr: u64| (nr.max(1) as f64).log10();
        let marks = [1, 10, 100, 1000, 10_000, 100_000]
            .into_iter()
            .filter(|&nr| nr as f64 <= most * 1.2)
            .map(place)
            .collect();
        let x = Axis::new(-0.08..most.log10() + 0.08, marks);
        let y = Axis::new(0.0..top, ticks(0.0, top, 5));
        let mut chart = ChartBuilder::on(area)
            .margin(8)
            .margin_right(24)
            .x_label_area_size(46)
            .y_label_area_size(62)
            .build_cartesian_2d(x, y)?;
        chart
            .configure_mesh()
            .bold_line_style(Role::Grid.color())
            .light_line_style(TRANSPARENT)
            .axis_style(Role::Axis.color())
            .label_style(text(Role::Ink))
            .axis_desc_style(text(Role::Ink))
            .x_label_formatter(&|at| short(10f64.powf(*at).round()))
            .y_label_formatter(&|value| short(*value))
            .x_desc("how many there are; instructions")
            .draw()?;
        for (nr, curve) in curves.iter().enumerate() {
            let color = Role::Series(nr).color();
            let points = || {
                curve
                    .points
                    .iter()
                    .map(|&(nr, value)| (place(nr), value as f64))
            };
            chart.draw_series([PathElement::new(
                points().collect::<Vec<_>>(),
                color.stroke_width(2),
            )])?;
            chart.draw_series(points().map(|at| Circle::new(at, 4, color.filled())))?;
        }
        Ok(())
    })
}
