//! IRQ latency and thread latency of the idle system, from the image that `latency-run` boots.

use std::io::BufReader;
use std::path::Path;

use anyhow::{Context, Result, bail};
use takt_decode::SubBuffer;
use takt_timerlat::config::{Config, Workload};
use takt_timerlat::stats::ExactHistogram;
use takt_tracer::control::{Setting, Tracer};
use takt_tracer::wire::CHANNEL_TRACE;

use super::Values;
use takt_guest;
use takt_guest::frames::FrameScanner;
use takt_guest::{Elf, events};
use takt_machine::counted::Plugin;
use takt_machine::counted::log::Log;
use takt_machine::run::collect::Results;
use takt_machine::run::config::DEFAULT_EVENTS;
use takt_machine::run::once::Booted;
use takt_machine::run::once::Folder;
use takt_results::analysis::marks::{Mark, Marks};

/// timerlat's own two events.
const EVENTS: &str = "timerlat";

/// The local APIC timer's vector.
pub(super) const TIMER: u8 = 0x50;

/// A sample of the tracer timerlat.
const SAMPLE: &str = "ftrace:timerlat";

/// A thousand activations a second.
pub(super) const RUN: &str = "workload=timerlat period_ns=1000000 duration_ns=3000000000 cpus=0x1 smp=1 prio=95 load=none mode=capture";

/// Measures with timerlat's events recorded, with tracing off, with all events of `latency-run`, and with tracers.
pub(super) fn measure(elf: &Elf, folder: &Folder, values: &mut Values) -> Result<()> {
    run(elf, folder, &own_events(elf)?, "", values)?;
    run(elf, folder, "", "-untraced", values)?;
    with_second_cpu(elf, folder, values)?;
    let mut defaults = Vec::new();
    for system in DEFAULT_EVENTS.split(',') {
        defaults.extend(ids_of(elf, system)?);
    }
    run(elf, folder, &defaults.join(","), "-default-events", values)?;
    for tracer in ["irqsoff", "preemptoff"] {
        let suffix = format!("-{tracer}");
        let settings = format!("{} ftrace={tracer}", own_events(elf)?);
        run(elf, folder, &settings, &suffix, values)?;
    }
    with_timerlat(elf, folder, "", "-timerlat", values)?;
    let noises = ids_of(elf, "osnoise")?.join(",");
    with_timerlat(elf, folder, &noises, "-osnoise", values)
}

/// Measures with tracing off an image with feature `tasks`.
pub(super) fn with_tasks(elf: &Elf, folder: &Folder, values: &mut Values) -> Result<()> {
    run(elf, folder, "", "-tasks", values)
}

/// Measures with tracing off while a second CPU is idle, and what that adds to the median without it.
fn with_second_cpu(elf: &Elf, folder: &Folder, values: &mut Values) -> Result<()> {
    let line = format!("{} events=", RUN.replace("smp=1", "smp=2"));
    let booted = folder.boot_on(2, elf, &line, |arguments| arguments)?;
    note_figures(elf, &booted, "-second-cpu", values)?;
    let median = |suffix| values.get(&format!("thread-latency-median{suffix}"));
    if let (Some(with), Some(without)) = (median("-second-cpu"), median("-untraced")) {
        let tax = with.saturating_sub(*without);
        values.insert("second-cpu-tax".into(), tax);
    }
    Ok(())
}

/// Measures by the tracer timerlat itself, with these events recorded as well.
fn with_timerlat(
    elf: &Elf,
    folder: &Folder,
    ids: &str,
    suffix: &str,
    values: &mut Values,
) -> Result<()> {
    let config = Config {
        workload: Workload::None,
        duration_ns: 1_000_000_000,
        ..Config::default()
    };
    let tracer = Setting::Tracer(Tracer::Timerlat.name());
    let (marks, log) = (Marks::of(elf), folder.path("counted"));
    let plugin = Plugin::with_marks(marks.addresses())?;
    let line = format!("{config} mode=capture events={ids} {tracer}");
    folder.boot_with(elf, &line, |arguments| {
        plugin.added_to(arguments, &log, None)
    })?;
    let length = activation(&marks, &log)?;
    values.insert(format!("activation{suffix}"), length);
    let table = events::table(elf)?;
    let mut frames = FrameScanner::open(&folder.capture())?;
    let mut latencies = Vec::new();
    while let Some((header, payload)) = frames.next()? {
        if header.channel != CHANNEL_TRACE {
            continue;
        }
        let mut sub = SubBuffer::new(payload.to_vec(), 0).context("a sub-buffer is damaged")?;
        while let Some(record) = sub.next(&table) {
            let record = record.context("a record is damaged")?;
            let is_thread = record.number("context") == Some(1);
            if record.event.name == SAMPLE && is_thread {
                latencies.extend(record.number("timer_latency"));
            }
        }
    }
    latencies.sort_unstable();
    let (Some(median), Some(max)) = (latencies.get(latencies.len() / 2), latencies.last()) else {
        bail!("the tracer timerlat has measured nothing");
    };
    values.insert(format!("thread-latency-median{suffix}"), *median);
    values.insert(format!("thread-latency-max{suffix}"), *max);
    Ok(())
}

