//! [`RunRecord`]: what is known of a run, as `run.json` keeps it. The distributions are in
//! `hist.csv`.

use anyhow::{Result, anyhow, ensure};
use serde::{Deserialize, Serialize};
use takt_timerlat::stats::ExactHistogram;
use takt_timerlat::stats::histogram::Scale;
use takt_tracer::wire;

use super::gaps::GapsRecord;
use crate::hardware::MachineRecord;
use crate::qemu::accel::Selected;
use crate::run::config::RunConfig;
use crate::run::demux::CaptureCount;

/// Schema of `run.json`.
pub const SCHEMA: &str = "takt.run/1";

/// How a run ended, in the words of the JSON schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// All is well.
    Passed,
    /// A latency was above its threshold.
    Threshold,
    /// The figures cannot be trusted.
    Tainted,
    /// The user ended it before what was asked for was measured. What was measured is sound.
    Interrupted,
    /// The run did not come to its end.
    Error,
}

impl Verdict {
    /// The exit code that says it.
    #[must_use]
    pub fn exit_code(self) -> u8 {
        match self {
            Self::Passed => 0,
            Self::Error => 1,
            Self::Threshold => 2,
            Self::Tainted => 3,
            Self::Interrupted => takt_base::EXIT_INTERRUPTED,
        }
    }

    /// The word in the schema.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Passed => "passed",
            Self::Threshold => "threshold",
            Self::Tainted => "tainted",
            Self::Interrupted => "interrupted",
            Self::Error => "error",
        }
    }
}

/// All of a run but its distributions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "names as in the reports")]
pub struct RunRecord {
    pub schema: String,
    pub result: Verdict,
    pub error: Option<String>,
    pub is_interrupted: bool,
    pub taint: Vec<String>,
    pub config: RunConfig,
    pub event_ids: Vec<u32>,
    pub kernel_cmdline: String,
    pub accel: Selected,
    pub git: String,
    pub host: Host,
    pub clocks: Clocks,
    pub timing: Timing,
    pub stop: Option<StopRecord>,
    /// How often a latency was above a threshold behind which the measurement went on.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub hits: u64,
    pub slots: Vec<SlotRecord>,
    pub trace: TraceRecord,
    pub log_dropped: u64,
    pub capture: CaptureCount,
    pub cpus: Vec<CpuRecord>,
    pub threads: Vec<ThreadRecord>,
    /// How many activations hold against the count of executed instructions, if that was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verified: Option<VerifiedRecord>,
    /// The latencies without the time in which other CPUs ran, if that was counted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub without_turns: Vec<WithoutTurns>,
    /// What a machine that is not QEMU's says of itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub machine: Option<MachineRecord>,
    /// Time that was taken of each CPU by nobody of the guest's, if a tracer looked for it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gaps: Vec<GapsRecord>,
    /// Check sum of all this and of `hist.csv`; runs of older versions have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sum: Option<u64>,
    /// Whether one of the two was changed after the run.
    #[serde(skip)]
    pub is_edited: bool,
}

/// Runs that were recorded without such a field have check sums without it.
fn is_zero(number: &u64) -> bool {
    *number == 0
}

impl RunRecord {
    /// Whether the run came to its end, and its figures can be trusted.
    #[must_use]
    pub fn has_passed(&self) -> bool {
        self.result == Verdict::Passed && !self.is_interrupted
    }

    /// The verdict for people, who see whether the run was interrupted as well.
    #[must_use]
    pub fn outcome(&self) -> String {
        let is_said = self.result == Verdict::Interrupted;
        let interrupted = if self.is_interrupted && !is_said {
            ", interrupted"
        } else {
            ""
        };
        let edited = if self.is_edited { ", edited" } else { "" };
        format!("{}{interrupted}{edited}", self.result.word())
    }

    /// The check sum of the record without it, and of the text of `hist.csv`.
    #[must_use]
    pub fn sum_with(&self, hist: &str) -> u64 {
        let without = Self {
            sum: None,
            ..self.clone()
        };
        // Numbers and strings: that does not fail.
        let mut bytes = serde_json::to_vec(&without).unwrap_or_default();
        bytes.extend_from_slice(hist.as_bytes());
        wire::checksum(&bytes)
    }

    /// Whether the record or the text of `hist.csv`, whose columns of IRQ, thread and user latency these are for each slot,
    /// was changed after the run.
    ///
    /// # Errors
    ///
    /// The figure that is another one in the two.
    pub fn check<'b>(
        &self,
        hist: &str,
        buckets: impl IntoIterator<Item = [&'b [(u64, u64)]; 3]>,
    ) -> Result<bool> {
        if self.sum == Some(self.sum_with(hist)) {
            return Ok(false);
        }
        self.check_figures(buckets)?;
        Ok(self.sum.is_some())
    }

