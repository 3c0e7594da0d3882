//! `compare`: another system beside ours, from one call.

use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result, bail, ensure};
use clap::Parser;
use console::style;

use super::latency_run;
use takt_base::{output, paths, setup, term};
use takt_cli::{Cli, Command, Compare, CompareCommand, LatencyRun, LinuxRt};
use takt_compare::linux;
use takt_compare::machine::LinuxMachine;
use takt_compare::packages::Packages;
use takt_compare::record::{Comparison, Latencies, Linux, Takt};
use takt_compare::table;
use takt_compare::watch::NOTHING_COMPARED;
use takt_compare::{PRIORITY, Settings, verdict};
use takt_machine::qemu::accel::host_cpu;
use takt_machine::qemu::{self, command};
use takt_machine::record::Verdict;
use takt_machine::run::execute::Finished;
use takt_machine::run::signals::Interrupted;
use takt_machine::run::{RunFolder, folder};
use takt_machine::said::Detail;

/// More activations than this take Linux hours.
const MAX_ACTIVATIONS: u64 = 200_000;
/// timerlat's shortest period.
const MIN_PERIOD_NS: u64 = 100_000;

/// Compares.
pub(super) fn run(flags: &Compare) -> Result<ExitCode> {
    match &flags.command {
        CompareCommand::LinuxRt(flags) => linux_rt(flags),
    }
}

fn linux_rt(flags: &LinuxRt) -> Result<ExitCode> {
    let settings = settings(flags)?;
    if let Some(output) = &flags.output {
        folder::check_free(output, flags.force)?;
    }
    if let Some(file) = &flags.json {
        output::check_writable(file)?;
    }
    setup::ensure_qemu(!flags.no_install)?;
    let kept = flags.packages.clone().unwrap_or_else(paths::linux_rt);
    let packages = Packages::get(
        &kept,
        flags.packages.is_some(),
        flags.kernel.as_deref(),
        !flags.no_install,
    )?;
    if !flags.quiet {
        let (name, version) = (&packages.kernel.name, &packages.kernel.version);
        let seconds = linux::estimate_s(&settings);
        let how_long = match seconds {
            0..100 => format!("{seconds} s"),
            _ => format!("{} min", seconds.div_ceil(60)),
        };
        term::note(format_args!(
            "Takt first, then Linux ({name} {version}), which takes some {how_long} of real time"
        ));
    }

    let run_folder = RunFolder::create(
        flags.output.as_deref(),
        flags.force,
        &paths::runs(),
        "compare",
    )?;
    // Linux is unpacked first: a package that is not what it should be is said at once.
    let linux = linux::Linux::unpack(&packages, run_folder.path(), !flags.no_install)?;
    let mut comparison = Comparison::new(
        settings,
        qemu::version().unwrap_or_else(|| "unknown".into()),
        host_cpu(),
    );
    let last_words = measure(flags, &packages, &linux, run_folder.path(), &mut comparison)?;
    drop(linux);
    comparison.result = comparison.judge();
    let document = output::json(&comparison)?;
    fs::write(run_folder.path().join(folder::COMPARISON), &document)
        .with_context(|| format!("cannot write {}", folder::COMPARISON))?;
    let dir = run_folder.publish()?;
    report(flags, &comparison, &document, &dir)?;
    if let (Some(error), Some(words)) = (&comparison.error, last_words) {
        tell!("{} {error}", style("error:").red().bold().for_stderr());
        tell!("last heard of it:\n{}", words.trim_end());
        tell!("help: everything is in {}", paths::shown(&dir));
    }
    Ok(ExitCode::from(comparison.result.exit_code()))
}

