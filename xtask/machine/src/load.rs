//! Reading an earlier run's folder.

use std::path::Path;

use anyhow::{Context, Result, anyhow, bail};
use serde_json::Value;

use super::csv;
use super::record::{Run, RunRecord, SCHEMA, ThreadRecord};
use crate::run::demux::CaptureCount;
use crate::run::folder::{HIST, RECORD};
use takt_base::input;
use takt_base::schema;
use takt_base::term;
use takt_base::term::WithHelp;
use takt_guest::words;

/// What `run.json` says of the run's other files, whatever kind of run it was, and though the run's figures may have been
/// changed. A file that was cut between two frames is damaged without a sign of it, and so is a header with another
/// frequency.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    /// What came, if that is known.
    pub capture: Option<CaptureCount>,
    /// Log messages that found no room in the guest, as far as that is known.
    pub log_dropped: u64,
    /// The TSC frequency in Hz, if that is known.
    pub tsc_hz: Option<u64>,
    /// The threads that the guest had at the end.
    pub threads: Vec<ThreadRecord>,
    /// The tracer that ran, if that is known.
    pub tracer: Option<String>,
}

impl Facts {
    /// Reads them; those that cannot be read are not known. That nothing can be read is said on stderr: the run's other files
    /// can be looked at without.
    #[must_use]
    pub fn read(dir: &Path) -> Self {
        let path = dir.join(RECORD);
        let text = input::read_to_string(&path).map_err(anyhow::Error::from);
        let record = text.and_then(|text| Ok(serde_json::from_str(&text)?));
        let record: Value = record.unwrap_or_else(|error| {
            term::note(format_args!(
                "{} cannot be read ({error}): what it knows of the run is missing, as names of threads, and whether the \
                 run's files have been cut",
                path.display()
            ));
            Value::Null
        });
        // The user may have chosen another one for the kernel's command line.
        let chosen = record["kernel_cmdline"].as_str().and_then(words::tracer);
        Self {
            capture: serde_json::from_value(record["capture"].clone()).ok(),
            log_dropped: record["log_dropped"].as_u64().unwrap_or(0),
            tsc_hz: record["clocks"]["tsc_hz"].as_u64(),
            threads: serde_json::from_value(record["threads"].clone()).unwrap_or_default(),
            tracer: chosen
                .or(record["config"]["tracer"].as_str())
                .map(str::to_owned),
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

/// Schema of the record of `cargo xtask run`, which boots an image and measures nothing.
pub const BOOT: &str = "takt.boot/1";

/// What to do about files of a run that cannot be used.
const ADVICE: &str = "a run whose files were cut or contradict each other is none: copy the folder again if it is a copy, else measure again";

/// Reads `run.json` alone: what it says is not checked against the run's other files.
fn record(dir: &Path) -> Result<RunRecord> {
    let path = dir.join(RECORD);
    let text =
        input::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    let record: Value = serde_json::from_str(&text)
        .with_context(|| format!("{} is no JSON", path.display()))
        .help(ADVICE)?;
    if record["schema"] == BOOT {
        return Err(anyhow!(
            "{} is of an image that measured no latency",
            path.display()
        ))
        .help(format!(
            "`cargo xtask run` booted it: see what it logged by cargo xtask log {0}, what it traced by cargo xtask \
             trace {0}",
            dir.display()
        ));
    }
    schema::check(&record, SCHEMA).with_context(|| format!("{} cannot be read", path.display()))?;
    serde_json::from_value(record)
        .with_context(|| format!("{} is damaged", path.display()))
        .help(ADVICE)
}

/// Reads `run.json` and `hist.csv`.
///
/// # Errors
///
/// If one is missing, is not what it should be, or they do not belong together.
pub fn load(dir: &Path) -> Result<Run> {
    let mut record = record(dir)?;
    let path = dir.join(HIST);
    let hist = input::read_to_string(&path)
        .with_context(|| format!("cannot read {}", path.display()))
        .help(ADVICE)?;
    let columns = csv::columns(&hist, &record.slots)
        .with_context(|| format!("{} is damaged", path.display()))
        .help(ADVICE)?;
    let (is_edited, distributions) = record
        .check(
            &hist,
            columns
                .iter()
                .map(|of_slot| of_slot.each_ref().map(|it| &**it)),
        )
        .and_then(|is_edited| Ok((is_edited, csv::distributions(&columns, &record.slots)?)))
        .with_context(|| {
            format!(
                "{RECORD} and {HIST} in {} do not belong together",
                dir.display()
            )
        })
        .help(ADVICE)?;
    record.is_edited = is_edited;
    if is_edited {
        term::note(format_args!(
            "{RECORD} or {HIST} in {} was changed after the run: the check sum is another one",
            dir.display()
        ));
    }
    Ok(Run {
        record,
        distributions,
    })
}
