//! A metric over runs, the oldest first.

use anyhow::Result;
use plotters::prelude::*;

use super::{Axis, NR_SERIES, Role, dotted, draw, mesh, text, ticks};

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
///
/// # Errors
///
/// What plotters says.
pub fn picture(title: &str, labels: &[String], lines: &[Line]) -> Result<String> {
    let all = || lines.iter().flat_map(|line| &line.points);
    let top = all().map(|&(_, value)| value).fold(1.0, f64::max) * 1.1;
    let nr = labels.len().max(1);
    // A label for each run, or for every so manieth.
    let step = nr.div_ceil(5);
    // Below the axis it says which colour is which, if there is more than one.
    let legend = if lines.len() > 1 { LEGEND } else { 0 };
    let size = (860, 420 + legend);
    draw(size, title, |area| {
        let marks = (0..nr).step_by(step).map(|at| at as f64).collect();
        let x = Axis::new(-0.3..nr as f64 - 0.7, marks);
        let y = Axis::new(0.0..top, ticks(0.0, top, 6));
        let mut chart = ChartBuilder::on(area)
            .caption(title, text(Role::Ink))
            .margin(10)
            .margin_right(60)
            .margin_bottom(10 + legend)
            .x_label_area_size(50)
            .y_label_area_size(70)
            .build_cartesian_2d(x, y)?;
        mesh(&mut chart)
            .disable_x_mesh()
            .x_label_formatter(&|at| labels.get(at.round() as usize).cloned().unwrap_or_default())
            .x_desc("revision")
            .y_desc("ns")
            .draw()?;
        for (nr, line) in lines.iter().enumerate() {
            let points = line.points.iter().map(|&(at, value)| (at as f64, value));
            dotted(&mut chart, Role::Series(nr), points.collect())?;
        }
        if legend > 0 {
            let width = (size.0 - 20) as usize / NR_SERIES;
            for (nr, line) in lines.iter().enumerate() {
                let at = (20 + (nr * width) as i32, (size.1 - LEGEND) as i32);
                let role = Role::Series(nr);
                area.draw(&Circle::new((at.0, at.1 + 8), 4, role.color().filled()))?;
                area.draw(&Text::new(
                    line.name.clone(),
                    (at.0 + 10, at.1),
                    text(Role::Ink),
                ))?;
            }
        }
        Ok(())
    })
}
