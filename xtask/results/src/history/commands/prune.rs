//! `history prune`: the oldest runs go, with their folders in `runs/`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use crate::history::{Entry, History, RunFile};
use anyhow::{Context, Result};
use takt_base::paths;
use takt_base::term::WithHelp;
use takt_machine::load;

use super::{columns, date, print, select};

/// Removes all but the latest `keep`; in a dry run only says so.
///
/// # Errors
///
/// If one cannot be removed.
pub fn run(history: &History, keep: usize, is_dry_run: bool) -> Result<ExitCode> {
    let old = history.runs().get(keep..).unwrap_or_default();
    let mut rows = Vec::new();
    for place in old {
        let folder = folder(history, place);
        if !is_dry_run {
            remove(history, place, folder.as_deref())?;
        }
        rows.push(vec![
            select::short(&place.id).to_owned(),
            date(place.finished_unix_ns / 1_000_000_000),
            folder.map_or_else(String::new, |it| paths::shown(&it).to_string()),
        ]);
    }
    let (done, kept) = match is_dry_run {
        true => ("would be removed", "would be kept"),
        false => ("removed", "kept"),
    };
    let nr_kept = history.runs().len() - old.len();
    print(&format!(
        "{}{} runs {done}, {nr_kept} {kept}\n",
        columns(&rows, |_| false),
        rows.len()
    ))
}

/// The run's folder, if it is one in `runs/` and still has this run. A folder elsewhere is the user's own.
fn folder(history: &History, place: &RunFile) -> Option<PathBuf> {
    // What is damaged names no folder.
    let Entry { folder, record, .. } = history.entry(place).ok()?;
    let runs = paths::runs().canonicalize().ok()?;
    let is_ours = folder.canonicalize().ok()?.parent() == Some(&runs);
    let is_same = || load::load(&folder).is_ok_and(|there| there.record == record);
    (is_ours && is_same()).then_some(folder)
}

/// The folder first: should that fail, the run is still there.
fn remove(history: &History, place: &RunFile, folder: Option<&Path>) -> Result<()> {
    let file = history.path(place);
    folder
        .map_or(Ok(()), fs::remove_dir_all)
        .and_then(|()| fs::remove_file(&file))
        .with_context(|| format!("run {} cannot be removed", place.id))
        .help(format!(
            "you have to be allowed to remove {}{}",
            file.display(),
            folder.map_or_else(String::new, |it| format!(" and {}", it.display()))
        ))
}
