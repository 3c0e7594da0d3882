//! How close bounds are to what was met.

use serde::Serialize;

use super::Stretch;

/// How the bounds of stretches compare with the longest that a sweep has met: only those that hold for themselves, without formulas,
/// handlers and waits.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Ratios {
    /// Stretches with a witness.
    pub nr: usize,
    /// Half of these have at most this ratio of bound to witness.
    pub median: f64,
    /// The highest.
    pub max: f64,
    /// How many are above 1.2.
    pub nr_above: usize,
    /// Stretches of which none was met.
    pub nr_without: usize,
}

impl Ratios {
    /// As it is printed.
    #[must_use]
    pub fn text(&self) -> String {
        format!(
            "bounds are {:.2} times the longest that was met, at the median of {}, and {:.2} at most; {} are above 1.2, and of {} none was met",
            self.median, self.nr, self.max, self.nr_above, self.nr_without
        )
    }

    pub(super) fn of(stretches: &[Stretch]) -> Self {
        const MOST: f64 = 1.2;
        let is_plain = |it: &&Stretch| {
            it.bound.is_some()
                && it.handlers == 0
                && it.waits == 0
                && it.grows.is_empty()
                && !it.to_thread
                && !it.is_entry
        };
        let plain: Vec<_> = stretches.iter().filter(is_plain).collect();
        let mut all: Vec<f64> = plain.iter().filter_map(|it| it.ratio()).collect();
        all.sort_by(f64::total_cmp);
        let at = |place: usize| all.get(place).copied().unwrap_or_default();
        Self {
            nr: all.len(),
            median: at(all.len() / 2),
            max: at(all.len().wrapping_sub(1)),
            nr_above: all.iter().filter(|it| **it > MOST).count(),
            nr_without: plain.len() - all.len(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::stretch;
    use super::*;

    #[test]
    fn what_was_met_counts_and_what_stands_for_itself() {
        let mut all = vec![
            stretch("a (a.rs:1)", Some(100), Some(100)),
            stretch("b (b.rs:1)", Some(90), Some(60)),
            stretch("c (c.rs:1)", Some(50), Some(20)),
            stretch("d (d.rs:1)", Some(50), None),
            stretch("e (e.rs:1)", None, Some(7)),
        ];
        let found = Ratios::of(&all);
        assert_eq!((found.nr, found.nr_above, found.nr_without), (3, 2, 1));
        assert_eq!((found.median, found.max), (1.5, 2.5));
        // A handler comes on top of it.
        all[2].handlers = 1;
        assert_eq!(Ratios::of(&all).max, 1.5);
        assert_eq!(Ratios::of(&[]).median, 0.0);
    }
}
