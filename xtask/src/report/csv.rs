//! `hist.csv`: `ns,irq_000,thr_000,…`, a row for each value that came. Nothing in it varies from
//! run to run under icount.

use std::collections::BTreeMap;
use std::fmt::Write;

use anyhow::{Context, Result, bail};

use super::record::{Distributions, LatencyRecord, SlotRecord};

/// The file's text; the columns are numbered by slot.
#[must_use]
pub fn write(slots: &[SlotRecord], distributions: &[Distributions]) -> String {
    let mut out = String::from("ns");
    for slot in slots {
        // Writing to a String does not fail.
        let _ = write!(out, ",irq_{0:03},thr_{0:03}", slot.slot);
    }
    out.push('\n');
    let mut rows: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
    let columns = distributions.iter().flat_map(|d| [&d.irq, &d.thread]);
    for (column, distribution) in columns.enumerate() {
        for (ns, count) in distribution.iter() {
            let row = rows
                .entry(ns)
                .or_insert_with(|| vec![0; distributions.len() * 2]);
            row[column] = count;
        }
    }
    for (ns, counts) in rows {
        let _ = write!(out, "{ns}");
        counts.iter().for_each(|count| {
            let _ = write!(out, ",{count}");
        });
        out.push('\n');
    }
    out
}

/// Reads the file back, with the exact figures of the record.
///
/// # Errors
///
/// If it is not such a file, or does not belong to these slots; the line is named.
pub fn read(text: &str, slots: &[SlotRecord]) -> Result<Vec<Distributions>> {
    let mut lines = text.lines().enumerate();
    let (_, header) = lines.next().context("it is empty")?;
    let expected = write(slots, &[]);
    if header != expected.trim_end() {
        bail!("line 1: the columns are not those of the run");
    }
    let mut columns = vec![Vec::new(); slots.len() * 2];
    for (index, line) in lines {
        let numbers: Result<Vec<u64>, _> = line.split(',').map(str::parse).collect();
        let numbers = numbers.with_context(|| format!("line {}: not a number", index + 1))?;
        let Some((&ns, counts)) = numbers
            .split_first()
            .filter(|(_, rest)| rest.len() == columns.len())
        else {
            bail!(
                "line {}: {} columns instead of {}",
                index + 1,
                numbers.len(),
                columns.len() + 1
            );
        };
        for (column, &count) in columns.iter_mut().zip(counts) {
            column.push((ns, count));
        }
    }
    let mut columns = columns.into_iter();
    let mut next = |record: &LatencyRecord| record.histogram(&columns.next().unwrap_or_default());
    slots
        .iter()
        .map(|slot| {
            Ok(Distributions {
                irq: next(&slot.irq)?,
                thread: next(&slot.thread)?,
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use takt_timerlat::stats::ExactHistogram;

    fn slot(slot: usize, distributions: &Distributions) -> SlotRecord {
        SlotRecord {
            slot,
            cpu: 0,
            tid: 0,
            priority: 95,
            interval_ns: 1,
            missed: 0,
            negative: 0,
            irq: (&distributions.irq).into(),
            thread: (&distributions.thread).into(),
        }
    }

    fn collect(samples: &[u64]) -> ExactHistogram {
        let mut all = ExactHistogram::new();
        samples.iter().for_each(|&ns| all.record(ns));
        all
    }

    #[test]
    fn only_values_that_came_have_rows() {
        let d = Distributions {
            irq: collect(&[7, 7, 9]),
            thread: collect(&[7, 80]),
        };
        assert_eq!(
            write(&[slot(2, &d)], std::slice::from_ref(&d)),
            "ns,irq_002,thr_002\n7,2,1\n9,1,0\n80,0,1\n"
        );
    }

    #[test]
    fn what_does_not_fit_is_refused_with_its_line() {
        let d = Distributions {
            irq: collect(&[7]),
            thread: collect(&[8]),
        };
        let slots = [slot(0, &d)];
        let good = write(&slots, &[d]);
        for (bad, why) in [
            (String::new(), "empty"),
            (good.replace("irq_000", "irq_001"), "line 1"),
            (good.replace("7,1,0", "7,x,0"), "line 2"),
            (good.replace("7,1,0", "7,1"), "line 2"),
            (good.replace("7,1,0", "7,2,0"), "2 samples"),
        ] {
            let error = format!("{:#}", read(&bad, &slots).unwrap_err());
            assert!(error.contains(why), "{error}");
        }
    }

    proptest! {
        #[test]
        fn what_is_written_reads_back(samples in prop::collection::vec((0u64..1 << 41, 0usize..4), 0..60)) {
            let mut ds = vec![Distributions::default(); 2];
            for (ns, which) in samples {
                let d = &mut ds[which / 2];
                if which % 2 == 0 { d.irq.record(ns) } else { d.thread.record(ns) }
            }
            let slots: Vec<_> = ds.iter().enumerate().map(|(i, d)| slot(i, d)).collect();
            prop_assert_eq!(read(&write(&slots, &ds), &slots).unwrap(), ds);
        }
    }
}
