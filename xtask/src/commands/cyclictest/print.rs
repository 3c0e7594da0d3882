//! The report as cyclictest prints it.
//!
//! Source: output of rt-tests 2.4's `cyclictest`.

use std::collections::BTreeMap;
use std::fmt::Write;

use serde::Serialize;
use takt_decode::TscClock;
use takt_timerlat::stats::ExactHistogram;

use takt_base::output;
use takt_cli::Cyclictest;
use takt_machine::record::{Run, RunRecord, SlotRecord};
use takt_machine::run::RunConfig;
use takt_machine::run::follow::Cycle;
use takt_machine::run::lines::Line;
use takt_machine::samples::Sample;

/// What is printed of a run; `samples` are its activations in the order of time, if flags need them.
#[must_use]
pub(super) fn write(flags: &Cyclictest, run: &Run, samples: &[Sample]) -> String {
    let mut out = String::new();
    // Writing to a String does not fail.
    let _ = write_into(&mut out, flags, run, samples);
    out
}

fn write_into(
    out: &mut String,
    flags: &Cyclictest,
    run: &Run,
    samples: &[Sample],
) -> std::fmt::Result {
    let record = &run.record;
    let clock = TscClock::new(record.clocks.tsc_hz.max(1));
    if flags.verbose {
        // They were printed as they came.
    } else if !flags.quiet || flags.histogram().is_none() {
        for slot in &record.slots {
            writeln!(out, "{}", Line::at_end(slot).text(flags.lines()))?;
        }
    }
    if flags.histfile.is_none() {
        out.push_str(&histogram(flags, run, samples));
    }
    if let Some(limit) = flags.spike {
        spikes(out, flags, limit, samples, &clock)?;
    }
    if flags.breaktrace.is_some() {
        broken(out, flags, record)?;
    }
    Ok(())
}

/// A line for each activation, or for the highest of so many in turn.
#[derive(Debug)]
pub(super) struct Each {
    reduction: u64,
    unit: u64,
    /// The CPUs and the threads, until that is printed.
    head: String,
    /// Of each thread: how many came, and the highest since the last line with its number.
    threads: BTreeMap<u32, (u64, Option<(u64, u64)>)>,
}

impl Each {
    /// As the flags say, of this measurement.
    #[must_use]
    pub(super) fn new(flags: &Cyclictest, config: &RunConfig) -> Self {
        Self {
            reduction: flags.oscope.unwrap_or(1),
            unit: flags.lines().unit(),
            head: head(config),
            threads: BTreeMap::new(),
        }
    }

    /// What is printed for the next activation: a line or nothing, and before the first the CPUs and threads.
    pub(super) fn next(&mut self, cycle: Cycle) -> String {
        let Cycle { slot, latency_ns } = cycle;
        let (count, highest) = self.threads.entry(slot).or_default();
        if highest.is_none_or(|(_, before)| latency_ns > before) {
            *highest = Some((*count, latency_ns));
        }
        *count += 1;
        let is_due = count.is_multiple_of(self.reduction);
        let line = highest
            .take_if(|_| is_due)
            .map(|(number, ns)| format!("{slot:8}:{number:8}:{:8}\n", ns / self.unit));
        std::mem::take(&mut self.head) + &line.unwrap_or_default()
    }

    /// What is printed for those that did not come while the guest ran: the last of each thread in the order of time.
    pub(super) fn rest(&mut self, samples: &[Sample], run: &Run) -> String {
        let clock = TscClock::new(run.record.clocks.tsc_hz.max(1));
        let mut known: BTreeMap<_, _> = (self.threads.iter())
            .map(|(slot, (count, _))| (*slot, *count))
            .collect();
        let mut out = std::mem::take(&mut self.head);
        for sample in samples {
            match known.get_mut(&sample.slot).filter(|left| **left > 0) {
                Some(left) => *left -= 1,
                None => {
                    let (slot, latency_ns) = (sample.slot, clock.ns(sample.thread.into()));
                    out += &self.next(Cycle { slot, latency_ns });
                }
            }
        }
        out
    }
}

