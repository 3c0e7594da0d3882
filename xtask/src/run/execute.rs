//! Boots a machine and sees it through to the run folder.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, anyhow};
use takt_tracer::decode::TscClock;

use super::collect::Results;
use super::demux::{CaptureCount, FileFacts, Rest, demux};
use super::hits::{Act, Hits, Moment};
use super::live::Live;
use super::monitor::{Ending, Monitor, Outcome, is_disk_full};
use super::{RunConfig, RunFolder, folder, last_words, places, provenance};
use crate::analysis;
use crate::cli::Lines;
use crate::counted::{Plugin, Verification};
use crate::guest;
use crate::guest::rings;
use crate::guest::rtt::{Rtt, UP_LOG};
use crate::image::Elf;
use crate::qemu::accel::{Selected, host_cpu};
use crate::qemu::{self, Machine, Process, Ram};
use crate::report::csv;
use crate::report::judge::{Evidence, state_of};
use crate::report::record::{Distributions, Host, Run, RunRecord, SCHEMA, Timing, TraceRecord};
use crate::term::WithHelp;
use crate::tracefs::launch;

/// Everything that is decided before a run.
pub struct Plan<'p> {
    /// What is run.
    pub config: RunConfig,
    /// The events that are recorded.
    pub event_ids: Vec<u32>,
    /// More words for the kernel's command line.
    pub words: String,
    /// On what.
    pub accel: Selected,
    /// The image.
    pub elf: &'p Elf,
    /// The revision that it was built from.
    pub git: String,
    /// How long it took to build, in seconds.
    pub build_s: f64,
    /// The folder that the user named.
    pub output: Option<&'p Path>,
    /// Whether a run that is there is replaced.
    pub is_forced: bool,
    /// No live view.
    pub is_quiet: bool,
    /// How cyclictest's threads are shown.
    pub lines: Option<Lines>,
    /// Counts what is executed, so that the latencies are verified, or has the guest stand where a threshold may be hit.
    pub plugin: Option<Plugin>,
    /// What is done where one is.
    pub on_hit: Option<&'p Act<'p>>,
}

impl std::fmt::Debug for Plan<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Plan")
            .field("config", &self.config)
            .field("plugin", &self.plugin)
            .finish_non_exhaustive()
    }
}

/// A run that is over.
#[derive(Debug)]
pub struct Finished {
    /// What came of it.
    pub run: Run,
    /// Its folder.
    pub dir: PathBuf,
    /// What was last heard, if it did not end well.
    pub last_words: Option<String>,
    /// What became of what was to be done at thresholds behind which it went on.
    pub acted: Result<()>,
}

/// Runs a plan.
///
/// # Errors
///
/// If there is nothing to report: QEMU cannot be started, files cannot be written, the user wants
/// out. A guest that fails is no error here but a result.
pub fn execute(plan: &Plan<'_>) -> Result<Finished> {
    execute_inner(plan).map_err(|error| {
        if is_disk_full(&error) {
            error.context("the disk is full; no run folder was made")
        } else {
            error
        }
    })
}

