//! [`Comparison`]: what is known of a comparison, as `compare.json` and `--json` have it. All latencies in ns.

use serde::Serialize;
use takt_timerlat::stats::ExactHistogram;

use super::packages::Package;
use super::verdict::{self, Limit};
use super::{PRIORITY, Settings};
use takt_machine::qemu::accel::Accel;
use takt_machine::record::Distributions;
use takt_machine::record::Verdict;

/// Schema of `compare.json`.
pub const SCHEMA: &str = "takt.compare/1";

/// All of a comparison.
#[derive(Clone, Debug, Serialize)]
pub struct Comparison {
    /// [`SCHEMA`].
    pub schema: &'static str,
    /// The verdict.
    pub result: Verdict,
    /// What kept it from its end.
    pub error: Option<String>,
    /// Why the figures cannot be trusted.
    pub taint: Vec<String>,
    /// What was measured.
    pub settings: Settings,
    /// The measured thread's FIFO priority.
    pub priority: u8,
    /// The accelerator of both.
    pub accel: &'static str,
    /// What a nanosecond is.
    pub ns_means: &'static str,
    /// QEMU's version.
    pub qemu: String,
    /// The host's CPU.
    pub host_cpu: String,
    /// One system.
    pub linux: Linux,
    /// The other.
    pub takt: Takt,
    /// The limits, and whether they hold.
    pub limits: Vec<Limit>,
}

/// What is known of Linux.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Linux {
    /// In its own words.
    pub version: String,
    /// What it is made of, the kernel first.
    pub packages: Vec<Package>,
    /// Its arguments that bear upon latencies.
    pub arguments: &'static str,
    /// Guest RAM in MiB.
    pub ram_mib: u64,
    /// From its reset to its first program.
    pub booted_ns: Option<u64>,
    /// Real time in seconds.
    pub took_s: f64,
    /// Its figures.
    #[serde(flatten)]
    pub latencies: Latencies,
}

/// What is known of Takt. All else is in its two run folders.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Takt {
    /// Source revision.
    pub git: String,
    /// Guest RAM in MiB.
    pub ram_mib: u64,
    /// Real time of both runs in seconds.
    pub took_s: f64,
    /// Its figures.
    #[serde(flatten)]
    pub latencies: Latencies,
}

/// The figures of a system.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Latencies {
    /// timerlat's IRQ latency.
    pub irq: Option<Latency>,
    /// timerlat's thread latency.
    pub thread: Option<Latency>,
    /// cyclictest's.
    pub cyclictest: Option<Latency>,
}

/// A distribution.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[expect(missing_docs, reason = "names as in the reports")]
pub struct Latency {
    pub count: u64,
    pub min: u64,
    pub avg: f64,
    pub p50: u64,
    pub p99: u64,
    pub max: u64,
    pub overflow: u64,
    pub hist: Vec<(u64, u64)>,
}

impl Latency {
    /// Takes it from the samples; `None` if there are none.
    #[must_use]
    pub fn of(all: &ExactHistogram) -> Option<Self> {
        Some(Self {
            count: all.count(),
            min: all.min()?,
            avg: all.avg()?,
            p50: all.percentile(500)?,
            p99: all.percentile(990)?,
            max: all.max()?,
            overflow: all.overflow(),
            hist: all.iter().collect(),
        })
    }
}

impl Latencies {
    /// Takes in what was measured.
    #[must_use]
    pub fn of(timerlat: &Distributions, cyclictest: &ExactHistogram) -> Self {
        Self {
            irq: Latency::of(&timerlat.irq),
            thread: Latency::of(&timerlat.thread),
            cyclictest: Latency::of(cyclictest),
        }
    }
}

impl Comparison {
    /// One that has no figures yet.
    #[must_use]
    pub fn new(settings: Settings, qemu: String, host_cpu: String) -> Self {
        let accel = Accel::TcgIcount;
        Self {
            schema: SCHEMA,
            result: Verdict::Error,
            error: None,
            taint: Vec::new(),
            settings,
            priority: PRIORITY,
            accel: accel.name(),
            ns_means: "one guest instruction",
            qemu,
            host_cpu,
            linux: Linux::default(),
            takt: Takt::default(),
            limits: Vec::new(),
        }
    }

    /// What errors, taints and limits say together: the worst of them.
    #[must_use]
    pub fn judge(&self) -> Verdict {
        if self.error.is_some() || self.limits.len() != verdict::NR {
            Verdict::Error
        } else if !self.taint.is_empty() {
            Verdict::Tainted
        } else if self.limits.iter().all(|limit| limit.holds) {
            Verdict::Passed
        } else {
            Verdict::Threshold
        }
    }
}