/// The CPUs and the threads.
fn head(config: &RunConfig) -> String {
    let cpus = config.smp;
    let mut out = format!("Max CPUs = {cpus}\nOnline CPUs = {cpus}\n");
    let threads = config.threads.unwrap_or(1);
    let distance = config.distance_ns.unwrap_or(0);
    for slot in 0..u64::from(threads) {
        let interval = (config.period_ns + slot * distance) / 1000;
        out += &format!("Thread {slot} Interval: {interval}\n");
    }
    out
}

/// The histogram, if one is asked for. `samples` tell which activations are beyond it.
#[must_use]
pub(super) fn histogram(flags: &Cyclictest, run: &Run, samples: &[Sample]) -> String {
    let mut out = String::new();
    if let Some((end, has_all)) = flags.histogram() {
        let has_all = has_all && run.distributions.len() > 1;
        // Writing to a String does not fail.
        let _ = histogram_into(&mut out, run, samples, end, has_all, flags.lines().unit());
    }
    out
}

fn histogram_into(
    out: &mut String,
    run: &Run,
    samples: &[Sample],
    end: u64,
    has_all: bool,
    unit: u64,
) -> std::fmt::Result {
    let mut of_threads: Vec<_> = run.distributions.iter().map(|it| &it.thread).collect();
    let all = run.over_all().thread;
    // Minima and averages have no column for all.
    let only_threads = of_threads.len();
    if has_all {
        of_threads.push(&all);
    }
    let columns: Vec<_> = (of_threads.iter())
        .map(|it| it.rebucket(unit, Some(end)))
        .collect();
    writeln!(out, "# Histogram")?;
    for value in 0..end {
        let counts = columns.iter().map(|(buckets, _)| {
            let count = buckets.get(&(value * unit)).copied().unwrap_or(0);
            format!("{count:06}")
        });
        let counts: Vec<_> = counts.collect();
        writeln!(out, "{value:06} {}", counts.join("\t"))?;
    }
    let mut line = |name: &str, width: usize, of: &dyn Fn(usize) -> u64, nr: usize| {
        let numbers = (0..nr).map(|n| format!(" {:0width$}", of(n)));
        writeln!(out, "# {name}:{}", numbers.collect::<String>())
    };
    let figure = |of: fn(&ExactHistogram) -> u64| {
        let of_threads = &of_threads;
        move |n: usize| of(of_threads[n]) / unit
    };
    let avg = |it: &ExactHistogram| it.avg().unwrap_or(0.0) as u64;
    let below = |n: usize| columns[n].0.values().sum();
    line("Total", 9, &below, columns.len())?;
    let min = figure(|it| it.min().unwrap_or(0));
    line("Min Latencies", 5, &min, only_threads)?;
    line("Avg Latencies", 5, &figure(avg), only_threads)?;
    let max = figure(|it| it.max().unwrap_or(0));
    line("Max Latencies", 5, &max, columns.len())?;
    line("Histogram Overflows", 5, &|n| columns[n].1, columns.len())?;
    let clock = TscClock::new(run.record.clocks.tsc_hz.max(1));
    writeln!(out, "# Histogram Overflow at cycle number:")?;
    for (n, (_, over)) in columns.iter().take(only_threads).enumerate() {
        let own = samples
            .iter()
            .filter(|it| it.slot as usize == n)
            .enumerate();
        let beyond = own.filter(|(_, it)| clock.ns(it.thread.into()) / unit >= end);
        // As many as cyclictest has room for.
        let numbers: Vec<_> = (beyond.map(|(number, _)| format!(" {number:05}")))
            .take(usize::try_from(end).unwrap_or(usize::MAX))
            .collect();
        let others = match over.saturating_sub(numbers.len() as u64) {
            0 => String::new(),
            others => format!(" # {others:05} others"),
        };
        writeln!(out, "# Thread {n}:{}{others}", numbers.concat())?;
    }
    writeln!(out)
}

