//! What a run is worth: errors, thresholds, taints.

use takt_timerlat::config::Workload;
use takt_timerlat::stats::RunState;

use super::record::{SlotRecord, Verdict};
use crate::qemu::{Accel, GuestExit};
use crate::run::collect::Results;
use crate::run::config::{RunConfig, UNTIL_STOPPED};
use crate::run::demux::CaptureCount;
use crate::run::monitor::{Ending, Outcome, SILENCE};

/// What a verdict is made from.
#[derive(Debug)]
pub struct Evidence<'e> {
    /// What was asked for.
    pub config: &'e RunConfig,
    /// Under which accelerator.
    pub accel: Accel,
    /// How QEMU and the guest ended.
    pub outcome: &'e Outcome,
    /// What the guest measured.
    pub results: &'e Results,
    /// What it sent.
    pub capture: &'e CaptureCount,
    /// Log messages that found no room in it.
    pub log_dropped: u64,
    /// How often a latency was above a threshold behind which the measurement went on.
    pub hits: u64,
}

/// Why a run over a serial line did not come to its end, if that is why.
#[must_use]
pub fn of_line(ending: Ending) -> Option<String> {
    match ending {
        Ending::LineClosed => Some(
            "the serial line was closed before the end of the run: the machine, its power or the cable is gone".into(),
        ),
        Ending::LineSilent => Some(format!(
            "nothing came over the serial line for {} s: the cable is cut, or the machine hangs",
            SILENCE.as_secs()
        )),
        Ending::Rebooted => Some("the machine began anew in the middle of the run".into()),
        _ => None,
    }
}

impl Evidence<'_> {
    /// Why the run did not come to its end, if it did not.
    #[must_use]
    pub fn error(&self) -> Option<String> {
        let state = self.results.head.map(|head| head.state);
        match self.outcome.ending {
            Ending::Exited(GuestExit::Passed) if state == Some(RunState::Done) => self.no_samples(),
            Ending::Exited(GuestExit::Threshold) if state == Some(RunState::Threshold) => {
                self.no_samples()
            }
            Ending::Exited(exit @ (GuestExit::Passed | GuestExit::Threshold)) => Some(format!(
                "{exit}, but its results are not complete (state {})",
                state_of(self.results)
            )),
            Ending::Exited(exit) => Some(exit.to_string()),
            Ending::Silent => Some(format!(
                "the guest stopped answering: no heartbeat, no sample, no output and no change of state for {} s",
                SILENCE.as_secs()
            )),
            Ending::DidNotStop => Some("the guest did not stop when it was asked to".into()),
            Ending::DiskFull => Some("the disk is full: the run's files would be cut".into()),
            ending => of_line(ending),
        }
    }

    /// Whether the user ended it before all that was asked for was measured. Nothing comes of an activation whose
    /// period goes beyond the end.
    #[must_use]
    pub fn is_interrupted(&self) -> bool {
        let slots = self.results.slots.iter();
        let interval = slots.map(|slot| slot.interval_ns).max().unwrap_or(0);
        let measured = self.results.measured_ns().unwrap_or(0);
        self.outcome.is_interrupted && measured.saturating_add(interval) < self.config.duration_ns
    }

    fn no_samples(&self) -> Option<String> {
        if self.is_interrupted() || self.config.workload == Workload::None {
            return None;
        }
        let counts = self
            .results
            .slots
            .iter()
            .map(|slot| slot.thread.count + slot.irq.count);
        (counts.sum::<u64>() == 0).then(|| "the guest took no sample".into())
    }

    /// Why the figures cannot be trusted.
    #[must_use]
    pub fn taints(&self) -> Vec<String> {
        let mut taints = Vec::new();
        self.judge_clock(&mut taints);
        self.judge_cpus(&mut taints);
        for slot in self.results.slot_records() {
            self.judge_slot(&slot, &mut taints);
        }
        self.judge_sums(&mut taints);
        self.judge_trace(&mut taints);
        taints.extend(losses(self.capture, self.log_dropped));
        taints
    }

    fn judge_clock(&self, taints: &mut Vec<String>) {
        // TCG has no invariant bit, and its TSC is the virtual clock.
        if self.accel == Accel::Kvm && self.results.head.is_some_and(|head| !head.invariant_tsc) {
            taints.push("the TSC is not invariant".into());
        }
    }

    fn judge_cpus(&self, taints: &mut Vec<String>) {
        let asked = u32::from(self.config.smp);
        if let Some(nr) = self
            .results
            .head
            .map(|head| head.nr_cpus)
            .filter(|nr| *nr < asked)
        {
            taints.push(format!("{nr} of {asked} CPUs have started, see the log"));
        }
    }

    fn judge_slot(&self, slot: &SlotRecord, taints: &mut Vec<String>) {
        let name = slot_name(self.config.workload, slot);
        if slot.negative != 0 {
            taints.push(format!(
                "{name}: {} impossible (negative) latencies",
                slot.negative
            ));
        }
        let (irq, thread) = (slot.irq.count, slot.thread.count);
        // The last activation may have had its interrupt and not its thread yet.
        let has_irq = irq != 0 || self.config.workload == Workload::Timerlat;
        if has_irq && irq.abs_diff(thread) > 1 + slot.missed {
            taints.push(format!(
                "{name}: {irq} IRQ samples, but {thread} thread samples"
            ));
        }
        // The last activation's work may not have ended.
        if let Some(user) = slot.user.map(|it| it.count)
            && user.abs_diff(thread) > 1 + slot.missed
        {
            taints.push(format!(
                "{name}: {thread} thread samples, but {user} returns from user space"
            ));
        }
        // The end is noted when the main thread comes to run, which beside a load may be late.
        let expected = self
            .results
            .measured_ns()
            .map(|ns| match self.config.duration_ns {
                UNTIL_STOPPED => ns,
                asked => ns.min(asked),
            })
            .and_then(|ns| ns.checked_div(slot.interval_ns));
        if let Some(expected) = expected.filter(|&n| thread + slot.missed + 2 < n) {
            let came = thread + slot.missed;
            taints.push(format!(
                "{name}: samples are missing: {came} came, {expected} were due"
            ));
        }
    }

    /// Each sample is counted twice: by itself and in its bucket. A guest that was killed may have
    /// been between the two.
    fn judge_sums(&self, taints: &mut Vec<String>) {
        let results = self.results;
        if !matches!(
            self.outcome.ending,
            Ending::Exited(GuestExit::Passed | GuestExit::Threshold)
        ) {
            return;
        }
        for (slot, distributions) in results.slots.iter().zip(&results.distributions) {
            let user = slot.user.map_or(0, |user| user.count);
            let pairs = [
                ("IRQ", slot.irq.count, distributions.irq.count()),
                ("thread", slot.thread.count, distributions.thread.count()),
                ("user", user, distributions.user.count()),
            ];
            for (which, counted, in_buckets) in pairs.into_iter().filter(|(_, a, b)| a != b) {
                taints.push(format!(
                    "CPU {}: {which} statistics contradict themselves: {counted} samples, {in_buckets} in the histogram",
                    slot.cpu
                ));
            }
        }
    }

    fn judge_trace(&self, taints: &mut Vec<String>) {
        let trace = self.results.trace();
        // A recording in flight is sent when all is over: what it has overwritten until then was not to be kept.
        let lost = match self.accel {
            Accel::Machine => trace.lost() - trace.overrun,
            _ => trace.lost(),
        };
        if lost != 0 {
            taints.push(format!(
                "{lost} trace events lost (overrun {}, commit overrun {}, dropped {})",
                trace.overrun, trace.commit_overrun, trace.dropped
            ));
        }
        let in_file = self.capture.events;
        if in_file + trace.overrun < trace.events {
            taints.push(format!(
                "{} trace events were recorded, {in_file} came",
                trace.events
            ));
        }
    }

    /// The verdict, given the other two.
    #[must_use]
    pub fn verdict(&self, error: Option<&str>, taints: &[String]) -> Verdict {
        let stopped = self
            .results
            .head
            .is_some_and(|head| head.state == RunState::Threshold)
            || self.hits != 0;
        match (error, stopped, taints) {
            (Some(_), ..) => Verdict::Error,
            (None, true, _) => Verdict::Threshold,
            (None, false, [_, ..]) => Verdict::Tainted,
            (None, false, []) if self.is_interrupted() => Verdict::Interrupted,
            (None, false, []) => Verdict::Passed,
        }
    }
}

