//! Reading an earlier run's folder.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};

use super::csv;
use super::record::{Run, RunRecord, SCHEMA};
use crate::run::folder::{HIST, RECORD};

/// Reads `run.json` and `hist.csv`.
///
/// # Errors
///
/// If one is missing, is not what it should be, or they do not belong together.
pub fn load(dir: &Path) -> Result<Run> {
    let path = dir.join(RECORD);
    let text =
        fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    let schema: serde_json::Value =
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