/// Whether a latency is beyond the histogram that is asked for.
#[must_use]
pub(super) fn has_overflows(flags: &Cyclictest, run: &Run) -> bool {
    let unit = flags.lines().unit();
    flags.histogram().is_some_and(|(end, _)| {
        let mut max = run.distributions.iter().filter_map(|it| it.thread.max());
        max.any(|ns| ns / unit >= end)
    })
}

/// The latencies above a limit, each with the time at which the thread ran.
fn spikes(
    out: &mut String,
    flags: &Cyclictest,
    limit: u64,
    samples: &[Sample],
    clock: &TscClock,
) -> std::fmt::Result {
    let above = samples.iter().filter_map(|sample| {
        let ns = clock.ns(sample.thread.into());
        (ns > limit).then_some((sample, ns))
    });
    writeln!(out)?;
    let mut nr = 0;
    for (sample, ns) in above.take(flags.spike_nodes) {
        let at = clock.ns(sample.due()) + ns;
        writeln!(
            out,
            "T:{:2} Spike:{:8}: TS: {:12}",
            sample.slot,
            ns / flags.lines().unit(),
            at / 1000
        )?;
        nr += 1;
    }
    writeln!(out, "spikes = {nr}\n")
}

/// What -b says of the threads, and of the latency that ended the run.
fn broken(out: &mut String, flags: &Cyclictest, record: &RunRecord) -> std::fmt::Result {
    let ids = record.slots.iter().map(|slot| format!(" {:05}", slot.tid));
    writeln!(out, "# Thread Ids:{}", ids.collect::<String>())?;
    if let Some(stop) = &record.stop {
        let of_slot = |slot: &&SlotRecord| slot.slot == stop.slot as usize;
        let tid = record.slots.iter().find(of_slot).map_or(0, |slot| slot.tid);
        let value = stop.value_ns / flags.lines().unit();
        writeln!(out, "# Break thread: {tid}\n# Break value: {value}")?;
    }
    Ok(())
}

#[derive(Serialize)]
struct Document<'r> {
    file_version: u32,
    /// The key is spelled so.
    #[serde(rename = "cmdline:")]
    cmdline: String,
    return_code: u8,
    sysinfo: System<'r>,
    num_threads: usize,
    resolution_in_ns: u8,
    thread: BTreeMap<usize, Thread>,
}

#[derive(Serialize)]
struct System<'r> {
    sysname: &'static str,
    release: &'r str,
    machine: &'static str,
    realtime: u8,
}

#[derive(Serialize)]
struct Thread {
    #[serde(skip_serializing_if = "Option::is_none")]
    histogram: Option<BTreeMap<u64, u64>>,
    cycles: u64,
    min: u64,
    max: u64,
    avg: f64,
    cpu: u32,
    node: u8,
}

/// cyclictest's JSON; `words` are the command line.
///
/// # Errors
///
/// If serialising fails.
pub(super) fn json(flags: &Cyclictest, run: &Run, words: &[String]) -> serde_json::Result<String> {
    let unit = flags.lines().unit();
    let thread = |(slot, all): (&SlotRecord, &ExactHistogram)| {
        let histogram = flags.histogram().map(|(end, _)| {
            let (buckets, _) = all.rebucket(unit, Some(end));
            let filled = buckets.into_iter().filter(|(_, count)| *count != 0);
            filled.map(|(low, count)| (low / unit, count)).collect()
        });
        let thread = Thread {
            histogram,
            cycles: all.count(),
            min: all.min().unwrap_or(0) / unit,
            max: all.max().unwrap_or(0) / unit,
            avg: all.avg().unwrap_or(0.0) / unit as f64,
            cpu: slot.cpu,
            node: 0,
        };
        (slot.slot, thread)
    };
    let all = run.distributions.iter().map(|it| &it.thread);
    let document = Document {
        file_version: 2,
        cmdline: words.join(" "),
        return_code: run.record.result.exit_code(),
        sysinfo: System {
            sysname: "Takt",
            release: &run.record.git,
            machine: "x86_64",
            realtime: 1,
        },
        num_threads: run.record.slots.len(),
        resolution_in_ns: flags.nsecs.into(),
        thread: run.record.slots.iter().zip(all).map(thread).collect(),
    };
    output::json_pretty(&document)
}
