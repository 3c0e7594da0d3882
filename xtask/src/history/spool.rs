//! The spool: a folder with one file for each run that is not in the database yet.
//!
//! A file is written under a hidden name, synced and renamed, so it is whole or not there, whatever happens meanwhile.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::Entry;
use crate::output;
use crate::paths;
use crate::term::WithHelp;

/// The folder in that of the history.
pub const FOLDER: &str = "spool";

/// Random, as no two runs ever may have the same: 16 hexadecimal digits.
///
/// # Errors
///
/// If the system has no random numbers.
pub fn random_id() -> Result<String> {
    let mut bytes = [0; 8];
    File::open("/dev/urandom")
        .and_then(|mut file| file.read_exact(&mut bytes))
        .context("cannot read /dev/urandom")?;
    Ok(format!("{:016x}", u64::from_le_bytes(bytes)))
}

/// Writes an entry into the spool of the history in `history`; gives the file.
///
/// # Errors
///
/// If it cannot be written; nothing is left then.
pub fn write(history: &Path, entry: &Entry) -> Result<PathBuf> {
    let dir = history.join(FOLDER);
    fs::create_dir_all(&dir).with_context(|| format!("cannot make {}", dir.display()))?;
    paths::remove_left_over(&dir);
    let path = dir.join(format!("{}.json", entry.id));
    let temp = dir.join(format!(".{}.tmp-{}", entry.id, std::process::id()));
    let written = write_synced(&temp, entry)
        .and_then(|()| Ok(fs::rename(&temp, &path)?))
        // The name is on the disk once its folder is.
        .and_then(|()| Ok(File::open(&dir)?.sync_all()?));
    written
        .inspect_err(|_| drop(fs::remove_file(&temp)))
        .with_context(|| format!("cannot write {}", path.display()))?;
    Ok(path)
}

fn write_synced(path: &Path, entry: &Entry) -> Result<()> {
    let text = output::json(entry)?;
    let mut file = File::create(path)?;
    file.write_all(text.as_bytes())?;
    Ok(file.sync_all()?)
}

/// The files of a spool, by name; none if there is no spool.
///
/// # Errors
///
/// If it is there and cannot be read.
pub fn files(history: &Path) -> Result<Vec<PathBuf>> {
    let dir = history.join(FOLDER);
    if !dir.exists() {
        return Ok(Vec::new());
    }
    let cannot = || format!("cannot read {}", dir.display());
    let mut files = Vec::new();
    let entries = fs::read_dir(&dir)
        .with_context(cannot)
        .help("it has to be a folder that you may read; move away what lies there, or name another history: --history")?;
    for entry in entries {
        let entry = entry.with_context(cannot)?;
        let name = entry.file_name();
        let text = name.to_string_lossy();
        // Nothing that a reader would wait for.
        let is_file = entry.file_type().is_ok_and(|it| it.is_file());
        if is_file && !text.starts_with('.') && text.ends_with(".json") {
            files.push(dir.join(name));
        }
    }
    files.sort();
    Ok(files)
}
