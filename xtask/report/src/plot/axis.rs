//! [`Axis`]: a linear axis with marks where we want them.

use std::ops::Range;

use plotters::coord::ranged1d::{KeyPointHint, NoDefaultFormatting, Ranged, ValueFormatter};

/// An axis from one number to another, upwards or downwards.
#[derive(Clone, Debug)]
pub(crate) struct Axis {
    range: Range<f64>,
    marks: Vec<f64>,
}

impl Axis {
    /// An axis with lines and labels at `marks`.
    pub(crate) fn new(range: Range<f64>, marks: Vec<f64>) -> Self {
        Self { range, marks }
    }
}

impl Ranged for Axis {
    type FormatOption = NoDefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, (first, last): (i32, i32)) -> i32 {
        let length = self.range.end - self.range.start;
        let share = if length == 0.0 {
            0.5
        } else {
            (value - self.range.start) / length
        };
        first + (share * f64::from(last - first)).round() as i32
    }

    fn key_points<Hint: KeyPointHint>(&self, hint: Hint) -> Vec<f64> {
        if hint.weight().allow_light_points() {
            Vec::new()
        } else {
            self.marks.clone()
        }
    }

    fn range(&self) -> Range<f64> {
        self.range.clone()
    }
}

impl ValueFormatter<f64> for Axis {
    fn format(value: &f64) -> String {
        super::short(*value)
    }
}
