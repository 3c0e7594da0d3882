//! `history list`.

use std::process::ExitCode;

use anyhow::Result;
use serde_json::json;
use xtask::cli::HistoryList as Flags;
use xtask::cli::format_ns;
use xtask::history::Entry;
use xtask::report::record::Distributions;

use super::{Database, columns, date, figures, or_dash, print, print_json, select};

/// Prints the runs, the latest first.
pub(super) fn run(database: &Database, flags: &Flags) -> Result<ExitCode> {
    let limit = flags.limit.unwrap_or(usize::MAX);
    let entries = select::filtered(database, &flags.filter, limit)?;
    if flags.json {
        let runs = entries.iter().map(json).collect::<Result<Vec<_>>>()?;
        let document = json!({"schema": "takt.history-list/1", "runs": runs});
        return print_json(&document);
    }
    if entries.is_empty() {
        return print("no runs\n");
    }
    let mut rows = vec![
        [
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
        ]
        .map(String::from)
        .to_vec(),
    ];
    for entry in &entries {
        rows.push(row(entry)?);
    }
    print(&columns(&rows, |nr| nr >= 10))
}

fn row(entry: &Entry) -> Result<Vec<String>> {
    let record = &entry.record;
    let config = &record.config;
    let Distributions { irq, thread } = entry.run()?.over_all();
    Ok(vec![
        select::short(&entry.id).into(),
        date(entry.finished_unix_ns / 1_000_000_000),
        record.git.clone(),
        record.result.word().into(),
        record.accel.accel.name().into(),
        config.workload.to_string(),
        format_ns(config.period_ns),
        format_ns(config.duration_ns),
        config.load.to_string(),
        entry.configuration().key(),
        or_dash(irq.max()),
        or_dash(thread.percentile(500)),
        or_dash(thread.percentile(990)),
        or_dash(thread.max()),
    ])
}

/// What a list in JSON says of a run.
fn json(entry: &Entry) -> Result<serde_json::Value> {
    let Distributions { irq, thread } = entry.run()?.over_all();
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
        "accel": entry.record.accel.accel.name(),
        "configuration": entry.configuration().key(),
        "config": entry.record.config,
        "setup": entry.setup,
        "folder": entry.folder,
        "irq": of(&irq),
        "thread": of(&thread),
    }))
}
