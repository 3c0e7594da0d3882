//! Reading an earlier run's folder.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::csv;
use super::record::{Run, RunRecord, SCHEMA};
use crate::run::demux::CaptureCount;
use crate::run::folder::{HIST, RECORD};

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

/// Reads `run.json` and `hist.csv`.
///
/// # Errors
///
/// If one is missing, is not what it should be, or they do not belong together.
pub fn load(dir: &Path) -> Result<Run> {
    let path = dir.join(RECORD);
    let text =
        fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    let schema: Value =
        serde_json::from_str(&text).with_context(|| format!("{} is no JSON", path.display()))?;
    match schema["schema"].as_str() {
        Some(SCHEMA) => {}
        Some(other) => bail!(
            "{} has schema {other}, this tool reads {SCHEMA}",
            path.display()
        ),
        None => bail!("{} is not a run's", path.display()),
    }
    let record: RunRecord =
        serde_json::from_value(schema).with_context(|| format!("{} is damaged", path.display()))?;
    let path = dir.join(HIST);
    let text =
        fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    let distributions = csv::read(&text, &record.slots)
        .with_context(|| format!("{} is damaged", path.display()))?;
    Ok(Run {
        record,
        distributions,
    })
}
