//! `attach`: takes in a run of a machine over a serial line.

use std::fs;
use std::path::Path;
use std::process::ExitCode;
use std::time::SystemTime;

use anyhow::{Context, Result, anyhow};
use takt_timerlat::stats::Status;
use takt_timerlat::stats::machine::Machine;

use super::latency_run::{self, Shown};
use takt_attach::{Greeting, Image, Receiver, Session, Taken};
use takt_base::{EXIT_ERROR, EXIT_INTERRUPTED, output, paths, term};
use takt_cli::Attach;
use takt_guest;
use takt_guest::Elf;
use takt_guest::words;
use takt_image::Recipe;
use takt_machine::gaps;
use takt_machine::hardware::MachineRecord;
use takt_machine::judge::{self, Evidence, state_of};
use takt_machine::qemu::Accel;
use takt_machine::qemu::accel::Selected;
use takt_machine::record::Host;
use takt_machine::run::collect::Results;
use takt_machine::run::conclude::{Facts, conclude};
use takt_machine::run::config::event_ids;
use takt_machine::run::demux::{CaptureCount, FileFacts, Rest, demux};
use takt_machine::run::monitor::Ending;
use takt_machine::run::{Finished, RunConfig, RunFolder, boot, folder, last_words, provenance};
use takt_machine::said::Detail;
use takt_results::Buckets;
use takt_results::history::Setup;
use takt_results::text::Parts;

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
    let (elf, build_s) = elf(flags)?;
    let measures = elf.symbol(Status::SYMBOL);
    if measures.is_err() && flags.json.is_none() {
        return show_boot(&elf, take(flags, &elf, false)?);
    }
    measures?;
    let finished = report_on(flags, &elf, build_s)?;
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
    Ok(match &flags.image {
        Some(path) => (Elf::open(path)?, 0.0),
        None => {
            let built = Recipe::takt(flags.verbose).for_media().build()?;
            (Elf::open(&built.path)?, built.took.as_secs_f64())
        }
    })
}

/// What came over the line, before anything is made of it.
struct Came {
    run_folder: RunFolder,
    receiver: Receiver,
    taken: Taken,
    started: SystemTime,
}

fn take(flags: &Attach, elf: &Elf, measures: bool) -> Result<Came> {
    let session = Session {
        device: &flags.serial,
        baud: flags.baud,
        is_listening: flags.listen,
        is_quiet: flags.quiet,
        elf,
        measures,
    };
    let port = session.open()?;
    let (output, runs) = (flags.output.as_deref(), paths::runs());
    let run_folder = RunFolder::create(output, flags.force, &runs, "attach")?;
    let dir = run_folder.path().to_owned();
    folder::put_image(&dir, &elf.data)?;
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
    Ok(Came {
        run_folder,
        receiver,
        taken,
        started,
    })
}

/// Takes the run of an image that measures in, and makes its report.
fn report_on(flags: &Attach, elf: &Elf, build_s: f64) -> Result<Finished> {
    let came = take(flags, elf, true)?;
    let (dir, taken) = (came.run_folder.path().to_owned(), &came.taken);
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
        started: came.started,
        build_s,
        machine: None,
        gaps: Vec::new(),
    };
    let (run, last_words) = judge(elf, &dir, &came.receiver, taken, facts)?;
    Ok(Finished {
        run,
        dir: came.run_folder.publish()?,
        last_words,
        acted: Ok(()),
    })
}

/// Shows what an image that measures nothing has sent: log, trace, how it ended.
fn show_boot(elf: &Elf, came: Came) -> Result<ExitCode> {
    let (dir, receiver) = (came.run_folder.path(), &came.receiver);
    let greeting = greeting(dir, receiver)?;
    let capture = apart(elf, dir, receiver, &came.taken, greeting.nr_cpus)?;
    let outcome = &came.taken.outcome;
    let (end, code) = match outcome.ending {
        _ if outcome.is_interrupted => (
            "interrupted: the machine goes on".to_owned(),
            EXIT_INTERRUPTED,
        ),
        Ending::Exited(exit) => (exit.to_string(), boot::exit_code(exit)),
        ending => (judge::of_line(ending).unwrap_or_default(), EXIT_ERROR),
    };
    let losses = judge::losses(&capture, 0);
    let record = boot::Record {
        end: end.clone(),
        kernel_cmdline: &greeting.command_line,
        tsc_hz: greeting.tsc_hz,
        log_dropped: 0,
        capture: &capture,
    };
    record.write(dir)?;
    let dir = came.run_folder.publish()?;
    let shown = super::run::show(elf, &dir, false);
    tell!("{end}; run folder {}", paths::shown(&dir));
    losses.iter().for_each(term::note);
    shown?;
    Ok(ExitCode::from(match code {
        0 if !losses.is_empty() => boot::EXIT_TAINTED,
        code => code,
    }))
}

/// Who has sent.
///
/// # Errors
///
/// If nobody has said it: what was heard instead.
fn greeting<'r>(dir: &Path, receiver: &'r Receiver) -> Result<&'r Greeting> {
    receiver.greeting().ok_or_else(|| {
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
    })
}

/// Makes the files of trace and log of what has come.
fn apart(
    elf: &Elf,
    dir: &Path,
    receiver: &Receiver,
    taken: &Taken,
    nr_cpus: u32,
) -> Result<CaptureCount> {
    let tsc_hz = receiver.greeting().map_or(1, |it| it.tsc_hz.max(1));
    let file = FileFacts::new(elf, tsc_hz, nr_cpus);
    let path = dir.join(CAPTURE);
    let mut capture = demux(&path, dir, file, &Rest::default())?;
    capture.damage = receiver.damage(taken.damage);
    capture.lost = receiver.lost();
    fs::remove_file(path).context("cannot clear up")?;
    Ok(capture)
}

/// Makes the run's files of what has come.
fn judge(
    elf: &Elf,
    dir: &Path,
    receiver: &Receiver,
    taken: &Taken,
    mut facts: Facts,
) -> Result<(takt_machine::record::Run, Option<String>)> {
    let greeting = greeting(dir, receiver)?;
    let known = words::known(&takt_guest::events::table(elf)?);
    let config = RunConfig::from_cmdline(&greeting.command_line, &known);
    let results = Results::read(&takt_guest::status(elf, receiver.ram())?)
        .context("the machine's results cannot be read")?;
    let nr_cpus = greeting.nr_cpus.max(config.smp.into());
    let capture = apart(elf, dir, receiver, taken, nr_cpus)?;
    let evidence = Evidence {
        config: &config,
        accel: Accel::Machine,
        outcome: &taken.outcome,
        results: &results,
        capture: &capture,
        log_dropped: takt_guest::dropped_log(elf, receiver.ram())?,
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
    facts.gaps = gaps::read(dir, elf, &greeting.command_line)
        .context("the gaps that were found cannot be read")?;
    if let Some(machine) = &facts.machine {
        facts.host.cpu.clone_from(&machine.cpu);
    }
    let run = conclude(dir, facts, &evidence, None)?;
    Ok((run, last_words))
}