/// What of a capture, and of the log, is missing or damaged; so many messages of the log found no room in the guest.
#[must_use]
pub fn losses(capture: &CaptureCount, log_dropped: u64) -> Vec<String> {
    let mut losses = Vec::new();
    let missing = capture.trace.missing;
    if missing != 0 {
        losses.push(format!("{missing} trace frames missing"));
    }
    let lost_at_end = capture.lost_at_end();
    if lost_at_end != 0 {
        losses.push(format!("{lost_at_end} frames lost at the end"));
    }
    let damage = capture.damage;
    if damage.frames != 0 {
        losses.push(format!("{} frames with a wrong checksum", damage.frames));
    }
    if damage.is_cut {
        losses.push("the capture ends inside a frame".into());
    } else if damage.frames == 0 && damage.bytes != 0 {
        losses.push(format!("{} stray bytes in the capture", damage.bytes));
    }
    if log_dropped != 0 {
        losses.push(no_room(log_dropped));
    }
    if capture.log.missing != 0 {
        losses.push(format!("{} log frames missing", capture.log.missing));
    }
    losses
}

/// So many log messages are not in the log.
#[must_use]
pub fn no_room(dropped: u64) -> String {
    let s = if dropped == 1 { "" } else { "s" };
    format!("{dropped} log message{s} found no room")
}

/// What a slot is called.
#[must_use]
pub fn slot_name(workload: Workload, slot: &SlotRecord) -> String {
    match workload {
        Workload::Timerlat | Workload::None => format!("CPU {}", slot.cpu),
        Workload::Cyclictest => format!("T{} CPU {}", slot.slot, slot.cpu),
    }
}

/// How far the guest had come, in words.
#[must_use]
pub fn state_of(results: &Results) -> &'static str {
    results
        .head
        .map_or("unknown: it never came so far as to say", |head| {
            head.state.name()
        })
}
