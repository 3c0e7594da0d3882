//! Output of cyclictest with `--histogram`.

use anyhow::{Context, Result, ensure};
use takt_timerlat::stats::ExactHistogram;

/// Reads it. The unit is that of `--nsecs`.
///
/// # Errors
///
/// If the summary is missing, or does not fit the histogram.
pub fn parse(text: &str) -> Result<ExactHistogram> {
    let mut buckets = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let words: Vec<_> = line.split_whitespace().collect();
        let [ns, count] = words[..] else { continue };
        if !line.starts_with(|c: char| c.is_ascii_digit()) {
            continue;
        }
        let number = |text: &str| -> Result<u64> {
            text.parse()
                .with_context(|| format!("line {}: {line}", index + 1))
        };
        buckets.push((number(ns)?, number(count)?));
    }
    let summary = |name: &str| -> Result<u64> {
        text.lines()
            .find_map(|line| {
                line.strip_prefix("# ")?
                    .strip_prefix(name)?
                    .strip_prefix(": ")
            })
            .and_then(|value| value.trim().parse().ok())
            .with_context(|| format!("cyclictest's summary lacks `{name}`"))
    };
    // What is beyond the histogram is in none of the other sums.
    let (counted, overflow) = (summary("Total")?, summary("Histogram Overflows")?);
    let (min, avg, max) = (
        summary("Min Latencies")?,
        summary("Avg Latencies")?,
        summary("Max Latencies")?,
    );
    let in_buckets: u64 = buckets.iter().map(|(_, count)| count).sum();
    ensure!(
        in_buckets == counted,
        "cyclictest counted {counted} samples, its histogram has {in_buckets}"
    );
    let sum = match overflow {
        0 => buckets.iter().map(|(ns, count)| ns * count).sum(),
        _ => avg * (counted + overflow),
    };
    let all = ExactHistogram::from_parts(buckets, overflow, (min, max), sum);
    ensure!(all.count() != 0, "cyclictest took no sample");
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Printed by cyclictest of rt-tests 2.4 in Linux 6.1, without the buckets that are empty.
    const OUTPUT: &str = include_str!("samples/cyclictest.txt");

    #[test]
    fn cyclictests_own_output_is_read() {
        let all = parse(OUTPUT).unwrap();
        assert_eq!(all.count(), 20);
        assert_eq!((all.min(), all.max()), (Some(3682), Some(4416)));
        assert_eq!(all.avg().map(|avg| avg as u64), Some(3788));
        assert_eq!(all.percentile(500), Some(3728));
    }

    #[test]
    fn what_was_too_long_for_the_histogram_is_counted() {
        let text = OUTPUT.replace("Overflows: 00000", "Overflows: 00002");
        let all = parse(&text).unwrap();
        assert_eq!((all.count(), all.overflow()), (22, 2));
    }

    #[test]
    fn cut_output_is_an_error() {
        for cut in ["# Total", "# Histogram Overflows"] {
            let at = OUTPUT.find(cut).unwrap();
            assert!(parse(&OUTPUT[..at]).is_err(), "{cut}");
        }
        let mut lines = OUTPUT.lines();
        let first = lines.find(|line| line.starts_with("00")).unwrap();
        assert!(parse(&OUTPUT.replace(first, "")).is_err());
        assert!(parse("").is_err());
    }
}
