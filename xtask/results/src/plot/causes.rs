//! What the worst latencies consist of: a bar for each, cut into its causes.

use super::{Axis, Chart, Role, Room, above, ticks};
use crate::analysis::causes::Piece;

/// Draws the bars, the first on top. Each has its number at its left.
pub fn picture(title: &str, bars: &[(String, &[Piece])]) -> String {
    let pieces = bars.iter().flat_map(|(_, pieces)| *pieces);
    let top = above(pieces.map(|piece| piece.to));
    let nr = bars.len().max(1);
    let size = (460, 70 + 26 * nr as u32);
    let x = Axis::new(0.0..top, ticks(0.0, top, 5)).title("ns after the deadline");
    let centres: Vec<f64> = (0..nr).map(|at| at as f64 + 0.5).collect();
    let label = |at: f64| bars.get(at as usize).map(|(label, _)| label.clone());
    let y = Axis::new(nr as f64..0.0, centres).plain();
    let y = y.labels(|at| label(at).unwrap_or_default());
    let mut chart = Chart::new(size, title, Room::right(20.0), x, y);
    for (row, (_, pieces)) in bars.iter().enumerate() {
        let row = row as f64;
        for piece in *pieces {
            let (from, to) = (piece.from as f64, piece.to as f64);
            let role = Role::Cause(piece.cause.index());
            chart.bar(role, (from, row + 0.14), (to, row + 0.86));
        }
    }
    chart.finish()
}
