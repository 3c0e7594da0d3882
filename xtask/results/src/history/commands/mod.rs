//! What is done with the runs so far.
//!
//! | module | content |
//! |---|---|
//! | [`select`] | naming runs, filtering them |
//! | [`list`], [`show`], [`compare`], [`merge`], [`plot`], [`prune`] | the commands |
//! | `sides`, [`replication`] | which runs count together when groups are compared, and the test of them |

pub mod compare;
pub mod list;
pub mod merge;
pub mod plot;
pub mod prune;
pub mod replication;
pub mod select;
pub mod show;
mod sides;

use std::path::Path;
use std::process::ExitCode;

use crate::history::History;
use anyhow::{Context, Result, anyhow};
use serde::Serialize;
use takt_base::output::{json_pretty, print};
use takt_base::paths;
use takt_base::term::WithHelp;
use takt_timerlat::stats::ExactHistogram;

/// Opens the history that the user names, or the usual one.
///
/// # Errors
///
/// If there is none where the user says, or it cannot be read.
pub fn open_named(named: Option<&Path>) -> Result<History> {
    let dir = paths::history(named);
    // Where nobody named it, it is just not there yet.
    if paths::is_history_named(named) && !dir.is_dir() {
        let said = if dir.exists() {
            "it is no folder"
        } else {
            "there is no such folder"
        };
        return Err(anyhow!(said))
            .with_context(|| format!("there is no history in {}", dir.display()))
            .help(
                "a run begins one: cargo xtask latency-run --history DIR (or TAKT_HISTORY=DIR); without either it is \
                 runs/.history",
            );
    }
    History::open(&dir)
}

/// The figures of a distribution that are shown, with their names.
pub(crate) fn figures(all: &ExactHistogram) -> [(&'static str, Option<u64>); 6] {
    [
        ("min", all.min()),
        ("p50", all.percentile(500)),
        ("p90", all.percentile(900)),
        ("p99", all.percentile(990)),
        ("p99.9", all.percentile(999)),
        ("max", all.max()),
    ]
}

/// A number, or a dash.
pub(crate) fn or_dash(value: Option<impl ToString>) -> String {
    value.map_or_else(|| "-".into(), |value| value.to_string())
}

/// A time in seconds since 1970 as people read it, in UTC.
pub(crate) fn date(unix_s: u64) -> String {
    let time = std::time::UNIX_EPOCH + std::time::Duration::from_secs(unix_s);
    let text = humantime::format_rfc3339_seconds(time).to_string();
    text.replace('T', " ").trim_end_matches('Z').to_owned()
}

/// Lines in columns; those of `right` are set to the right.
pub(crate) fn columns(rows: &[Vec<String>], right: impl Fn(usize) -> bool) -> String {
    let mut widths = Vec::new();
    for row in rows {
        for (nr, cell) in row.iter().enumerate() {
            if widths.len() <= nr {
                widths.push(0);
            }
            widths[nr] = cell.chars().count().max(widths[nr]);
        }
    }
    let mut out = String::new();
    for row in rows {
        let mut line = String::new();
        for (nr, cell) in row.iter().enumerate() {
            let pad = " ".repeat(widths[nr] - cell.chars().count());
            line += &if right(nr) {
                format!("{pad}{cell}  ")
            } else {
                format!("{cell}{pad}  ")
            };
        }
        out += line.trim_end();
        out.push('\n');
    }
    out
}

/// Prints a document.
pub(crate) fn print_json(document: &impl Serialize) -> Result<ExitCode> {
    print(&json_pretty(document)?)
}

#[cfg(test)]
mod tests {
    #[test]
    fn dates_are_utc() {
        assert_eq!(super::date(0), "1970-01-01 00:00:00");
        assert_eq!(super::date(1_795_309_558), "2026-11-22 01:05:58");
    }
}
