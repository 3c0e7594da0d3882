//! A histogram drawn in the terminal.

use takt_timerlat::stats::ExactHistogram;
use takt_timerlat::stats::histogram::SUB_BITS;

use super::Buckets;
use crate::text::Parts;

/// Rows that a drawing aims at.
const ROWS: u64 = 16;

/// What the terminal can show.
#[derive(Clone, Copy, Debug)]
pub struct Canvas {
    /// Columns.
    pub width: usize,
    /// Block characters, else ASCII.
    pub is_utf8: bool,
}

/// A row: from, up to and including, count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Row {
    low: u64,
    high: Option<u64>,
    count: u64,
}

/// Draws a distribution, a line for each bucket. Runs of empty buckets become one line. Unless
/// the user says how wide a bucket is, the rows cover what lies below the 99.9th percentile, and
/// the tail gets one row.
#[must_use]
pub fn draw(all: &ExactHistogram, buckets: Buckets, canvas: Canvas, parts: Parts) -> String {
    let (Some(min), Some(max)) = (all.min(), all.max()) else {
        return "  (no samples)\n".into();
    };
    let body = all.percentile(999).unwrap_or(max);
    let width = buckets
        .width
        .unwrap_or_else(|| nice_width((body - min) / ROWS + 1));
    let limit = buckets.limit.unwrap_or(match buckets.width {
        Some(_) => u64::MAX,
        None => body / width + 1,
    });
    let (mut counts, over) = all.rebucket(width, Some(limit));
    if parts.with_zeros {
        let last = counts.keys().next_back().copied().unwrap_or(0);
        for index in 0..=last / width {
            counts.entry(index * width).or_default();
        }
    }
    let mut rows: Vec<_> = counts
        .into_iter()
        .map(|(low, count)| Row {
            low,
            high: Some(low + (width - 1)),
            count,
        })
        .collect();
    if over != 0 {
        rows.push(Row {
            low: limit.saturating_mul(width),
            high: None,
            count: over,
        });
    }
    render(&rows, all.count(), width, canvas, parts)
}

/// What of the user's buckets does not suit what was measured; without any, that the percentiles are no samples' own.
#[must_use]
pub fn hint(all: &ExactHistogram, buckets: Buckets) -> Option<String> {
    let (min, max) = (all.min()?, all.max()?);
    let exact_below = all.exact_below();
    let is_rough = max >= exact_below && !all.is_exact();
    let rough = || {
        format!(
            "values of {exact_below} ns and more are known to 1/256 of them only, since the trace has not all (-e timerlat)"
        )
    };
    if buckets.width.is_none() && buckets.limit.is_none() {
        return is_rough.then(rough);
    }
    let (counts, over) = all.rebucket(buckets.width.unwrap_or(1), buckets.limit);
    let advice = match buckets.width {
        Some(_) => "a larger -E or -b shows them",
        None => "a larger -E shows them",
    };
    match (counts.len(), over) {
        (_, 1..) => Some(format!(
            "{over} of {} are beyond the last bucket, up to {max} ns: {advice}",
            all.count()
        )),
        (_, 0) if is_rough && buckets.width.is_some_and(|width| width < max >> SUB_BITS) => {
            Some(rough())
        }
        (1, 0) if min < max => Some(format!(
            "all are in one bucket, from {min} to {max} ns: a smaller -b (-n: in ns) tells them apart"
        )),
        _ => None,
    }
}

fn render(rows: &[Row], total: u64, width: u64, canvas: Canvas, parts: Parts) -> String {
    let label = |row| match parts.no_index {
        true => String::new(),
        false => label(row, width, canvas),
    };
    let labels: Vec<_> = rows.iter().map(label).collect();
    let label_width = labels
        .iter()
        .map(|label| label.chars().count())
        .max()
        .unwrap_or_default();
    let largest = rows.iter().map(|row| row.count).max().unwrap_or(1).max(1);
    let count_width = largest.to_string().len();
    // Behind the bar: count and share.
    let bar_width = canvas
        .width
        .saturating_sub(2 + label_width + 2 + 1 + count_width + 11)
        .clamp(8, 60);
    let mut out = String::new();
    let mut expected = None;
    for (row, label) in rows.iter().zip(&labels) {
        if expected.is_some_and(|low| low < row.low) {
            let gap = if canvas.is_utf8 { "⋮" } else { ":" };
            out.push_str(&format!("  {gap:>label_width$}\n"));
        }
        expected = row.high.map(|high| high + 1);
        let bar = bar(row.count, largest, bar_width, canvas.is_utf8);
        let pad = " ".repeat(bar_width - bar.chars().count());
        let share = row.count as f64 * 100.0 / total as f64;
        let left = " ".repeat(label_width - label.chars().count());
        out.push_str(&format!(
            "  {left}{label}  {bar}{pad} {:>count_width$} {share:>8.3} %\n",
            row.count
        ));
    }
    out
}

fn label(row: &Row, width: u64, canvas: Canvas) -> String {
    let (dots, at_least) = if canvas.is_utf8 {
        ("…", "≥ ")
    } else {
        ("..", ">= ")
    };
    match row.high {
        None => format!("{at_least}{}", row.low),
        Some(_) if width == 1 => row.low.to_string(),
        Some(high) => format!("{}{dots}{high}", row.low),
    }
}

