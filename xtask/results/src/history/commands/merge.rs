//! `history merge`: the samples of several runs together.

use std::collections::BTreeSet;
use std::process::ExitCode;

use crate::history::{Entry, History};
use anyhow::{Context, Result, anyhow};
use serde_json::json;
use takt_base::term::{WithHelp, note};
use takt_machine::record::Run;

use super::{print, print_json, select, show, sides};

/// Prints the merged figures of the runs of these names; with `force` also of different configurations.
///
/// # Errors
///
/// If they cannot be read, or do not belong together.
pub fn run(history: &History, names: &[String], force: bool, is_json: bool) -> Result<ExitCode> {
    let mut entries: Vec<Entry> = Vec::new();
    for name in names {
        let place = select::one(history, name)?;
        sides::refuse_twice(&entries, &place.id)?;
        entries.push(history.entry(&place)?);
    }
    for other in entries.iter().skip(1) {
        sides::check_alike(&entries[0], other, force)?;
    }
    note_what_differs(&entries);
    let runs = entries.iter().map(Entry::run).collect::<Result<Vec<_>>>()?;
    let merged = merge(&runs)?;
    if is_json {
        let ids: Vec<_> = entries.iter().map(|entry| &entry.id).collect();
        let slots = merged.record.slots.iter().zip(&merged.distributions);
        let slots: Vec<_> = slots
            .map(|(slot, d)| {
                let hist = |all: &takt_timerlat::stats::ExactHistogram| {
                    json!({"figures": takt_machine::record::LatencyRecord::from(all), "hist": all.iter().collect::<Vec<_>>()})
                };
                let mut it = json!({"slot": slot.slot, "cpu": slot.cpu, "irq": hist(&d.irq), "thread": hist(&d.thread)});
                if slot.user.is_some() {
                    it["user"] = hist(&d.user);
                }
                it
            })
            .collect();
        let document = json!({"schema": "takt.history-merge/1", "runs": ids, "slots": slots});
        return print_json(&document);
    }
    let names: Vec<_> = entries
        .iter()
        .map(|entry| select::short(&entry.id))
        .collect();
    print(&format!(
        "{} runs together: {}\n\n{}",
        entries.len(),
        names.join(", "),
        show::table(&merged)
    ))
}

/// Says what the sum does not show.
fn note_what_differs(entries: &[Entry]) {
    let revisions: BTreeSet<_> = entries.iter().map(|it| &*it.record.git).collect();
    if revisions.len() > 1 {
        let revisions: Vec<_> = revisions.into_iter().collect();
        note(format_args!(
            "these runs are of several revisions: {}",
            revisions.join(", ")
        ));
    }
    for entry in entries.iter().filter(|it| !it.record.has_passed()) {
        note(format_args!(
            "{} did not pass and come to its end: {}",
            select::short(&entry.id),
            entry.record.outcome()
        ));
    }
}

/// Merges the distributions of runs: the result has every sample of all. The rest is the first's.
///
/// # Errors
///
/// If they have not measured the same CPUs.
pub fn merge(runs: &[Run]) -> Result<Run> {
    let mut merged = runs.first().context("no runs")?.clone();
    let places = |run: &Run| -> Vec<_> {
        run.record
            .slots
            .iter()
            .map(|slot| (slot.slot, slot.cpu))
            .collect()
    };
    for run in &runs[1..] {
        if places(run) != places(&merged) {
            return Err(anyhow!("the runs have not measured the same CPUs"))
                .help("cargo xtask history show RUN says which each has");
        }
        for (into, from) in merged.distributions.iter_mut().zip(&run.distributions) {
            into.merge(from);
        }
    }
    for (slot, d) in merged.record.slots.iter_mut().zip(&merged.distributions) {
        slot.irq = (&d.irq).into();
        slot.thread = (&d.thread).into();
        slot.user = slot.user.map(|_| (&d.user).into());
    }
    Ok(merged)
}
