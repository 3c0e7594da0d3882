//! Boots a machine and sees it through to the run folder.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering::Release};
use std::thread;
use std::time::SystemTime;

use anyhow::{Context, Result, anyhow};

use super::collect::Results;
use super::conclude::{Facts, conclude};
use super::demux::{CaptureCount, FileFacts, Rest, demux};
use super::follow::{OnCycle, follow};
use super::hits::{Act, Hits, Moment};
use super::live::Live;
use super::monitor::{Ending, Monitor, Outcome, is_disk_full};
use super::{RunConfig, RunFolder, folder, last_words, places, presence, provenance};
use crate::counted::{Plugin, Verification};
use crate::judge::{Evidence, state_of};
use crate::qemu::accel::{Selected, host_cpu};
use crate::qemu::{self, Machine, Process};
use crate::record::{Host, Run};
use crate::run::lines::Lines;

use takt_base::term::WithHelp;
use takt_guest;
use takt_guest::Elf;
use takt_guest::Ram;
use takt_guest::rings;
use takt_guest::rtt::{Rtt, UP_LOG};

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
    /// What is done with each activation as it comes, instead of the live view.
    pub on_cycle: Option<&'p OnCycle<'p>>,
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
    /// What became of what was to be done while it went on: at thresholds, and with each activation.
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
    let run_folder = RunFolder::create(
        plan.output,
        plan.is_forced,
        &takt_base::paths::runs(),
        &name,
    )?;
    let dir = run_folder.path().to_owned();
    let image = folder::put_image(&dir, &plan.elf.data)?;
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
    presence::Live::write(&dir, &ram, plan.accel.accel)?;
    let (outcome, hits, acted) = watch(plan, &machine, &ram)?;
    presence::Live::remove(&dir);
    if outcome.ending == Ending::DiskFull {
        return Err(std::io::Error::from(std::io::ErrorKind::StorageFull).into());
    }

    let status = takt_guest::status(plan.elf, &ram)?;
    let results = Results::read(&status).context("cannot read the guest's results")?;
    let capture = take_capture(plan, &machine, &ram, &machine.dir)?;
    clean_up(&machine, &capture);
    let log_dropped =
        takt_guest::dropped_log(plan.elf, &ram).context("cannot read the guest's memory")?;
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
    let last_words = evidence.error().is_some().then(|| {
        let places = places::describe(plan.elf, &ram, &outcome.stood);
        last_words::collect(&dir, plan.elf, state_of(&results), &places)
    });
    let facts = Facts {
        event_ids: plan.event_ids.clone(),
        kernel_cmdline: machine.cmdline.clone(),
        accel: plan.accel.clone(),
        git: plan.git.clone(),
        host: host(&outcome),
        started,
        build_s: plan.build_s,
        machine: None,
        gaps: Vec::new(),
    };
    let run = conclude(&dir, facts, &evidence, verification)?;
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
    let status = takt_guest::status(plan.elf, ram)?;
    let is_quiet = plan.is_quiet || plan.on_cycle.is_some();
    let live = Live::new(&plan.config, is_quiet, plan.lines);
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
    let is_over = AtomicBool::new(false);
    let moment = Moment { plan, machine, ram };
    let bar = live.bar();
    let serve = hits.as_ref().zip(plan.on_hit).map(|(hits, act)| {
        || -> Result<()> {
            let status = takt_guest::status(plan.elf, ram)?;
            hits.serve(&moment, &status, &is_over, &|moment| {
                bar.suspend(|| act(moment))
            })
        }
    });
    let follow = plan
        .on_cycle
        .map(|on_cycle| || follow(machine, plan.elf, ram, &is_over, on_cycle));
    let (outcome, acted) = thread::scope(|scope| {
        let serving = serve.map(|serve| scope.spawn(serve));
        let following = follow.map(|follow| scope.spawn(follow));
        let outcome = monitor.run(&live, is_standing);
        is_over.store(true, Release);
        let mut acting = serving.into_iter().chain(following);
        let died = |_| Err(anyhow!("what was to be done while the guest ran died"));
        let acted = acting.try_for_each(|thread| thread.join().unwrap_or_else(died));
        (outcome, acted)
    });
    for path in hits.iter().flat_map(Hits::paths) {
        // Of no use without the run.
        let _ = fs::remove_file(path);
    }
    Ok((outcome?, hits.as_ref().map_or(0, Hits::count), acted))
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
    let head = takt_guest::status(plan.elf, ram)?.head()?;
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
    capture.lost =
        takt_guest::lost_frames(plan.elf, ram).context("cannot read the guest's memory")?;
    Ok(capture)
}

/// Takes away what is in other files of the run.
fn clean_up(machine: &Machine, capture: &CaptureCount) {
    if capture.damage == takt_guest::frames::Damage::default() {
        // Its frames are in the other two files. A damaged one is kept as evidence.
        let _ = fs::remove_file(machine.capture());
    }
    let messages = machine.dir.join(folder::MESSAGES);
    if fs::metadata(&messages).is_ok_and(|meta| meta.len() == 0) {
        let _ = fs::remove_file(messages);
    }
}

fn host(outcome: &Outcome) -> Host {
    Host {
        cpu: host_cpu(),
        kernel: provenance::host_kernel(),
        qemu: qemu::version().unwrap_or_else(|| "unknown".into()),
        qemu_exit: match outcome.ending {
            Ending::Exited(exit) => exit.to_string(),
            _ => "killed".into(),
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