/// A bar in eighths of a column; what is not nothing shows.
fn bar(count: u64, largest: u64, width: usize, is_utf8: bool) -> String {
    let eighths = (u128::from(count) * width as u128 * 8).div_ceil(largest.into()) as usize;
    if !is_utf8 {
        return "#".repeat(eighths.div_ceil(8));
    }
    let mut bar = "█".repeat(eighths / 8);
    bar.extend(
        ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"]
            .get(eighths % 8)
            .copied(),
    );
    bar
}

/// The smallest of 1, 2, 5, 10, 20, 50 … that is not below `at_least`.
fn nice_width(at_least: u64) -> u64 {
    let mut power = 1u64;
    loop {
        for factor in [1, 2, 5] {
            let width = power.saturating_mul(factor);
            if width >= at_least {
                return width;
            }
        }
        power = power.saturating_mul(10);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const ASCII: Canvas = Canvas {
        width: 60,
        is_utf8: false,
    };

    fn collect(samples: &[(u64, u64)]) -> ExactHistogram {
        let mut all = ExactHistogram::new();
        samples
            .iter()
            .for_each(|&(ns, count)| all.record_n(ns, count));
        all
    }

    #[test]
    fn narrow_distributions_have_a_row_for_each_value_and_gaps_one() {
        let text = draw(
            &collect(&[(7, 90), (8, 9), (12, 1)]),
            Buckets::default(),
            ASCII,
            Parts::default(),
        );
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines.len(), 4, "{text}");
        assert!(
            lines[0].starts_with("   7  ####") && lines[0].ends_with("90   90.000 %"),
            "{text}"
        );
        assert!(lines[2].trim() == ":");
        assert!(lines[3].contains(" # "));
        assert!(lines.iter().all(|line| line.len() <= ASCII.width));
    }

    #[test]
    fn a_long_tail_is_one_row() {
        let text = draw(
            &collect(&[(100, 5_000), (101, 5_000), (90_000, 1), (100_000, 1)]),
            Buckets::default(),
            ASCII,
            Parts::default(),
        );
        assert_eq!(text.lines().count(), 3, "{text}");
        assert!(
            text.lines()
                .last()
                .unwrap()
                .trim_start()
                .starts_with(">= 102"),
            "{text}"
        );
    }

    #[test]
    fn the_users_buckets_are_kept() {
        let buckets = Buckets {
            width: Some(10),
            limit: Some(3),
        };
        let text = draw(
            &collect(&[(5, 1), (25, 2), (31, 4)]),
            buckets,
            Canvas {
                width: 80,
                is_utf8: true,
            },
            Parts::default(),
        );
        let labels: Vec<_> = text
            .lines()
            .map(|line| line.split_whitespace().next().unwrap())
            .collect();
        assert_eq!(labels, ["0…9", "⋮", "20…29", "≥"]);
    }

    #[test]
    fn empty_buckets_and_labels_are_the_users_choice() {
        let parts = Parts {
            no_index: true,
            with_zeros: true,
            ..Parts::default()
        };
        let buckets = Buckets {
            width: Some(10),
            limit: None,
        };
        let text = draw(&collect(&[(5, 1), (25, 1)]), buckets, ASCII, parts);
        let counts: Vec<_> = text
            .lines()
            .map(|line| line.trim_start_matches([' ', '#']).split(' ').next())
            .collect();
        assert_eq!(counts, [Some("1"), Some("0"), Some("1")], "{text}");
    }

    #[test]
    fn buckets_that_do_not_suit_are_said() {
        let all = collect(&[(5, 1), (25, 2), (31, 4)]);
        let says = |width, limit| hint(&all, Buckets { width, limit });
        assert_eq!(says(None, None), None);
        assert_eq!(says(Some(10), Some(4)), None);
        let wide = ExactHistogram::from_parts([(99_999, 2)], 0, (99_000, 99_999), 198_999);
        let buckets = |width| Buckets { width, limit: None };
        for width in [None, Some(10)] {
            let rough = hint(&wide, buckets(width)).unwrap();
            let expected = format!("values of {} ns and more", wide.exact_below());
            assert!(rough.starts_with(&expected), "{rough}");
        }
        let coarse = hint(&wide, buckets(Some(100_000))).unwrap();
        assert!(coarse.starts_with("all are in one bucket"), "{coarse}");
        let small = says(Some(10), Some(3)).unwrap();
        assert!(small.starts_with("4 of 7 are beyond"), "{small}");
        let coarse = says(Some(1000), None).unwrap();
        assert!(
            coarse.starts_with("all are in one bucket, from 5 to 31 ns"),
            "{coarse}"
        );
    }

    #[test]
    fn widths_are_round() {
        assert_eq!(
            [1, 2, 3, 6, 11, 500, 501].map(nice_width),
            [1, 2, 5, 10, 20, 500, 1000]
        );
    }

    proptest! {
        #[test]
        fn anything_can_be_drawn(
            samples in prop::collection::vec((0u64..1 << 45, 1u64..1 << 40), 0..40),
            width in prop::option::of(1u64..1 << 30),
            limit in prop::option::of(1u64..1000),
            is_utf8 in any::<bool>(),
        ) {
            let _ = draw(&collect(&samples), Buckets { width, limit }, Canvas { width: 40, is_utf8 }, Parts::default());
        }
    }
}