/// How many instructions an activation takes from the interrupt's first one to where the idle thread is made the running one
/// again, both included: the median of those between which there is nothing else. Counted from outside.
fn activation(marks: &Marks, log: &Path) -> Result<u64> {
    let file =
        takt_base::input::open(log).context("cannot read the log of executed instructions")?;
    let mut log = Log::new(BufReader::new(file))?;
    let mut lengths = Vec::new();
    // The interrupt's count, and how many switches have come since: to the thread, and back.
    let mut begun = None;
    while let Some(event) = log.next_event()? {
        let mark = event.mark.and_then(|number| marks.get(number));
        begun = match (mark.map(|(_, mark)| mark), begun) {
            (Some(Mark::Entry(TIMER)), _) => Some((event.at, 0)),
            (Some(Mark::Entry(_)), _) => None,
            (Some(Mark::Switch), Some((at, 1))) => {
                lengths.push(event.at - at + 1);
                None
            }
            (Some(Mark::Switch), Some((at, nr))) => Some((at, nr + 1)),
            (_, begun) => begun,
        };
    }
    lengths.sort_unstable();
    let median = lengths.get(lengths.len() / 2).copied();
    median.context("no activation of the tracer timerlat was executed")
}

/// The ids of a system's events.
fn ids_of(elf: &Elf, system: &str) -> Result<Vec<String>> {
    let table = events::table(elf)?;
    let events = table.iter().filter(|event| event.system() == system);
    Ok(events.map(|event| event.id.to_string()).collect())
}

fn own_events(elf: &Elf) -> Result<String> {
    let ids = ids_of(elf, EVENTS)?;
    if ids.len() != 2 {
        bail!("the image has {} events of timerlat, not two", ids.len());
    }
    Ok(ids.join(","))
}

/// Measures an image with functions that can be traced: timerlat's events recorded, the function tracer off and on.
pub(super) fn with_functions(elf: &Elf, folder: &Folder, values: &mut Values) -> Result<()> {
    let ids = own_events(elf)?;
    run(elf, folder, &ids, "-function-off", values)?;
    run(
        elf,
        folder,
        &format!("{ids} ftrace=function"),
        "-function-on",
        values,
    )
}

fn run(elf: &Elf, folder: &Folder, ids: &str, suffix: &str, values: &mut Values) -> Result<()> {
    let booted = folder.boot(elf, &format!("{RUN} events={ids}"))?;
    note_figures(elf, &booted, suffix, values)
}

/// Notes what a guest has measured.
fn note_figures(elf: &Elf, booted: &Booted, suffix: &str, values: &mut Values) -> Result<()> {
    let results = Results::read(&takt_guest::status(elf, &booted.ram)?)
        .context("cannot read the guest's results")?;
    let Some(all) = results.distributions.first() else {
        bail!("the guest measured nothing");
    };
    for (name, histogram) in [("irq", &all.irq), ("thread", &all.thread)] {
        let figures = figures(histogram).context("the guest measured nothing")?;
        for (figure, value) in ["min", "median", "max"].into_iter().zip(figures) {
            values.insert(format!("{name}-latency-{figure}{suffix}"), value);
        }
    }
    Ok(())
}

fn figures(histogram: &ExactHistogram) -> Option<[u64; 3]> {
    Some([
        histogram.min()?,
        histogram.percentile(500)?,
        histogram.max()?,
    ])
}