fn settings(flags: &LinuxRt) -> Result<Settings> {
    let settings = Settings {
        period_ns: flags.period,
        duration_ns: flags.duration,
        warm_up_ns: flags.warm_up,
        load: flags.load.into(),
    };
    ensure!(
        settings.period_ns >= MIN_PERIOD_NS && settings.period_ns.is_multiple_of(1000),
        "Linux's timerlat has periods of whole µs, from 100 on"
    );
    ensure!(
        settings.duration_ns >= settings.period_ns,
        "the duration is shorter than one period: nothing would be measured"
    );
    ensure!(
        settings.activations() <= MAX_ACTIVATIONS,
        "{} activations would take Linux hours under icount: {MAX_ACTIVATIONS} at most",
        settings.activations()
    );
    Ok(settings)
}

/// Has both measured, and takes in what comes of it; gives the last words of the one that failed.
fn measure(
    flags: &LinuxRt,
    packages: &Packages,
    linux: &linux::Linux,
    dir: &Path,
    comparison: &mut Comparison,
) -> Result<Option<String>> {
    let timerlat = takt(flags, dir, "timerlat")?;
    let cyclictest = takt(flags, dir, "cyclictest")?;
    comparison.takt = Takt {
        git: timerlat.run.record.git.clone(),
        ram_mib: command::RAM_MIB,
        took_s: timerlat.run.record.timing.run_s + cyclictest.run.record.timing.run_s,
        latencies: Latencies::default(),
    };
    for finished in [&timerlat, &cyclictest] {
        let record = &finished.run.record;
        let workload = record.config.workload;
        if record.result == Verdict::Error {
            let why = record.error.as_deref().unwrap_or("no result");
            comparison.error = Some(format!("Takt's {workload}: {why}"));
            return Ok(finished.last_words.clone());
        }
        let taint = record
            .taint
            .iter()
            .map(|why| format!("Takt's {workload}: {why}"));
        comparison.taint.extend(taint);
    }
    let of_takt = timerlat
        .run
        .distributions
        .first()
        .cloned()
        .unwrap_or_default();
    let threads = cyclictest
        .run
        .distributions
        .first()
        .cloned()
        .unwrap_or_default()
        .thread;
    comparison.takt.latencies = Latencies::of(&of_takt, &threads);

    let finished = linux::run(linux, comparison.settings, &dir.join("linux"), flags.quiet)?;
    comparison.linux = Linux {
        version: finished.version,
        packages: packages
            .all()
            .cloned()
            .map(|mut package| {
                // Where it lies on this machine is nobody's business elsewhere.
                package.file = package.file.file_name().map(Into::into).unwrap_or_default();
                package
            })
            .collect(),
        arguments: LinuxMachine::ARGUMENTS,
        ram_mib: LinuxMachine::ram_mib(&comparison.settings),
        booted_ns: finished.booted_ns,
        took_s: finished.took.as_secs_f64(),
        latencies: Latencies::default(),
    };
    match finished.measured {
        Ok(measured) => {
            comparison.limits = verdict::limits(
                (&of_takt, &threads),
                (&measured.timerlat, &measured.cyclictest),
            );
            comparison.linux.latencies = Latencies::of(&measured.timerlat, &measured.cyclictest);
            comparison.taint.extend(measured.taint);
            Ok(None)
        }
        Err(error) => {
            comparison.error = Some(error);
            Ok(Some(finished.last_words))
        }
    }
}

/// One of Takt's two runs, into a folder of its own.
fn takt(flags: &LinuxRt, dir: &Path, workload: &str) -> Result<Finished> {
    let flags = latency_flags(flags, dir, workload)?;
    let finished = latency_run::measure(&flags, flags.config()?, None)?;
    if finished.run.record.is_interrupted {
        bail!(Interrupted(NOTHING_COMPARED));
    }
    Ok(finished)
}

