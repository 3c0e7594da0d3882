//! Pictures as SVG, which takes its colours from the page's style sheet: what is drawn has the class of its [`Role`].
//!
//! | module | picture |
//! |---|---|
//! | `chart` | axes, and what is drawn between them |
//! | [`histogram`] | how often each latency came, linear and logarithmic |
//! | [`percentiles`] | the percentile curve |
//! | [`over_time`] | latency over time |
//! | [`causes`] | what the worst latencies consist of |
//! | [`timeline`] | who had the CPU around the worst activation |
//! | [`scale`] | what an operation costs among how many others |
//! | [`trend`] | a metric over runs |

pub mod causes;
mod chart;
pub mod histogram;
pub mod over_time;
pub mod percentiles;
pub mod scale;
pub mod svg;
pub mod timeline;
pub mod trend;

pub(crate) use chart::{Anchor, Axis, Chart, Room};

/// Number of colours for series (runs, curves).
pub const NR_SERIES: usize = 8;

/// What a colour stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Text.
    Ink,
    /// Lines behind everything.
    Grid,
    /// Axes and frames.
    Axis,
    /// IRQ latency.
    Irq,
    /// Thread latency.
    Thread,
    /// A mark that must be seen.
    Mark,
    /// What matters less.
    Quiet,
    /// The return from user space.
    User,
    /// One of several runs or curves.
    Series(usize),
    /// A cause, by its place.
    Cause(usize),
}

impl Role {
    /// The number in its class and in its colour variable.
    #[must_use]
    pub fn number(self) -> u8 {
        match self {
            Self::Ink => 0,
            Self::Grid => 1,
            Self::Axis => 2,
            Self::Irq => 3,
            Self::Thread => 4,
            Self::Mark => 5,
            Self::Quiet => 6,
            Self::User => 7,
            Self::Series(nr) => 20 + (nr % NR_SERIES) as u8,
            Self::Cause(nr) => 40 + nr.min(19) as u8,
        }
    }

    /// The class of what is filled.
    #[must_use]
    pub fn fill(self) -> String {
        format!("f{}", self.number())
    }

    /// The class of lines.
    #[must_use]
    pub fn stroke(self) -> String {
        format!("s{}", self.number())
    }
}

/// The size of an ordinary picture. Small, so that its text can be read on a small screen.
pub(crate) const SIZE: (u32, u32) = (460, 300);

/// The end of an axis on which there is some room above all of these.
pub(crate) fn above(values: impl Iterator<Item = u64>) -> f64 {
    values.max().unwrap_or(1).max(1) as f64 * 1.06
}

/// A number on an axis: short.
pub(crate) fn short(value: f64) -> String {
    let (value, unit) = match value.abs() {
        size if size >= 1e9 => (value / 1e9, "G"),
        size if size >= 1e6 => (value / 1e6, "M"),
        size if size >= 1e4 => (value / 1e3, "k"),
        _ => (value, ""),
    };
    let text = format!("{value:.2}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    format!("{text}{unit}")
}

/// The smallest of 1, 2, 5, 10, 20 … that is not below `at_least`.
#[must_use]
pub fn nice_step(at_least: u64) -> u64 {
    let mut power = 1u64;
    loop {
        for factor in [1, 2, 5] {
            let step = power.saturating_mul(factor);
            if step >= at_least {
                return step;
            }
        }
        power = power.saturating_mul(10);
    }
}

/// Round values from `low` to `high`, about `nr` of them, for an axis.
pub(crate) fn ticks(low: f64, high: f64, nr: u64) -> Vec<f64> {
    let step = nice_step((((high - low) / nr as f64).ceil() as u64).max(1)) as f64;
    let first = (low / step).ceil() as i64;
    (first..)
        .map(|at| at as f64 * step)
        .take_while(|&at| at <= high)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_on_axes_are_short() {
        let shown = [0.0, 4.0, 376.0, 9999.0, 10_000.0, 1_250_000.0, 0.5, 2e9].map(short);
        assert_eq!(
            shown,
            ["0", "4", "376", "9999", "10k", "1.25M", "0.5", "2G"]
        );
    }

    #[test]
    fn ticks_are_round_and_inside() {
        assert_eq!(ticks(481.0, 1203.0, 4), [600.0, 800.0, 1000.0, 1200.0]);
        assert_eq!(ticks(-10.0, 10.0, 4), [-10.0, -5.0, 0.0, 5.0, 10.0]);
        assert_eq!(ticks(4.0, 4.5, 4), [4.0]);
    }
}
