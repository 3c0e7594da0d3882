//! What the tracer `osnoise` has measured: read from a run's trace.

pub mod table;

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::Result;
use serde::Serialize;
use takt_decode::{Item, Record, TscClock};

use crate::run::folder;
use takt_guest::Elf;
use takt_guest::trace::Decoder;

/// A sampling of the tracer's thread.
const SAMPLING: &str = "ftrace:osnoise";
/// A single noise.
const NOISE: &str = "osnoise:sample_threshold";
/// A text, among them why recording stopped.
const PRINT: &str = "ftrace:print";
const STOPPED: &str = "stop tracing hit";

/// What was measured on a CPU. Times in nanoseconds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct OfCpu {
    /// Samplings.
    pub count: u64,
    /// How long was sampled altogether.
    pub runtime_ns: u64,
    /// How much of it was noise.
    pub noise_ns: u64,
    /// The most noise of one sampling.
    pub max_noise_ns: u64,
    /// The longest single noise.
    pub max_single_ns: u64,
    /// Noises that nothing of the guest's explains.
    pub hw: u64,
    /// The longest single one of those that is in the trace.
    #[serde(skip)]
    pub max_hw_ns: u64,
    /// Noises in which other CPUs had their turns: under icount they are one after the other.
    pub turns: u64,
    /// Non-maskable interrupts.
    pub nmi: u64,
    /// Interrupts.
    pub irq: u64,
    /// Deferred work of interrupts.
    pub softirq: u64,
    /// Other threads.
    pub thread: u64,
    /// Each single noise above the threshold, by its length.
    #[serde(skip)]
    pub singles: BTreeMap<u64, u64>,
}

/// What was measured.
#[derive(Debug, Default, Serialize)]
pub struct Measured {
    /// On each CPU that had a sampling.
    pub cpus: BTreeMap<u8, OfCpu>,
    /// A limit has stopped the recording: what the guest said.
    pub stopped: Option<String>,
    /// Events that are not in the trace.
    pub lost: u64,
}

impl Measured {
    /// Reads the trace of a run folder. `has_turns`: CPUs run one after the other, so what nothing explains is other CPUs'.
    ///
    /// # Errors
    ///
    /// If the trace cannot be read.
    pub fn read(dir: &Path, elf: &Elf, has_turns: bool) -> Result<Self> {
        let mut trace = folder::trace(dir)?;
        let clock = TscClock::new(trace.header().tsc_hz);
        let decoder = Decoder::new(elf, trace.header().tsc_hz, [])?;
        let mut measured = Self {
            lost: trace.nr_lost(),
            ..Self::default()
        };
        for item in trace.merge(&decoder.table) {
            if let Item::Record(record) = item? {
                measured.see(&record, clock);
            }
        }
        if has_turns {
            for cpu in measured.cpus.values_mut() {
                cpu.turns = std::mem::take(&mut cpu.hw);
            }
        }
        Ok(measured)
    }

    fn see(&mut self, record: &Record<'_>, clock: TscClock) {
        let number = |name| record.number(name).unwrap_or(0);
        let ns = |name| clock.ns(number(name));
        match record.event.name.as_str() {
            SAMPLING => {
                let cpu = self.cpus.entry(record.cpu).or_default();
                cpu.count += 1;
                cpu.runtime_ns += ns("runtime");
                cpu.noise_ns += ns("noise");
                cpu.max_noise_ns = cpu.max_noise_ns.max(ns("noise"));
                cpu.max_single_ns = cpu.max_single_ns.max(ns("max_sample"));
                cpu.hw += number("hw_count");
                cpu.nmi += number("nmi_count");
                cpu.irq += number("irq_count");
                cpu.softirq += number("softirq_count");
                cpu.thread += number("thread_count");
            }
            NOISE => {
                let cpu = self.cpus.entry(record.cpu).or_default();
                let duration = ns("duration");
                *cpu.singles.entry(duration).or_default() += 1;
                if record.number("interference") == Some(0) {
                    cpu.max_hw_ns = cpu.max_hw_ns.max(duration);
                }
            }
            PRINT => {
                let text = record.value("buf").map(|value| value.text());
                let stopped = text.filter(|text| text.starts_with(STOPPED));
                self.stopped = self.stopped.take().or(stopped);
            }
            _ => {}
        }
    }
}