/// What one would type for it. timerlat records its two samples, as Linux's does, and cyclictest nothing.
fn latency_flags(flags: &LinuxRt, dir: &Path, workload: &str) -> Result<LatencyRun> {
    let is_timerlat = workload == "timerlat";
    let [command, period, priority, events] = match is_timerlat {
        true => ["latency-run", "--period", "--priority", "timerlat"],
        false => ["cyclictest", "--interval", "--prio", "none"],
    };
    let load = takt_timerlat::config::Load::from(flags.load).to_string();
    let mut words: Vec<OsString> = ["xtask", command, "--accel", "tcg"].map(Into::into).into();
    for (flag, value) in [
        (
            period,
            format!("{}.{:03}", flags.period / 1000, flags.period % 1000),
        ),
        ("--duration", format!("{}ns", flags.duration)),
        (priority, PRIORITY.to_string()),
        ("--load", load),
        ("--event", events.into()),
    ] {
        words.extend([flag.into(), value.into()]);
    }
    words.extend([
        "--output".into(),
        dir.join(format!("takt-{workload}")).into(),
    ]);
    if let Some(image) = &flags.image {
        words.extend(["--image".into(), image.into()]);
    }
    for (flag, is_set) in [("--quiet", flags.quiet), ("--no-install", flags.no_install)] {
        words.extend(is_set.then(|| flag.into()));
    }
    // As Linux's: in user space.
    words.extend((!is_timerlat && flags.image.is_none()).then(|| "--user-threads".into()));
    if is_timerlat {
        words.extend(["--warm-up".into(), format!("{}ns", flags.warm_up).into()]);
    }
    let measurement = match Cli::try_parse_from(words)?.command {
        Command::LatencyRun(flags) => *flags,
        Command::Cyclictest(flags) => flags.measurement()?,
        _ => bail!("these are the words of another command"),
    };
    Ok(LatencyRun {
        verbose: flags.verbose,
        ..measurement
    })
}

fn report(flags: &LinuxRt, comparison: &Comparison, document: &str, dir: &Path) -> Result<()> {
    if !flags.json.as_deref().is_some_and(output::is_stdout) {
        let detail = Detail::of(flags.quiet, flags.verbose);
        let width = term::width().min(120);
        output::print(&table::write(comparison, dir, detail, width))?;
    }
    match &flags.json {
        Some(file) => output::to_named(file, document),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flags(words: &str) -> Result<LinuxRt> {
        let words = ["xtask", "compare", "linux-rt"]
            .into_iter()
            .chain(words.split_whitespace());
        match Cli::try_parse_from(words)?.command {
            Command::Compare(Compare {
                command: CompareCommand::LinuxRt(flags),
            }) => Ok(flags),
            _ => unreachable!(),
        }
    }

    #[test]
    fn takt_measures_what_linux_measures() {
        let flags = flags("-p 500 -d 2s --load mix").unwrap();
        let config = |workload| {
            let flags = latency_flags(&flags, Path::new("/d"), workload).unwrap();
            assert_eq!(
                flags.output.as_deref(),
                Some(&*Path::new("/d").join(format!("takt-{workload}")))
            );
            flags.config().unwrap()
        };
        let timerlat = config("timerlat");
        assert_eq!(
            (timerlat.period_ns, timerlat.duration_ns),
            (500_000, 2_000_000_000)
        );
        assert_eq!((timerlat.warm_up_ns, timerlat.priority), (100_000_000, 95));
        assert_eq!(timerlat.events, ["timerlat"]);
        assert_eq!(timerlat.load, takt_timerlat::config::Load::Mix);
        let cyclictest = config("cyclictest");
        assert_eq!((cyclictest.warm_up_ns, cyclictest.threads), (0, Some(1)));
        assert_eq!(cyclictest.events, ["none"]);
    }

    #[test]
    fn what_linux_cannot_do_is_refused() {
        for words in ["-p 99", "-p 100.5", "-p 2000 -d 1ms", "-d 1h"] {
            assert!(settings(&flags(words).unwrap()).is_err(), "{words}");
        }
        assert!(flags("--load irq").is_err());
        assert!(settings(&flags("-p 100 -d 20s").unwrap()).is_ok());
    }
}
