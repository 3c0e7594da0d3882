//! `history show`.

use std::process::ExitCode;

use crate::history::History;
use anyhow::Result;
use takt_machine::judge::slot_name;
use takt_machine::record::Run;
use takt_timerlat::stats::ExactHistogram;

use super::{columns, date, figures, or_dash, print, print_json, select};

/// Prints the run of this name.
///
/// # Errors
///
/// If there is none or it cannot be read.
pub fn run(history: &History, name: &str, is_json: bool) -> Result<ExitCode> {
    let entry = history.entry(&select::one(history, name)?)?;
    if is_json {
        return print_json(&entry);
    }
    let record = &entry.record;
    let mut rows = vec![
        vec!["run".into(), entry.id.clone()],
        vec![
            "ended".into(),
            format!("{} UTC", date(entry.finished_unix_ns / 1_000_000_000)),
        ],
        vec!["revision".into(), record.git.clone()],
        vec!["result".into(), record.outcome()],
        vec!["1 ns means".into(), record.accel.accel.ns_means().into()],
        vec!["folder".into(), entry.folder.display().to_string()],
        vec!["configuration".into(), entry.configuration().key()],
    ];
    for (name, value) in entry.configuration().fields() {
        rows.push(vec![format!("  {name}"), value]);
    }
    let text = columns(&rows, |_| false);
    print(&format!("{text}\n{}", table(&entry.run()?)))
}

/// The figures of each measured thread.
pub(super) fn table(run: &Run) -> String {
    let mut rows = vec![
        ["latency in ns", "", "count", "avg"]
            .map(String::from)
            .to_vec(),
    ];
    let titles = figures(&ExactHistogram::new()).map(|(name, _)| name.to_owned());
    rows[0].extend(titles);
    for (slot, d) in run.record.slots.iter().zip(&run.distributions) {
        for (which, all) in d.named() {
            if all.count() == 0 {
                continue;
            }
            let mut row = vec![
                slot_name(run.record.config.workload, slot),
                which.into(),
                all.count().to_string(),
                or_dash(all.avg().map(|avg| format!("{avg:.1}"))),
            ];
            row.extend(figures(all).map(|(_, value)| or_dash(value)));
            rows.push(row);
        }
    }
    columns(&rows, |nr| nr >= 2)
}
