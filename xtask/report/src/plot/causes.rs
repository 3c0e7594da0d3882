//! What the worst latencies consist of: a bar for each, cut into its causes.

use anyhow::Result;
use plotters::prelude::*;

use super::{Axis, Role, above, draw, frame, mesh, ticks};
use takt_results::analysis::causes::Piece;

/// Draws the bars, the first on top. Each has its number at its left.
///
/// # Errors
///
/// What plotters says.
pub fn picture(title: &str, bars: &[(String, &[Piece])]) -> Result<String> {
    let pieces = bars.iter().flat_map(|(_, pieces)| *pieces);
    let top = above(pieces.map(|piece| piece.to));
    let nr = bars.len().max(1);
    let size = (460, 70 + 26 * nr as u32);
    draw(size, title, |area| {
        let x = Axis::new(0.0..top, ticks(0.0, top, 5));
        let centres: Vec<f64> = (0..nr).map(|at| at as f64 + 0.5).collect();
        let y = Axis::new(nr as f64..0.0, centres);
        let mut chart = frame(area, 20).build_cartesian_2d(x, y)?;
        mesh(&mut chart)
            .disable_y_mesh()
            .y_label_formatter(&|at| {
                bars.get(*at as usize)
                    .map(|(label, _)| label.clone())
                    .unwrap_or_default()
            })
            .x_desc("ns after the deadline")
            .draw()?;
        for (row, (_, pieces)) in bars.iter().enumerate() {
            let row = row as f64;
            chart.draw_series(pieces.iter().map(|piece| {
                let corners = [
                    (piece.from as f64, row + 0.14),
                    (piece.to as f64, row + 0.86),
                ];
                Rectangle::new(corners, Role::Cause(piece.cause.index()).color().filled())
            }))?;
        }
        Ok(())
    })
}