fn execute_inner(plan: &Plan<'_>) -> Result<Finished> {
    let name = plan.config.workload.to_string();
    let run_folder = RunFolder::create(plan.output, plan.is_forced, &crate::paths::runs(), &name)?;
    let dir = run_folder.path().to_owned();
    let image = dir.join(folder::IMAGE);
    fs::write(&image, &plan.elf.data).context("cannot copy the image into the run folder")?;
    let ram = Ram::create(&dir)?;
    let machine = Machine {
        image,
        ram: ram.path().to_owned(),
        dir: dir.clone(),
        cmdline: with_words(
            plan.config
                .kernel_cmdline(plan.accel.accel, &plan.event_ids),
            &plan.words,
        ),
        smp: plan.config.smp,
        accel: plan.accel.accel,
    };
    fs::write(dir.join(folder::CMDLINE), portable_command(&machine))
        .context("cannot write into the run folder")?;
    let started = SystemTime::now();
    // Whoever wants to look on finds the run by this as long as it goes on.
    launch::Live::write(&dir, &ram, plan.accel.accel)?;
    let (outcome, hits, acted) = watch(plan, &machine, &ram)?;
    launch::Live::remove(&dir);
    if outcome.ending == Ending::DiskFull {
        return Err(std::io::Error::from(std::io::ErrorKind::StorageFull).into());
    }

    let status = guest::status(plan.elf, &ram)?;
    let results = Results::read(&status).context("cannot read the guest's results")?;
    let capture = take_capture(plan, &machine, &ram, &machine.dir)?;
    clean_up(&machine, &capture);
    let log_dropped =
        guest::dropped_log(plan.elf, &ram).context("cannot read the guest's memory")?;
    let evidence = Evidence {
        config: &plan.config,
        accel: plan.accel.accel,
        outcome: &outcome,
        results: &results,
        capture: &capture,
        log_dropped,
        hits,
    };
    let verification = match evidence.error() {
        None => verify(plan, &dir, &results)?,
        Some(_) => None,
    };
    let error = evidence
        .error()
        .or_else(|| verification.as_ref()?.error.clone());
    let taint = evidence.taints();
    let last_words = evidence.error().is_some().then(|| {
        let places = places::describe(plan.elf, &ram, &outcome.stood);
        last_words::collect(&dir, plan.elf, state_of(&results), &places)
    });
    let record = RunRecord {
        schema: SCHEMA.into(),
        result: evidence.verdict(error.as_deref(), &taint),
        error,
        is_interrupted: evidence.is_interrupted(),
        taint,
        config: plan.config.clone(),
        event_ids: plan.event_ids.clone(),
        kernel_cmdline: machine.cmdline.clone(),
        accel: plan.accel.clone(),
        git: plan.git.clone(),
        host: host(&outcome),
        clocks: results.clocks(),
        timing: Timing {
            started_unix_s: started
                .duration_since(UNIX_EPOCH)
                .map_or(0, |since| since.as_secs()),
            build_s: plan.build_s,
            run_s: outcome.took.as_secs_f64(),
            measured_ns: results.measured_ns().unwrap_or_default(),
        },
        stop: results.stop_record(),
        hits,
        slots: results.slot_records(),
        trace: trace_record(&results, &capture),
        log_dropped,
        capture,
        cpus: results.cpu_records(),
        threads: results.thread_records(),
        verified: verification.as_ref().map(|it| it.record),
        without_turns: verification.map(|it| it.without_turns).unwrap_or_default(),
        sum: None,
    };
    let mut run = Run {
        record,
        distributions: results.distributions,
    };
    write_record(&dir, &mut run)?;
    if refine(&dir, &mut run) {
        write_record(&dir, &mut run)?;
    }
    drop(ram);
    Ok(Finished {
        run,
        dir: run_folder.publish()?,
        last_words,
        acted,
    })
}

/// A command line with more words behind it, which count where a word is given twice.
#[must_use]
pub fn with_words(line: String, words: &str) -> String {
    match words {
        "" => line,
        words => format!("{line} {words}"),
    }
}

/// Boots the machine and watches it to its end.
fn watch(plan: &Plan<'_>, machine: &Machine, ram: &Ram) -> Result<(Outcome, u64, Result<()>)> {
    let status = guest::status(plan.elf, ram)?;
    let live = Live::new(&plan.config, plan.is_quiet, plan.lines);
    let messages = machine.dir.join(folder::MESSAGES);
    let stands = plan.plugin.as_ref().is_some_and(Plugin::stands);
    let hits = stands.then(|| Hits::new(&machine.dir)).transpose()?;
    let with_plugin = |arguments| match &plan.plugin {
        Some(plugin) => plugin.added_to(
            arguments,
            &machine.dir.join(folder::COUNTED),
            hits.as_ref().map(Hits::paths),
        ),
        None => arguments,
    };
    let process = Process::start_with(machine, with_plugin, &messages)
        .help("see what is there: cargo xtask doctor")?;
    let is_standing = hits.as_ref().map(|hits| &hits.is_standing);
    let monitor = Monitor::new(process, machine, ram, status, Rtt::new(plan.elf, ram));
    let (Some(hits), Some(act)) = (&hits, plan.on_hit) else {
        return Ok((monitor.run(&live, is_standing)?, 0, Ok(())));
    };
    let is_over = AtomicBool::new(false);
    let moment = Moment { plan, machine, ram };
    let bar = live.bar();
    let (outcome, served) = thread::scope(|scope| {
        let serving = scope.spawn(|| -> Result<()> {
            let status = guest::status(plan.elf, ram)?;
            hits.serve(&moment, &status, &is_over, &|moment| {
                bar.suspend(|| act(moment))
            })
        });
        let outcome = monitor.run(&live, is_standing);
        is_over.store(true, Relaxed);
        let served = serving.join();
        let died = |_| Err(anyhow!("what was to be done at a threshold died"));
        (outcome, served.unwrap_or_else(died))
    });
    for path in hits.paths() {
        // Of no use without the run.
        let _ = fs::remove_file(path);
    }
    Ok((outcome?, hits.count(), served))
}

