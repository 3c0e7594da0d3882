//! [`Chart`]: axes with what is drawn between them, as SVG whose colours are classes.

use std::fmt::{self, Write};
use std::ops::Range;

use super::{Role, short};
use crate::markup::escape;

/// Pixels of text.
const TEXT: f64 = 13.7;
/// From an axis to its labels.
const GAP: f64 = 8.0;

/// An axis from one number to another, upwards or downwards.
pub(crate) struct Axis<'a> {
    range: Range<f64>,
    marks: Vec<f64>,
    label: Box<dyn Fn(f64) -> String + 'a>,
    title: String,
    is_logarithmic: bool,
    has_lines: bool,
}

impl<'a> Axis<'a> {
    /// A linear axis with lines and labels at `marks`, which are short numbers.
    pub(crate) fn new(range: Range<f64>, marks: Vec<f64>) -> Self {
        Self {
            range,
            marks,
            label: Box::new(short),
            title: String::new(),
            is_logarithmic: false,
            has_lines: true,
        }
    }

    /// One of equal steps from each power of ten to the next. Its ends are above 0.
    pub(crate) fn logarithmic(range: Range<f64>) -> Self {
        let powers = (0..).map(|power| 10f64.powi(power));
        let marks = powers.take_while(|mark| *mark <= range.end).collect();
        Self {
            is_logarithmic: true,
            ..Self::new(range, marks)
        }
    }

    /// With these labels.
    pub(crate) fn labels(self, label: impl Fn(f64) -> String + 'a) -> Self {
        Self {
            label: Box::new(label),
            ..self
        }
    }

    /// With no lines at its marks.
    pub(crate) fn plain(self) -> Self {
        Self {
            has_lines: false,
            ..self
        }
    }

    /// With what it counts.
    pub(crate) fn title(self, title: impl Into<String>) -> Self {
        Self {
            title: title.into(),
            ..self
        }
    }

    /// Where a value stands: 0 at the beginning, 1 at the end.
    fn share(&self, value: f64) -> f64 {
        let of = |value: f64| match self.is_logarithmic {
            true => value.log10(),
            false => value,
        };
        let (start, end) = (of(self.range.start), of(self.range.end));
        match end - start {
            0.0 => 0.5,
            length => (of(value) - start) / length,
        }
    }
}

/// Room around what is drawn, for labels and titles.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Room {
    pub(crate) left: f64,
    pub(crate) right: f64,
    pub(crate) top: f64,
    pub(crate) bottom: f64,
}

impl Room {
    /// That of most; the last label of the lower axis needs `right` pixels.
    pub(crate) fn right(right: f64) -> Self {
        Self {
            left: 70.0,
            right,
            top: 8.0,
            bottom: 54.0,
        }
    }
}

/// Which of its points a text begins at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Anchor {
    Start,
    Middle,
    End,
}

/// A picture that is being drawn.
pub(crate) struct Chart<'a> {
    svg: String,
    size: (f64, f64),
    room: Room,
    x: Axis<'a>,
    y: Axis<'a>,
}

impl<'a> Chart<'a> {
    /// Draws the axes; `title` is for those who cannot see the picture.
    pub(crate) fn new(
        (width, height): (u32, u32),
        title: &str,
        room: Room,
        x: Axis<'a>,
        y: Axis<'a>,
    ) -> Self {
        let title = escape(title);
        let mut chart = Self {
            svg: format!(
                "<svg class=\"plot\" viewBox=\"0 0 {width} {height}\" xmlns=\"http://www.w3.org/2000/svg\" role=\"img\" \
                 aria-label=\"{title}\">\n"
            ),
            size: (f64::from(width), f64::from(height)),
            room,
            x,
            y,
        };
        chart.axes();
        chart
    }

    fn axes(&mut self) {
        let ((width, height), room) = (self.size, self.room);
        let (left, right) = (room.left, width - room.right);
        let (top, bottom) = (room.top, height - room.bottom);
        let marks: Vec<_> = self.x.marks.iter().map(|&mark| self.at_x(mark)).collect();
        for (at, mark) in marks.into_iter().zip(self.x.marks.clone()) {
            if self.x.has_lines {
                self.pixels(Role::Grid, &[(at, top), (at, bottom)], 1.0);
            }
            self.pixels(Role::Axis, &[(at, bottom), (at, bottom + 4.0)], 1.0);
            let label = (self.x.label)(mark);
            self.words(Role::Ink, (at, bottom + GAP + TEXT), Anchor::Middle, &label);
        }
        let marks: Vec<_> = self.y.marks.iter().map(|&mark| self.at_y(mark)).collect();
        for (at, mark) in marks.into_iter().zip(self.y.marks.clone()) {
            if self.y.has_lines {
                self.pixels(Role::Grid, &[(left, at), (right, at)], 1.0);
            }
            self.pixels(Role::Axis, &[(left - 4.0, at), (left, at)], 1.0);
            let label = (self.y.label)(mark);
            let place = (left - GAP, at + TEXT / 3.0);
            self.words(Role::Ink, place, Anchor::End, &label);
        }
        self.pixels(
            Role::Axis,
            &[(left, top), (left, bottom), (right, bottom)],
            1.0,
        );
        let (below, beside) = (self.x.title.clone(), self.y.title.clone());
        let middle = (left + right) / 2.0;
        self.words(
            Role::Ink,
            (middle, bottom + GAP + 2.6 * TEXT),
            Anchor::Middle,
            &below,
        );
        self.words(
            Role::Ink,
            (GAP, (top + bottom) / 2.0),
            Anchor::Start,
            &beside,
        );
    }

