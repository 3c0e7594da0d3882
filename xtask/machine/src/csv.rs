//! `hist.csv`: `ns,irq_000,thr_000,…`, and `usr_000` where a task is measured; a row for each value that came. Nothing in it varies from
//! run to run under icount.

use std::collections::BTreeMap;
use std::fmt::Write;

use anyhow::{Context, Result, bail};

use super::record::{Distributions, SlotRecord};

/// The file's text; the columns are numbered by slot.
#[must_use]
pub fn write(slots: &[SlotRecord], distributions: &[Distributions]) -> String {
    let mut out = String::from("ns");
    for slot in slots {
        // Writing to a String does not fail.
        let _ = write!(out, ",irq_{0:03},thr_{0:03}", slot.slot);
        if slot.user.is_some() {
            let _ = write!(out, ",usr_{:03}", slot.slot);
        }
    }
    out.push('\n');
    let nr_columns: usize = slots.iter().map(nr_columns).sum();
    let mut rows: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
    let columns = slots.iter().zip(distributions);
    let columns = columns.flat_map(|(slot, d)| {
        let all = [&d.irq, &d.thread, &d.user];
        all.into_iter().take(self::nr_columns(slot))
    });
    for (column, distribution) in columns.enumerate() {
        for (ns, count) in distribution.iter() {
            let row = rows.entry(ns).or_insert_with(|| vec![0; nr_columns]);
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

/// How many columns a slot has.
fn nr_columns(slot: &SlotRecord) -> usize {
    2 + usize::from(slot.user.is_some())
}

/// A column: values in ns and how often each came.
pub type Column = Vec<(u64, u64)>;

/// Reads the file's columns for each slot: IRQ latency, thread latency, user latency, which may have none.
///
/// # Errors
///
/// If it is not such a file, or does not belong to these slots; the line is named.
pub fn columns(text: &str, slots: &[SlotRecord]) -> Result<Vec<[Column; 3]>> {
    let mut lines = text.lines().enumerate();
    let (_, header) = lines.next().context("it is empty")?;
    let expected = write(slots, &[]);
    if header != expected.trim_end() {
        bail!("line 1: the columns are not those of the run");
    }
    let nr: usize = slots.iter().map(nr_columns).sum();
    let mut columns = vec![<[Column; 3]>::default(); slots.len()];
    for (index, line) in lines {
        let numbers: Result<Vec<u64>, _> = line.split(',').map(str::parse).collect();
        let numbers = numbers.with_context(|| format!("line {}: not a number", index + 1))?;
        let Some((&ns, counts)) = numbers.split_first().filter(|(_, rest)| rest.len() == nr) else {
            bail!(
                "line {}: {} columns instead of {}",
                index + 1,
                numbers.len(),
                nr + 1
            );
        };
        let of_slots = columns.iter_mut().zip(slots);
        let of_slots =
            of_slots.flat_map(|(columns, slot)| columns.iter_mut().take(nr_columns(slot)));
        for (column, &count) in of_slots.zip(counts) {
            column.push((ns, count));
        }
    }
    Ok(columns)
}

/// The distributions of these columns, with the exact figures of the record.
///
/// # Errors
///
/// If they do not belong together.
pub fn distributions(columns: &[[Column; 3]], slots: &[SlotRecord]) -> Result<Vec<Distributions>> {
    let of_slot = |(slot, [irq, thread, user]): (&SlotRecord, &[Column; 3])| {
        Ok(Distributions {
            irq: slot.irq.histogram(irq)?,
            thread: slot.thread.histogram(thread)?,
            user: (slot.user.as_ref())
                .map_or_else(|| Ok(Default::default()), |it| it.histogram(user))?,
        })
    };
    slots.iter().zip(columns).map(of_slot).collect()
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
            last_ns: None,
            irq: (&distributions.irq).into(),
            thread: (&distributions.thread).into(),
            user: (slot % 2 == 1).then(|| (&distributions.user).into()),
        }
    }

    /// A change, and what is said of it.
    type Edit = (fn(&mut SlotRecord), &'static str);

    fn read(text: &str, slots: &[SlotRecord]) -> Result<Vec<Distributions>> {
        distributions(&columns(text, slots)?, slots)
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
            ..Default::default()
        };
        assert_eq!(
            write(&[slot(2, &d)], std::slice::from_ref(&d)),
            "ns,irq_002,thr_002\n7,2,1\n9,1,0\n80,0,1\n"
        );
    }

    #[test]
    fn a_figure_that_is_not_the_histograms_is_named() {
        // 70,000 lies in a bucket of several values.
        let d = Distributions {
            irq: collect(&[7, 7, 9]),
            thread: collect(&[8, 70_000, 90_000]),
            ..Default::default()
        };
        let good = slot(0, &d);
        let columns = columns(
            &write(std::slice::from_ref(&good), &[d]),
            std::slice::from_ref(&good),
        )
        .unwrap();
        let [irq, thread, _] = &columns[0];
        let edits: [Edit; 7] = [
            (
                |it| it.irq.max = Some(8),
                "max 8, hist.csv's greatest value is 9",
            ),
            (|it| it.irq.max = Some(10), "max 10, hist.csv's"),
            (|it| it.irq.max = None, "max none, hist.csv's"),
            (
                |it| it.irq.min = Some(6),
                "min 6, hist.csv's least value is 7",
            ),
            (|it| it.irq.sum += 1, "sum 24, hist.csv's is 23"),
            (|it| it.thread.sum = 90_000, "sum 90000, hist.csv's is"),
            (|it| it.thread.max = Some(90_001), "max 90001"),
        ];
        for (edit, says) in edits {
            let mut slot = good.clone();
            edit(&mut slot);
            let error = slot.irq.check(irq).and_then(|()| slot.thread.check(thread));
            let error = error.unwrap_err().to_string();
            assert!(error.contains(says), "{error}");
        }
    }

    #[test]
    fn what_does_not_fit_is_refused_with_its_line() {
        let d = Distributions {
            irq: collect(&[7]),
            thread: collect(&[8]),
            ..Default::default()
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
        fn what_is_written_reads_back(samples in prop::collection::vec((0u64..1 << 41, 0usize..5), 0..60)) {
            let mut ds = vec![Distributions::default(); 2];
            for (ns, which) in samples {
                let [first, second] = &mut *ds else { unreachable!() };
                [&mut first.irq, &mut first.thread, &mut second.irq, &mut second.thread, &mut second.user][which].record(ns);
            }
            let slots: Vec<_> = ds.iter().enumerate().map(|(i, d)| slot(i, d)).collect();
            let columns = columns(&write(&slots, &ds), &slots).unwrap();
            for (slot, [irq, thread, user]) in slots.iter().zip(&columns) {
                slot.irq.check(irq).unwrap();
                slot.thread.check(thread).unwrap();
                slot.user.map_or(Ok(()), |it| it.check(user)).unwrap();
            }
            prop_assert_eq!(distributions(&columns, &slots).unwrap(), ds);
        }
    }
}
