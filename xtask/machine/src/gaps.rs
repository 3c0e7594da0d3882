//! [`GapsRecord`]: time that was taken of a CPU by nobody of the guest's, as the tracers hwlat and osnoise have found it.

use std::path::Path;

use anyhow::Result;
use serde::{Deserialize, Serialize};
use takt_decode::{Item, TscClock};

use super::record::RunRecord;
use crate::osnoise::Measured;
use crate::run::folder;
use takt_guest::Elf;
use takt_guest::trace::Decoder;
use takt_guest::words;

/// What the tracer hwlat records of a width of time in which there was a gap.
const HWLAT: &str = "tracer:hwlat";
/// Its threshold in nanoseconds unless the command line says otherwise; osnoise's is another.
const HWLAT_THRESH: u64 = 10_000;

/// What was taken of a CPU.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "names as in the reports")]
pub struct GapsRecord {
    pub cpu: u8,
    /// Gaps above the threshold.
    pub count: u64,
    /// The longest; 0 if no single one is in the trace.
    pub max_ns: u64,
    /// Non-maskable interrupts while it was watched.
    pub nmis: u64,
}

/// The tracer of gaps that ran, by the kernel's command line.
#[must_use]
pub fn tracer(command_line: &str) -> Option<&str> {
    words::tracer(command_line).filter(|name| matches!(*name, "hwlat" | "osnoise"))
}

/// Reads them from the trace of the run in `dir`; none if another tracer ran.
///
/// # Errors
///
/// If the trace cannot be read.
pub fn read(dir: &Path, elf: &Elf, command_line: &str) -> Result<Vec<GapsRecord>> {
    match tracer(command_line) {
        Some("hwlat") => of_hwlat(dir, elf),
        Some(_) => {
            let cpus = Measured::read(dir, elf, false)?.cpus;
            let record = |(cpu, it): (u8, crate::osnoise::OfCpu)| GapsRecord {
                cpu,
                count: it.hw,
                max_ns: it.max_hw_ns,
                nmis: it.nmi,
            };
            Ok(cpus.into_iter().map(record).collect())
        }
        None => Ok(Vec::new()),
    }
}

/// The tracer watches the boot CPU.
fn of_hwlat(dir: &Path, elf: &Elf) -> Result<Vec<GapsRecord>> {
    let mut trace = folder::trace(dir)?;
    let clock = TscClock::new(trace.header().tsc_hz);
    let decoder = Decoder::new(elf, trace.header().tsc_hz, [])?;
    let mut gaps = GapsRecord::default();
    for item in trace.merge(&decoder.table) {
        if let Item::Record(record) = item?
            && record.event.name == HWLAT
        {
            let number = |name| record.number(name).unwrap_or(0);
            gaps.cpu = record.cpu;
            gaps.count += number("count");
            let longest = number("inner").max(number("outer"));
            gaps.max_ns = gaps.max_ns.max(clock.ns(longest));
            gaps.nmis += number("nmi_count");
        }
    }
    Ok(vec![gaps])
}

/// They for people: the lines of a table, none if no tracer of gaps ran.
#[must_use]
pub fn lines(record: &RunRecord) -> Vec<String> {
    let Some(tracer) = tracer(&record.kernel_cmdline) else {
        return Vec::new();
    };
    let pairs = record.kernel_cmdline.split_whitespace();
    let threshold = pairs
        .filter_map(|word| word.strip_prefix("tracing_thresh=")?.parse().ok())
        .next_back()
        .filter(|ns: &u64| *ns != 0);
    let above = match (tracer, threshold) {
        (_, Some(ns)) => format!("above {ns} ns"),
        ("hwlat", None) => format!("above {HWLAT_THRESH} ns"),
        _ => "above osnoise's threshold".into(),
    };
    let smis = record.machine.as_ref().and_then(|it| it.smis.as_ref());
    let mut lines = vec![format!(
        "{:<16} {:>8} {:>11} {:>8} {:>8}  {above}",
        format!("{tracer}: gaps"),
        "count",
        "max in ns",
        "NMIs",
        "SMIs"
    )];
    lines.extend(record.gaps.iter().map(|it| {
        let smis = smis.and_then(|all| all.get(usize::from(it.cpu)));
        let smis = smis.map_or_else(|| "unknown".into(), ToString::to_string);
        let cpu = format!("CPU {}", it.cpu);
        let max_ns = match it.max_ns {
            0 if it.count != 0 => "unknown".into(),
            ns => ns.to_string(),
        };
        let (count, nmis) = (it.count, it.nmis);
        format!("{cpu:<16} {count:>8} {max_ns:>11} {nmis:>8} {smis:>8}")
    }));
    lines
}