    fn at_x(&self, value: f64) -> f64 {
        let length = self.size.0 - self.room.left - self.room.right;
        self.room.left + self.x.share(value) * length
    }

    fn at_y(&self, value: f64) -> f64 {
        let length = self.size.1 - self.room.top - self.room.bottom;
        self.size.1 - self.room.bottom - self.y.share(value) * length
    }

    fn at(&self, (x, y): (f64, f64)) -> (f64, f64) {
        (self.at_x(x), self.at_y(y))
    }

    /// A bar between two of its corners.
    pub(crate) fn bar(&mut self, role: Role, one: (f64, f64), other: (f64, f64)) {
        let ((x1, y1), (x2, y2)) = (self.at(one), self.at(other));
        let (width, height) = ((x2 - x1).abs(), (y2 - y1).abs());
        self.write(format_args!(
            "<rect class=\"{}\" x=\"{:.1}\" y=\"{:.1}\" width=\"{width:.2}\" height=\"{height:.2}\"/>",
            role.fill(),
            x1.min(x2),
            y1.min(y2)
        ));
    }

    /// A line from point to point.
    pub(crate) fn line(&mut self, role: Role, points: &[(f64, f64)], width: f64) {
        let points: Vec<_> = points.iter().map(|&point| self.at(point)).collect();
        self.pixels(role, &points, width);
    }

    fn pixels(&mut self, role: Role, points: &[(f64, f64)], width: f64) {
        let points: Vec<_> = points
            .iter()
            .map(|(x, y)| format!("{x:.1},{y:.1}"))
            .collect();
        self.write(format_args!(
            "<polyline class=\"{}\" fill=\"none\" stroke-width=\"{width}\" points=\"{}\"/>",
            role.stroke(),
            points.join(" ")
        ));
    }

    /// A dot.
    pub(crate) fn dot(&mut self, role: Role, at: (f64, f64), radius: f64) {
        let at = self.at(at);
        self.spot(role, at, radius);
    }

    /// A dot at a place of the picture.
    pub(crate) fn spot(&mut self, role: Role, (x, y): (f64, f64), radius: f64) {
        self.write(format_args!(
            "<circle class=\"{}\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"{radius}\"/>",
            role.fill()
        ));
    }

    /// A line from point to point, and the points.
    pub(crate) fn dotted(&mut self, role: Role, points: &[(f64, f64)]) {
        self.line(role, points, 2.0);
        points.iter().for_each(|&point| self.dot(role, point, 4.0));
    }

    /// A text that stands on a point.
    pub(crate) fn text(&mut self, role: Role, at: (f64, f64), anchor: Anchor, text: &str) {
        let at = self.at(at);
        self.words(role, at, anchor, text);
    }

    /// A text at a place of the picture.
    pub(crate) fn words(&mut self, role: Role, (x, y): (f64, f64), anchor: Anchor, text: &str) {
        if text.is_empty() {
            return;
        }
        let anchor = match anchor {
            Anchor::Start => "start",
            Anchor::Middle => "middle",
            Anchor::End => "end",
        };
        self.write(format_args!(
            "<text class=\"{}\" x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\" font-size=\"{TEXT}\">{}</text>",
            role.fill(),
            escape(text)
        ));
    }

    fn write(&mut self, element: fmt::Arguments<'_>) {
        // Writing to a String does not fail.
        let _ = writeln!(self.svg, "{element}");
    }

    /// The picture.
    pub(crate) fn finish(mut self) -> String {
        self.svg.push_str("</svg>");
        self.svg
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_stand_where_their_axis_has_them() {
        let (x, y) = (
            Axis::new(0.0..10.0, vec![5.0]),
            Axis::logarithmic(1.0..100.0),
        );
        let room = Room {
            left: 10.0,
            right: 0.0,
            top: 0.0,
            bottom: 20.0,
        };
        let mut chart = Chart::new((110, 120), "a < b", room, x, y);
        chart.dot(Role::Thread, (5.0, 10.0), 2.0);
        chart.bar(Role::Cause(1), (0.0, 1.0), (1.0, 100.0));
        let svg = chart.finish();
        for element in [
            "<circle class=\"f4\" cx=\"60.0\" cy=\"50.0\" r=\"2\"/>",
            "<rect class=\"f41\" x=\"10.0\" y=\"0.0\" width=\"10.00\" height=\"100.00\"/>",
            "aria-label=\"a &lt; b\"",
            ">5</text>",
            ">100</text>",
        ] {
            assert!(svg.contains(element), "{element} in {svg}");
        }
    }
}