    /// Whether the record's figures are those of these histograms, whoever wrote both.
    ///
    /// # Errors
    ///
    /// The figure that is another one.
    pub fn check_figures<'b>(
        &self,
        buckets: impl IntoIterator<Item = [&'b [(u64, u64)]; 3]>,
    ) -> Result<()> {
        if self.result != Verdict::Error {
            for (slot, [irq, thread, user]) in self.slots.iter().zip(buckets) {
                slot.irq.check(irq)?;
                slot.thread.check(thread)?;
                slot.user.map_or(Ok(()), |it| it.check(user))?;
            }
        }
        Ok(())
    }
}

/// Where it ran.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "names as in the reports")]
pub struct Host {
    pub cpu: String,
    pub kernel: String,
    pub qemu: String,
    pub qemu_exit: String,
}

/// The guest's clocks.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "names as in the reports")]
pub struct Clocks {
    pub tsc_hz: u64,
    pub tsc_source: String,
    pub is_tsc_invariant: bool,
    pub lapic_hz: u64,
    pub lapic_source: String,
    pub has_tsc_deadline: bool,
}

/// How long things took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "names as in the reports")]
pub struct Timing {
    pub started_unix_s: u64,
    pub build_s: f64,
    pub run_s: f64,
    pub measured_ns: u64,
}

/// The threshold that ended the run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "names as in the reports")]
pub struct StopRecord {
    pub which: String,
    pub cpu: u32,
    pub slot: u32,
    pub value_ns: u64,
    pub seq: u64,
}

/// A measured thread.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "names as in the reports")]
pub struct SlotRecord {
    pub slot: usize,
    pub cpu: u32,
    pub tid: u32,
    pub priority: u32,
    pub interval_ns: u64,
    pub missed: u64,
    pub negative: u64,
    /// cyclictest: the last thread latency.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_ns: Option<u64>,
    pub irq: LatencyRecord,
    pub thread: LatencyRecord,
    /// If it is a task's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<LatencyRecord>,
}

/// The activations of a run, warm-up and all, and how many of them hold against the count of executed instructions, with
/// both latencies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "names as in the reports")]
pub struct VerifiedRecord {
    pub activations: u64,
    pub verified: u64,
}

/// A CPU's latencies without the time in which other CPUs ran.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "names as in the reports")]
pub struct WithoutTurns {
    pub cpu: u32,
    pub irq: Figures,
    pub thread: Figures,
}

/// What the table shows of a distribution.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "names as in the reports")]
pub struct Figures {
    pub count: u64,
    pub min: Option<u64>,
    pub avg: Option<f64>,
    pub p50: Option<u64>,
    pub p99: Option<u64>,
    pub p999: Option<u64>,
    pub max: Option<u64>,
}

impl From<&ExactHistogram> for Figures {
    fn from(all: &ExactHistogram) -> Self {
        Self {
            count: all.count(),
            min: all.min(),
            avg: all.avg(),
            p50: all.percentile(500),
            p99: all.percentile(990),
            p999: all.percentile(999),
            max: all.max(),
        }
    }
}

/// A distribution without its buckets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "names as in the reports")]
pub struct LatencyRecord {
    pub count: u64,
    pub min: Option<u64>,
    pub max: Option<u64>,
    pub sum: u64,
    pub overflow: u64,
    /// Binary logarithm of the ns from which on a bucket stands for several values.
    #[serde(default = "older_bits", skip_serializing_if = "is_older")]
    pub histogram_bits: u32,
}

/// Runs of older versions do not say it, and have check sums without it.
fn older_bits() -> u32 {
    16
}

fn is_older(bits: &u32) -> bool {
    *bits == older_bits()
}

impl LatencyRecord {
    fn scale(&self) -> Scale {
        Scale::new(self.histogram_bits).unwrap_or_default()
    }

    /// The distribution of these figures with these buckets: value in ns and how often it came.
    ///
    /// # Errors
    ///
    /// If they do not belong together.
    pub fn histogram(&self, buckets: &[(u64, u64)]) -> Result<ExactHistogram> {
        let limits = (self.min.unwrap_or_default(), self.max.unwrap_or_default());
        ensure!(
            limits.0 <= limits.1,
            "the run's minimum is above its maximum"
        );
        let nr: u128 = buckets.iter().map(|&(_, count)| u128::from(count)).sum();
        ensure!(
            nr + u128::from(self.overflow) == u128::from(self.count),
            "the histogram has {nr} samples, the run {}",
            self.count.saturating_sub(self.overflow)
        );
        Ok(
            ExactHistogram::from_parts(buckets.iter().copied(), self.overflow, limits, self.sum)
                .with_scale(self.scale()),
        )
    }
}