/// Holds every latency against the count of executed instructions, if that was asked for.
fn verify(plan: &Plan<'_>, dir: &Path, results: &Results) -> Result<Option<Verification>> {
    if !plan.plugin.as_ref().is_some_and(Plugin::counts) {
        return Ok(None);
    }
    let measured: Vec<_> = (results.slots.iter().map(|slot| slot.cpu))
        .zip(&results.distributions)
        .collect();
    let is_stopped = results.stop.is_some();
    Verification::of(dir, plan.elf, &plan.config, &measured, is_stopped)
        .context("the latencies cannot be verified")
        .map(Some)
}

/// Makes `trace.bin` and `log.bin` in `dir` of what the guest sent, and of what it has not sent yet.
pub(super) fn take_capture(
    plan: &Plan<'_>,
    machine: &Machine,
    ram: &Ram,
    dir: &Path,
) -> Result<CaptureCount> {
    let head = guest::status(plan.elf, ram)?.head()?;
    // A guest that never said has no records either.
    let tsc_hz = head.map_or(0, |head| head.tsc_hz).max(1);
    let facts = FileFacts::new(plan.elf, tsc_hz, plan.config.smp.into());
    // A guest that died early has no channels, and then there is no rest.
    let rest = Rtt::new(plan.elf, ram)
        .and_then(|rtt| rtt.pending(UP_LOG).ok())
        .unwrap_or_default();
    let rest = Rest {
        log: rest,
        trace: rings::rest(plan.elf, ram).context("cannot read the guest's trace rings")?,
    };
    let mut capture = demux(&machine.capture(), dir, facts, &rest)?;
    capture.lost = guest::lost_frames(plan.elf, ram).context("cannot read the guest's memory")?;
    Ok(capture)
}

/// Takes away what is in other files of the run.
fn clean_up(machine: &Machine, capture: &CaptureCount) {
    if capture.damage == super::frames::Damage::default() {
        // Its frames are in the other two files. A damaged one is kept as evidence.
        let _ = fs::remove_file(machine.capture());
    }
    let messages = machine.dir.join(folder::MESSAGES);
    if fs::metadata(&messages).is_ok_and(|meta| meta.len() == 0) {
        let _ = fs::remove_file(messages);
    }
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

/// Takes the values of large samples, which the guest counts in buckets of 1/256 of them, from the trace. Says whether it
/// did: not where the trace does not have all of them.
fn refine(dir: &Path, run: &mut Run) -> bool {
    let is_rough = |it: &Distributions| !(it.irq.is_exact() && it.thread.is_exact());
    if !run.distributions.iter().any(is_rough) {
        return false;
    }
    // Without a trace it is as it was.
    let Ok(samples) = analysis::measured(dir, run) else {
        return false;
    };
    let clock = TscClock::new(run.record.clocks.tsc_hz);
    let ns = |cycles: u32| clock.ns(cycles.into());
    let mut is_refined = false;
    for (slot, all) in run.record.slots.iter().zip(&mut run.distributions) {
        let own = || samples.iter().filter(|it| it.slot as usize == slot.slot);
        let irq = all.irq.refined(own().filter_map(|it| it.irq).map(ns));
        let thread = all.thread.refined(own().map(|it| ns(it.thread)));
        is_refined |= irq.is_some() || thread.is_some();
        all.irq = irq.unwrap_or_else(|| all.irq.clone());
        all.thread = thread.unwrap_or_else(|| all.thread.clone());
    }
    is_refined
}

fn write_record(dir: &Path, run: &mut Run) -> Result<()> {
    let hist = csv::write(&run.record.slots, &run.distributions);
    run.record.sum = Some(run.record.sum_with(&hist));
    fs::write(dir.join(folder::HIST), hist).context("cannot write hist.csv")?;
    let mut json = serde_json::to_string_pretty(&run.record)?;
    json.push('\n');
    fs::write(dir.join(folder::RECORD), json).context("cannot write run.json")
}

fn host(outcome: &Outcome) -> Host {
    Host {
        cpu: host_cpu(),
        kernel: provenance::host_kernel(),
        qemu: qemu::version().unwrap_or_else(|| "unknown".into()),
        qemu_exit: match outcome.ending {
            Ending::Exited(exit) => exit.to_string(),
            Ending::Silent | Ending::DidNotStop | Ending::DiskFull => "killed".into(),
        },
    }
}

/// The command with names inside the run folder, so that it can be repeated there.
fn portable_command(machine: &Machine) -> String {
    let inside = Machine {
        image: folder::IMAGE.into(),
        ram: "guest.ram".into(),
        dir: PathBuf::new(),
        ..machine.clone()
    };
    format!("{}\n", inside.to_shell())
}
