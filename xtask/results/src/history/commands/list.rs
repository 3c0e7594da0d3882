//! `history list`.

use std::process::ExitCode;

use crate::history::{Entry, History, RunFile, Summary};
use anyhow::Result;
use serde_json::json;
use takt_base::term::{self, note};
use takt_machine::record::Distributions;

use super::select::Filter;
use super::{columns, date, figures, or_dash, print, print_json, select};

/// Prints the runs, the latest first, at most `limit`.
///
/// # Errors
///
/// If they cannot be read.
pub fn run(history: &History, filter: Filter<'_>, limit: usize, is_json: bool) -> Result<ExitCode> {
    if is_json {
        let entries = select::filtered(history, filter, limit)?;
        let runs = entries.iter().map(json).collect::<Result<Vec<_>>>()?;
        let document = json!({"schema": "takt.history-list/1", "runs": runs});
        return print_json(&document);
    }
    let listed = select::listed(history, filter, limit)?;
    if listed.is_empty() {
        let why = match history.runs().is_empty() {
            true => format!("no runs yet; {} latency-run makes one", term::program()),
            false => "no runs of such a configuration".into(),
        };
        return print(&(why + "\n"));
    }
    let mut rows = vec![TITLES.map(String::from).to_vec()];
    rows.extend(listed.iter().map(row));
    let left_out = match term::terminal_width() {
        Some(width) => narrow(&mut rows, width),
        None => Vec::new(),
    };
    let is_figure: Vec<_> = rows[0]
        .iter()
        .map(|title| FIGURES.contains(&title.as_str()))
        .collect();
    let printed = print(&columns(&rows, |nr| is_figure[nr]));
    if !left_out.is_empty() {
        note(format!(
            "left out, as the terminal is narrow: {}",
            left_out.join(", ")
        ));
    }
    printed
}

const TITLES: [&str; 14] = [
    "run",
    "ended (UTC)",
    "revision",
    "result",
    "clock",
    "workload",
    "period",
    "duration",
    "load",
    "conf.",
    "IRQ max",
    "thread p50",
    "p99",
    "max",
];

/// Titles of the columns that are set to the right.
const FIGURES: [&str; 4] = ["IRQ max", "thread p50", "p99", "max"];

/// What a narrow terminal can do without, the first most of all. The rest tells runs apart and says what came of them.
const SPARE: [&str; 8] = [
    "conf.", "p99", "duration", "period", "clock", "workload", "load", "revision",
];

/// Leaves out columns until a line has no more than `width` characters; gives their titles.
fn narrow(rows: &mut [Vec<String>], width: usize) -> Vec<&'static str> {
    let mut left_out = Vec::new();
    for title in SPARE {
        let text = columns(rows, |_| false);
        if text.lines().all(|line| line.chars().count() <= width) {
            break;
        }
        if let Some(at) = rows[0].iter().position(|it| it == title) {
            rows.iter_mut().for_each(|row| drop(row.remove(at)));
            left_out.push(title);
        }
    }
    left_out
}

fn row((place, of): &(RunFile, Summary)) -> Vec<String> {
    vec![
        select::short(&place.id).into(),
        date(place.finished_unix_ns / 1_000_000_000),
        of.revision.clone(),
        of.outcome.clone(),
        of.clock.clone(),
        of.workload.clone(),
        of.period.clone(),
        of.duration.clone(),
        of.load.clone(),
        of.configuration.clone(),
        or_dash(of.irq_max),
        or_dash(of.thread_p50),
        or_dash(of.thread_p99),
        or_dash(of.thread_max),
    ]
}

/// What a list in JSON says of a run.
fn json(entry: &Entry) -> Result<serde_json::Value> {
    let Distributions { irq, thread, .. } = entry.run()?.over_all();
    let of = |all| {
        let named = figures(all).map(|(name, value)| (name.to_owned(), json!(value)));
        let mut object: serde_json::Map<_, _> = named.into_iter().collect();
        object.insert("count".into(), json!(all.count()));
        object.insert("avg".into(), json!(all.avg()));
        object
    };
    Ok(json!({
        "id": entry.id,
        "finished_unix_ns": entry.finished_unix_ns,
        "git": entry.record.git,
        "result": entry.record.result.word(),
        "is_interrupted": entry.record.is_interrupted,
        "accel": entry.record.accel.accel.name(),
        "configuration": entry.configuration().key(),
        "config": entry.record.config,
        "setup": entry.setup,
        "folder": entry.folder,
        "irq": of(&irq),
        "thread": of(&thread),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_narrow_terminal_has_the_columns_that_matter() {
        let cells = [
            "0833fac3",
            "2026-11-22 15:41:30",
            "fdefedfd3c4f",
            "passed",
            "tcg+icount",
            "timerlat",
            "1 ms",
            "10 s",
            "none",
            "0b9006b6",
            "4173675",
            "46163",
            "1228799",
            "4256109",
        ];
        let rows = vec![
            TITLES.map(String::from).to_vec(),
            cells.map(String::from).to_vec(),
        ];
        let mut wide = rows.clone();
        assert!(narrow(&mut wide, 160).is_empty() && wide == rows);
        for width in [70, 80, 100] {
            let mut rows = rows.clone();
            let left_out = narrow(&mut rows, width);
            let text = columns(&rows, |_| false);
            assert!(text.lines().all(|line| line.len() <= width), "{text}");
            assert_eq!(rows[1].len() + left_out.len(), TITLES.len());
            for kept in ["0833fac3", "passed", "4256109"] {
                assert!(text.contains(kept), "{text}");
            }
        }
    }
}
