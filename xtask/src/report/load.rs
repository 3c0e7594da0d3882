//! Reading an earlier run's folder.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, anyhow, bail};
use serde_json::Value;

use super::csv;
use super::record::{Run, RunRecord, SCHEMA, Verdict};
use crate::run::demux::CaptureCount;
use crate::run::folder::{HIST, RECORD};
use crate::term::WithHelp;

/// What `run.json` says of the run's other files, whatever kind of run it was. A file that was cut
/// between two frames is damaged without a sign of it, and so is a header with another frequency.
#[derive(Clone, Copy, Debug, Default)]
pub struct Facts {
    /// What came, if that is known.
    pub capture: Option<CaptureCount>,
    /// The TSC frequency in Hz, if that is known.
    pub tsc_hz: Option<u64>,
}

impl Facts {
    /// Reads them; those that cannot be read are not known.
    #[must_use]
    pub fn read(dir: &Path) -> Self {
        let text = fs::read_to_string(dir.join(RECORD)).unwrap_or_default();
        let record: Value = serde_json::from_str(&text).unwrap_or_default();
        Self {
            capture: serde_json::from_value(record["capture"].clone()).ok(),
            tsc_hz: record["clocks"]["tsc_hz"].as_u64(),
        }
    }

    /// Compares the frequency in a file's header.
    ///
    /// # Errors
    ///
    /// If it is another one.
    pub fn check_tsc(&self, found: u64) -> Result<()> {
        match self.tsc_hz {
            // A guest that died early has not said, and the header has 1.
            Some(expected) if expected.max(1) != found => {
                bail!("byte 16: the TSC frequency is {found} Hz, but the run's was {expected} Hz")
            }
            _ => Ok(()),
        }
    }
}

/// What to do about files of a run that cannot be used.
const ADVICE: &str = "a run that was changed or cut is none: copy the folder again if it is a copy, else measure again";

/// Reads `run.json` and `hist.csv`.
///
/// # Errors
///
/// If one is missing, is not what it should be, or they do not belong together.
pub fn load(dir: &Path) -> Result<Run> {
    let path = dir.join(RECORD);
    let text =
        fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    let record: Value = serde_json::from_str(&text)
        .with_context(|| format!("{} is no JSON", path.display()))
        .help(ADVICE)?;
    match record["schema"].as_str() {
        Some(SCHEMA) => {}
        Some(other) => {
            return Err(anyhow!(
                "{} has schema {other}, this Takt reads {SCHEMA}",
                path.display()
            ))
            .help("read it by the Takt that measured it (its `git` has the revision), or measure again");
        }
        None => return Err(anyhow!("{} is not a run's", path.display())).help(ADVICE),
    }
    let record: RunRecord = serde_json::from_value(record)
        .with_context(|| format!("{} is damaged", path.display()))
        .help(ADVICE)?;
    let path = dir.join(HIST);
    let hist = fs::read_to_string(&path)
        .with_context(|| format!("cannot read {}", path.display()))
        .help(ADVICE)?;
    let columns = csv::columns(&hist, &record.slots)
        .with_context(|| format!("{} is damaged", path.display()))
        .help(ADVICE)?;
    let distributions = check(&record, &hist, &columns)
        .and_then(|()| csv::distributions(&columns, &record.slots))
        .with_context(|| {
            format!(
                "{RECORD} and {HIST} in {} do not belong together",
                dir.display()
            )
        })
        .help(ADVICE)?;
    Ok(Run {
        record,
        distributions,
    })
}

/// Whether the two files are what the run wrote.
fn check(record: &RunRecord, hist: &str, columns: &[[csv::Column; 2]]) -> Result<()> {
    if record.sum == Some(record.sum_with(hist)) {
        return Ok(());
    }
    // Which figure it is that is another one, if that can be told.
    if record.result != Verdict::Error {
        for (slot, [irq, thread]) in record.slots.iter().zip(columns) {
            slot.irq.check(irq)?;
            slot.thread.check(thread)?;
        }
    }
    if record.sum.is_some() {
        bail!("one of them was changed after the run: the check sum is another one");
    }
    Ok(())
}
