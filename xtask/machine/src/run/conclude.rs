//! The end of a run: all that is known of it becomes `run.json` and `hist.csv`.

use std::fs;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result};
use takt_decode::TscClock;

use super::collect::Results;
use super::demux::CaptureCount;
use super::folder;

use crate::counted::Verification;
use crate::csv;
use crate::gaps::GapsRecord;
use crate::hardware::MachineRecord;
use crate::judge::Evidence;
use crate::qemu::accel::Selected;
use crate::record::{Distributions, Host, Run, RunRecord, SCHEMA, Timing, TraceRecord};
use crate::samples::{self, Sample};
use takt_base::output;

/// What is known of a run apart from what it is judged by.
#[derive(Debug)]
pub struct Facts {
    /// The events that were recorded.
    pub event_ids: Vec<u32>,
    /// The kernel's command line.
    pub kernel_cmdline: String,
    /// On what it ran.
    pub accel: Selected,
    /// The revision that the image was built from.
    pub git: String,
    /// Where it ran.
    pub host: Host,
    /// When it began.
    pub started: SystemTime,
    /// How long the image took to build, in seconds.
    pub build_s: f64,
    /// What the machine says of itself, if it is not QEMU's.
    pub machine: Option<MachineRecord>,
    /// What its tracers of gaps have found.
    pub gaps: Vec<GapsRecord>,
}

/// Judges a run and writes both files into its folder.
///
/// # Errors
///
/// If they cannot be written.
pub fn conclude(
    dir: &Path,
    facts: Facts,
    evidence: &Evidence<'_>,
    verification: Option<Verification>,
) -> Result<Run> {
    let results = evidence.results;
    let error = evidence
        .error()
        .or_else(|| verification.as_ref()?.error.clone());
    let mut taint = evidence.taints();
    taint.extend(facts.machine.iter().flat_map(MachineRecord::taints));
    let since = facts.started.duration_since(UNIX_EPOCH);
    let record = RunRecord {
        schema: SCHEMA.into(),
        result: evidence.verdict(error.as_deref(), &taint),
        error,
        is_interrupted: evidence.is_interrupted(),
        taint,
        config: evidence.config.clone(),
        event_ids: facts.event_ids,
        kernel_cmdline: facts.kernel_cmdline,
        accel: facts.accel,
        git: facts.git,
        host: facts.host,
        clocks: results.clocks(),
        timing: Timing {
            started_unix_s: since.map_or(0, |since| since.as_secs()),
            build_s: facts.build_s,
            run_s: evidence.outcome.took.as_secs_f64(),
            measured_ns: results.measured_ns().unwrap_or_default(),
        },
        stop: results.stop_record(),
        hits: evidence.hits,
        slots: results.slot_records(),
        trace: trace_record(results, evidence.capture),
        log_dropped: evidence.log_dropped,
        capture: *evidence.capture,
        cpus: results.cpu_records(),
        threads: results.thread_records(),
        verified: verification.as_ref().map(|it| it.record),
        without_turns: verification.map(|it| it.without_turns).unwrap_or_default(),
        machine: facts.machine,
        gaps: facts.gaps,
        sum: None,
        is_edited: false,
    };
    let mut run = Run {
        record,
        distributions: results.distributions.clone(),
    };
    write_record(dir, &mut run)?;
    if refine(dir, &mut run) {
        write_record(dir, &mut run)?;
    }
    Ok(run)
}

fn write_record(dir: &Path, run: &mut Run) -> Result<()> {
    let hist = csv::write(&run.record.slots, &run.distributions);
    run.record.sum = Some(run.record.sum_with(&hist));
    fs::write(dir.join(folder::HIST), hist).context("cannot write hist.csv")?;
    let json = output::json_pretty(&run.record)?;
    fs::write(dir.join(folder::RECORD), json).context("cannot write run.json")
}

/// Takes the values of large samples, which the guest counts in buckets of 1/256 of them, from the trace. Says whether it
/// did: not where the trace does not have all of them.
fn refine(dir: &Path, run: &mut Run) -> bool {
    let is_rough =
        |it: &Distributions| !(it.irq.is_exact() && it.thread.is_exact() && it.user.is_exact());
    if !run.distributions.iter().any(is_rough) {
        return false;
    }
    // Without a trace it is as it was.
    let Ok(samples) = samples::measured(dir, run) else {
        return false;
    };
    let clock = TscClock::new(run.record.clocks.tsc_hz);
    let ns = |cycles: u32| clock.ns(cycles.into());
    let mut is_refined = false;
    for (slot, all) in run.record.slots.iter().zip(&mut run.distributions) {
        let own = || samples.iter().filter(|it| it.slot as usize == slot.slot);
        let irq = all.irq.refined(own().filter_map(|it| it.irq).map(ns));
        let thread = all.thread.refined(own().map(|it| ns(it.thread)));
        let returned = |it: &Sample| Some(ns(it.user?.latency));
        let user = all.user.refined(own().filter_map(returned));
        is_refined |= irq.is_some() || thread.is_some() || user.is_some();
        all.irq = irq.unwrap_or_else(|| all.irq.clone());
        all.thread = thread.unwrap_or_else(|| all.thread.clone());
        all.user = user.unwrap_or_else(|| all.user.clone());
    }
    is_refined
}

/// The guest's own counters; if it did not come to publish them, what came.
fn trace_record(results: &Results, capture: &CaptureCount) -> TraceRecord {
    match results.trace() {
        TraceRecord { events: 0, .. } => TraceRecord {
            events: capture.events,
            bytes: capture.trace.bytes,
            ..results.trace()
        },
        counters => counters,
    }
}