impl LatencyRecord {
    /// Compares the figures with the buckets of `hist.csv`. Only for a run that came to its end: a guest that died may have
    /// counted a sample and not yet added it up.
    ///
    /// # Errors
    ///
    /// The figure that is another one.
    pub fn check(&self, buckets: &[(u64, u64)]) -> Result<()> {
        let filled = || buckets.iter().filter(|(_, count)| *count > 0);
        let (least, most) = (filled().map(|it| it.0).min(), filled().map(|it| it.0).max());
        let says = |what, ours: Option<u64>, which, its: Option<u64>| {
            let text = |it: Option<u64>| it.map_or("none".into(), |it| it.to_string());
            anyhow!(
                "run.json says {what} {}, hist.csv's {which} is {}",
                text(ours),
                text(its)
            )
        };
        // A bucket's value is its largest, at most the maximum.
        let is_max = match (self.max, most) {
            (Some(max), Some(most)) if self.overflow > 0 => most <= max,
            (max, most) => self.overflow > 0 && most.is_none() || max == most,
        };
        ensure!(is_max, says("max", self.max, "greatest value", most));
        let is_min = match (self.min, least) {
            (Some(min), Some(least)) => (self.low(least)..=least).contains(&min),
            (min, least) => self.overflow > 0 || min == least,
        };
        ensure!(is_min, says("min", self.min, "least value", least));
        let total = |value: &dyn Fn(u64) -> u64| -> u128 {
            let each = filled().map(|(ns, count)| u128::from(value(*ns)) * u128::from(*count));
            each.sum()
        };
        let (from, to) = (total(&|ns| self.low(ns)), total(&|ns| ns));
        let beyond = u128::from(self.overflow) * u128::from(self.max.unwrap_or_default());
        let sum = u128::from(self.sum);
        ensure!(
            from <= sum && sum <= to + beyond || self.sum == u64::MAX,
            "run.json says sum {sum}, hist.csv's is {}",
            match from == to {
                true => from.to_string(),
                false => format!("{from} to {}", to + beyond),
            }
        );
        Ok(())
    }

    /// The smallest value that the bucket of this value counts.
    fn low(&self, ns: u64) -> u64 {
        let scale = self.scale();
        scale.bucket_low(scale.bucket_of(ns))
    }
}

impl From<&ExactHistogram> for LatencyRecord {
    fn from(all: &ExactHistogram) -> Self {
        Self {
            count: all.count(),
            min: all.min(),
            max: all.max(),
            sum: u64::try_from(all.sum()).unwrap_or(u64::MAX),
            overflow: all.overflow(),
            histogram_bits: all.exact_below().ilog2(),
        }
    }
}

/// The trace rings' counters, all CPUs together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "names as in the reports")]
pub struct TraceRecord {
    pub events: u64,
    pub bytes: u64,
    pub overrun: u64,
    pub commit_overrun: u64,
    pub dropped: u64,
}

impl TraceRecord {
    /// Events that are not in the trace.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.overrun + self.commit_overrun + self.dropped
    }
}

/// A CPU's odd interrupts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "names as in the reports")]
pub struct CpuRecord {
    pub cpu: usize,
    pub unexpected_irqs: u64,
}

/// A thread of the guest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "names as in the reports")]
pub struct ThreadRecord {
    pub tid: u8,
    pub name: String,
    pub priority: u32,
    pub cpu: u32,
    /// Cycles that it has run, if the image counts that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runtime_cycles: Option<u64>,
    /// How often it was switched to, if the image counts that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub switches: Option<u64>,
}

/// The distributions of a measured thread.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Distributions {
    /// IRQ latency.
    pub irq: ExactHistogram,
    /// Thread latency.
    pub thread: ExactHistogram,
    /// Of a task's thread: until the end of its work in user space.
    pub user: ExactHistogram,
}

impl Distributions {
    /// Takes in all of `other`'s samples.
    pub fn merge(&mut self, other: &Self) {
        self.irq.merge(&other.irq);
        self.thread.merge(&other.thread);
        self.user.merge(&other.user);
    }

    /// All that there are, with their names.
    pub fn named(&self) -> impl Iterator<Item = (&'static str, &ExactHistogram)> {
        let user = (self.user.count() != 0).then_some(("user", &self.user));
        [("IRQ", &self.irq), ("thread", &self.thread)]
            .into_iter()
            .chain(user)
    }
}

/// A run with everything that a report needs.
#[derive(Clone, Debug, PartialEq)]
pub struct Run {
    /// What `run.json` has.
    pub record: RunRecord,
    /// What `hist.csv` has, one for each of the record's slots.
    pub distributions: Vec<Distributions>,
}

impl Run {
    /// The latencies of all its measured threads together.
    #[must_use]
    pub fn over_all(&self) -> Distributions {
        let mut all = Distributions::default();
        self.distributions.iter().for_each(|d| all.merge(d));
        all
    }
}
