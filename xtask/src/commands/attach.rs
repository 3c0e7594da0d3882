//! `attach`: takes in a run of a machine over a serial line.

use std::fs;
use std::path::Path;
use std::process::ExitCode;
use std::time::SystemTime;

use anyhow::{Context, Result, anyhow};
use takt_timerlat::stats::Status;
use takt_timerlat::stats::machine::Machine;

use super::latency_run::{self, Shown};
use crate::attach::{Image, Receiver, Session};
use crate::cli::{Attach, Parts};
use crate::guest;
use crate::history::Setup;
use crate::image::{Elf, Recipe};
use crate::qemu::Accel;
use crate::qemu::accel::Selected;
use crate::report::Buckets;
use crate::report::judge::{Evidence, state_of};
use crate::report::machine::MachineRecord;
use crate::report::record::Host;
use crate::report::text::Detail;
use crate::run::collect::Results;
use crate::run::conclude::{Facts, conclude};
use crate::run::config::event_ids;
use crate::run::demux::{FileFacts, Rest, demux};
use crate::run::monitor::Ending;
use crate::run::{Finished, RunConfig, RunFolder, folder, last_words, provenance, words};
use crate::{image, output, paths};

/// The sound frames of trace and log, until they are in files of their own.
const CAPTURE: &str = "capture.bin";
/// Lines that are shown of what a machine wrote that has not come far.
const LINES: usize = 20;

/// Takes in a run and reports on it.
pub(super) fn run(flags: &Attach) -> Result<ExitCode> {
    if let Some(output) = &flags.output {
        folder::check_free(output, flags.force)?;
    }
    if let Some(file) = &flags.json {
        output::check_writable(file)?;
    }
    let finished = take(flags)?;
    let (run, dir) = (&finished.run, &finished.dir);
    if !flags.no_history {
        let setup = Setup {
            image: flags.image.as_ref().map(|path| path.display().to_string()),
            ..Setup::default()
        };
        latency_run::keep_in(flags.history.as_deref(), run, dir, setup);
    }
    let shown = Shown {
        detail: Detail::of(flags.quiet, flags.verbose),
        buckets: Buckets::default(),
        parts: Parts::default(),
        is_analysis_only: false,
        has_cause: true,
        json: flags.json.as_deref(),
    };
    let code = latency_run::report_as(shown, run, dir)?;
    latency_run::complain(&finished);
    Ok(code)
}

/// The image: the user's, or that of media as it is built from the sources.
fn elf(flags: &Attach) -> Result<(Elf, f64)> {
    let (elf, build_s) = match &flags.image {
        Some(path) => (Elf::open(path)?, 0.0),
        None => {
            let built = Recipe::takt(flags.verbose).for_media().build()?;
            (Elf::open(&built.path)?, built.took.as_secs_f64())
        }
    };
    elf.symbol(Status::SYMBOL)?;
    Ok((elf, build_s))
}

fn take(flags: &Attach) -> Result<Finished> {
    let (elf, build_s) = elf(flags)?;
    let session = Session {
        device: &flags.serial,
        baud: flags.baud,
        is_listening: flags.listen,
        is_quiet: flags.quiet,
        elf: &elf,
    };
    let port = session.open()?;
    let (output, runs) = (flags.output.as_deref(), paths::runs());
    let run_folder = RunFolder::create(output, flags.force, &runs, "attach")?;
    let dir = run_folder.path().to_owned();
    fs::write(dir.join(folder::IMAGE), &elf.data)
        .context("cannot copy the image into the run folder")?;
    if flags.listen && !flags.quiet {
        tell!(
            "Waiting for a machine at {}, {} baud",
            flags.serial,
            flags.baud
        );
    }
    let image = Image {
        path: elf.path.clone(),
        build_id: elf.build_id().unwrap_or_default(),
        is_named: flags.image.is_some(),
    };
    let mut receiver = Receiver::new(image, &dir, &dir.join(CAPTURE))?;
    let started = SystemTime::now();
    let taken = session.take(port, &mut receiver)?;
    let facts = Facts {
        event_ids: Vec::new(),
        kernel_cmdline: String::new(),
        accel: Selected {
            accel: Accel::Machine,
            why: format!("over {} at {} baud", flags.serial, flags.baud),
        },
        git: match flags.image {
            None => provenance::git_revision(),
            Some(_) => provenance::UNKNOWN.into(),
        },
        host: Host {
            cpu: "unknown".into(),
            kernel: provenance::host_kernel(),
            qemu: "none".into(),
            qemu_exit: match taken.outcome.ending {
                Ending::Exited(exit) => exit.to_string(),
                _ => "not heard".into(),
            },
        },
        started,
        build_s,
        machine: None,
    };
    let (run, last_words) = judge(&elf, &dir, &receiver, &taken, facts)?;
    Ok(Finished {
        run,
        dir: run_folder.publish()?,
        last_words,
        acted: Ok(()),
    })
}

/// Makes the run's files of what has come.
fn judge(
    elf: &Elf,
    dir: &Path,
    receiver: &Receiver,
    taken: &crate::attach::Taken,
    mut facts: Facts,
) -> Result<(crate::report::Run, Option<String>)> {
    let greeting = receiver.greeting().ok_or_else(|| {
        let text = last_words::tail(&dir.join(folder::SERIAL), LINES).join("\n");
        let why = match (receiver.end(), &*text) {
            (Some(_), _) => "the machine ended before it said who it is",
            (None, "") => "the serial line was closed, and nothing had come",
            (None, _) => "the serial line was closed before a machine said who it is",
        };
        match &*text {
            "" => anyhow!(why),
            text => anyhow!("{why}; it wrote:\n{text}"),
        }
    })?;
    let known = words::known(&image::events::table(elf)?);
    let config = RunConfig::from_cmdline(&greeting.command_line, &known);
    let results = Results::read(&guest::status(elf, receiver.ram())?)
        .context("the machine's results cannot be read")?;
    let nr_cpus = greeting.nr_cpus.max(config.smp.into());
    let file = FileFacts::new(elf, greeting.tsc_hz.max(1), nr_cpus);
    let path = dir.join(CAPTURE);
    let mut capture = demux(&path, dir, file, &Rest::default())?;
    capture.damage = receiver.damage(taken.damage);
    capture.lost = receiver.lost();
    fs::remove_file(path).context("cannot clear up")?;
    let evidence = Evidence {
        config: &config,
        accel: Accel::Machine,
        outcome: &taken.outcome,
        results: &results,
        capture: &capture,
        log_dropped: guest::dropped_log(elf, receiver.ram())?,
        hits: 0,
    };
    let last_words = evidence
        .error()
        .map(|_| last_words::collect(dir, elf, state_of(&results), &[]));
    let word = |pair: &&str| pair.starts_with("events=");
    let events = greeting.command_line.split_whitespace().rfind(word);
    let ids = event_ids(events.and_then(|pair| pair.strip_prefix("events=")));
    facts.event_ids = ids.into_iter().collect();
    facts.kernel_cmdline.clone_from(&greeting.command_line);
    if let Ok(at) = elf.physical(Machine::SYMBOL) {
        facts.machine =
            MachineRecord::read(receiver.ram(), at, greeting.tsc_hz, results.cpus.len())
                .context("what the machine says of itself cannot be read")?;
    }
    if let Some(machine) = &facts.machine {
        facts.host.cpu.clone_from(&machine.cpu);
    }
    let run = conclude(dir, facts, &evidence, None)?;
    Ok((run, last_words))
}
