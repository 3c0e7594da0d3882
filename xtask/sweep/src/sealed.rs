//! Files that say for which plan they were measured, and whether they are what was written: one that was cut or put under another
//! plan is refused, one that was edited is read and said to be.

use std::io::ErrorKind;
use std::path::Path;

use anyhow::{Context, Result, anyhow};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use takt_tracer::wire;

use takt_base::input;
use takt_base::output::write_or_nothing;
use takt_base::term::WithHelp;

#[derive(Serialize, Deserialize)]
struct Sealed {
    /// [`SweepConfig::key`](super::SweepConfig::key).
    plan: u64,
    /// Check sum of the body's text.
    sum: u64,
    body: Box<RawValue>,
}

/// Writes `body`, measured by the plan of this key.
///
/// # Errors
///
/// If the file cannot be written.
pub(super) fn write(path: &Path, plan: u64, body: &impl Serialize) -> Result<()> {
    let body = serde_json::value::to_raw_value(body)?;
    let sum = wire::checksum(body.get().as_bytes());
    write_or_nothing(path, &serde_json::to_vec(&Sealed { plan, sum, body })?)
}

/// What a file holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Content<T> {
    /// Its body.
    pub(super) body: T,
    /// Whether its check sum is another one.
    pub(super) is_edited: bool,
}

/// Reads what [`write`] wrote; `None` if there is no such file.
///
/// # Errors
///
/// If it is damaged, or is of a plan whose key `is_plan` does not know.
pub(super) fn read<T: DeserializeOwned>(
    path: &Path,
    is_plan: impl Fn(u64) -> bool,
) -> Result<Option<Content<T>>> {
    let bytes = match input::read(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        other => other.with_context(|| format!("cannot read {}", path.display()))?,
    };
    open(&bytes, is_plan)
        .map(Some)
        .with_context(|| format!("{} cannot be used", path.display()))
}

fn open<T: DeserializeOwned>(bytes: &[u8], is_plan: impl Fn(u64) -> bool) -> Result<Content<T>> {
    const ADVICE: &str = "remove it, and --resume measures it again";
    let Sealed { plan, sum, body } = serde_json::from_slice(bytes)
        .context("it is damaged, or an older Takt wrote it")
        .help(ADVICE)?;
    if !is_plan(plan) {
        return Err(anyhow!(
            "it was measured by another plan than the sweep's sweep-plan.json"
        ))
        .help("put the plan back as it was, or sweep anew, into another folder");
    }
    Ok(Content {
        body: serde_json::from_str(body.get())
            .context("it is damaged")
            .help(ADVICE)?,
        is_edited: wire::checksum(body.get().as_bytes()) != sum,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn what_was_edited_is_told_and_what_is_damaged_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("part.json");
        let read = |plan| read::<Vec<u32>>(&path, |it| it == plan);
        assert_eq!(read(5).unwrap(), None);
        write(&path, 5, &[1, 2, 3]).unwrap();
        let content = |body: &[u32], is_edited| {
            let body = body.to_vec();
            Some(Content { body, is_edited })
        };
        assert_eq!(read(5).unwrap(), content(&[1, 2, 3], false));
        let says = |error: anyhow::Error| format!("{error:#}");
        let other = says(read(6).unwrap_err());
        assert!(other.contains("another plan") && other.contains("put the plan back"));
        let text = fs::read_to_string(&path).unwrap();
        fs::write(&path, text.replace("[1,2,3]", "[1,2,2]")).unwrap();
        assert_eq!(read(5).unwrap(), content(&[1, 2, 2], true));
        for (edited, expected) in [
            (text.replace("[1,2,3]", "[1,2,-2]"), "damaged"),
            (text[..text.len() - 1].to_owned(), "damaged"),
            ("{}".into(), "damaged"),
        ] {
            fs::write(&path, edited).unwrap();
            let error = says(read(5).unwrap_err());
            assert!(
                error.contains(expected) && error.contains("--resume"),
                "{error}"
            );
        }
    }
}
