//! `--json`: schema `takt.latency-run/1`. All latencies in ns.

use serde::Serialize;
use takt_timerlat::config::Workload;
use takt_timerlat::stats::ExactHistogram;

use super::Buckets;
use crate::analysis::bound::{Bound, Kept};
use crate::analysis::rows::Breakdown;
use takt_base::output;
use takt_machine::hardware::MachineRecord;
use takt_machine::record::{Figures, Run, SlotRecord, VerifiedRecord};
use takt_machine::run::RunConfig;

#[derive(Serialize)]
struct Document<'r> {
    schema: &'static str,
    accel: &'static str,
    ns_means: &'static str,
    git: &'r str,
    config: &'r RunConfig,
    result: &'static str,
    taint: &'r [String],
    /// Whether the run's files were changed after it; only then it is there.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    is_edited: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    verified: Option<VerifiedRecord>,
    cpus: Vec<Cpu>,
    /// What a machine that is not QEMU's says of itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    machine: Option<&'r MachineRecord>,
    trace: Trace,
    /// What the latency consists of that hit a threshold.
    analysis: Option<&'r Breakdown>,
    /// What a thread latency takes at most by the proof of the image, or why nothing is proved; only if that was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    bound: Option<Told<'r>>,
}

/// A bound with its sum.
#[derive(Serialize)]
struct Told<'r> {
    #[serde(flatten)]
    kept: &'r Kept,
    #[serde(skip_serializing_if = "Option::is_none")]
    total: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ratio: Option<f64>,
}

impl<'r> From<&'r Kept> for Told<'r> {
    fn from(kept: &'r Kept) -> Self {
        let bound = match kept {
            Kept::Bound(it) => Some(&**it),
            Kept::None(_) => None,
        };
        Self {
            kept,
            total: bound.map(Bound::total),
            ratio: bound.map(Bound::ratio),
        }
    }
}

#[derive(Serialize)]
struct Cpu {
    cpu: u32,
    /// cyclictest has several threads on a CPU: which one this is.
    #[serde(skip_serializing_if = "Option::is_none")]
    slot: Option<usize>,
    missed: u64,
    irq: Latency,
    thread: Latency,
    /// Of a task's thread: until the end of its work in user space.
    #[serde(skip_serializing_if = "Option::is_none")]
    user: Option<Latency>,
    /// Without the time in which other CPUs ran.
    #[serde(skip_serializing_if = "Option::is_none")]
    without_turns: Option<WithoutTurns>,
}

#[derive(Serialize)]
struct WithoutTurns {
    irq: Figures,
    thread: Figures,
}

#[derive(Serialize)]
struct Latency {
    #[serde(flatten)]
    figures: Figures,
    overflow: u64,
    hist: Vec<(u64, u64)>,
}

#[derive(Serialize)]
struct Trace {
    events: u64,
    bytes: u64,
    overrun: u64,
    dropped: u64,
}

/// The document, one line and a newline.
///
/// # Errors
///
/// If serialising fails.
pub fn write(
    run: &Run,
    analysis: Option<&Breakdown>,
    bound: Option<&Kept>,
    buckets: Buckets,
) -> serde_json::Result<String> {
    let record = &run.record;
    let is_cyclictest = record.config.workload == Workload::Cyclictest;
    let without_turns = |cpu: u32| {
        let own = record.without_turns.iter().find(|own| own.cpu == cpu)?;
        Some(WithoutTurns {
            irq: own.irq,
            thread: own.thread,
        })
    };
    let cpu = |(slot, d): (&SlotRecord, &takt_machine::record::Distributions)| Cpu {
        cpu: slot.cpu,
        slot: is_cyclictest.then_some(slot.slot),
        missed: slot.missed,
        irq: latency(&d.irq, buckets),
        thread: latency(&d.thread, buckets),
        user: slot.user.map(|_| latency(&d.user, buckets)),
        without_turns: without_turns(slot.cpu),
    };
    let document = Document {
        schema: "takt.latency-run/1",
        accel: record.accel.accel.name(),
        ns_means: record.accel.accel.ns_means(),
        git: &record.git,
        config: &record.config,
        result: record.result.word(),
        taint: &record.taint,
        is_edited: record.is_edited,
        verified: record.verified,
        cpus: record
            .slots
            .iter()
            .zip(&run.distributions)
            .map(cpu)
            .collect(),
        machine: record.machine.as_ref(),
        trace: Trace {
            events: record.trace.events,
            bytes: record.trace.bytes,
            // Both are events that the ring had and the trace has not.
            overrun: record.trace.overrun + record.trace.commit_overrun,
            dropped: record.trace.dropped,
        },
        analysis,
        bound: bound.map(Into::into),
    };
    output::json(&document)
}

fn latency(all: &ExactHistogram, buckets: Buckets) -> Latency {
    let (hist, overflow) = all.rebucket(buckets.width.unwrap_or(1), buckets.limit);
    Latency {
        figures: all.into(),
        overflow,
        hist: hist.into_iter().collect(),
    }
}
