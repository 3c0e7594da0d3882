//! `fuzz`: runs the fuzz targets (`tests/fuzz`), each for a bounded time.
//!
//! libFuzzer on the pinned stable toolchain: the coverage counters are LLVM's own pass, asked for by flags. Everything
//! is below `target/fuzz`:
//!
//! | folder | content |
//! |---|---|
//! | `x86_64-unknown-linux-gnu/fuzz` | `takt-fuzz`, the program with all targets |
//! | `seeds/TARGET` | inputs to begin with, which the target writes itself |
//! | `corpus/TARGET` | inputs that reached something new; the next run goes on from there |
//! | `artifacts/TARGET` | inputs that broke something |
//! | `logs/TARGET.log` | what libFuzzer said last time |

mod build;
mod compiler;
mod run;
mod stats;
mod targets;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Result, anyhow};

use run::{Outcome, fuzz};
use takt_base::term::WithHelp;
use takt_base::{output, paths};
use takt_cli::Fuzz;
use targets::{TARGETS, Target};

/// Runs one target or all. What broke is said again at the end.
pub(super) fn run(flags: &Fuzz) -> Result<ExitCode> {
    if flags.list {
        for target in &TARGETS {
            output::line(format_args!("{:<13} {}", target.name, target.what))?;
        }
        return Ok(ExitCode::SUCCESS);
    }
    let chosen = choose(flags.target.as_deref())?;
    compiler::ensure(!flags.no_install)?;
    let dir = folder();
    build::build(&dir)?;
    output::line(format_args!(
        "{:<13} {:>10} {:>8} {:>14} {:>7} {:>9}  result",
        "target", "executions", "per s", "coverage", "inputs", "memory"
    ))?;
    let mut broken = Vec::new();
    for target in &chosen {
        let outcome = fuzz(&dir, target, flags.seconds)?;
        output::line(format_args!("{}", row(target, &outcome)))?;
        if outcome.reason.is_some() {
            broken.push((target, outcome));
        }
    }
    for (target, outcome) in &broken {
        report(&dir, target, outcome)?;
    }
    Ok(if broken.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

fn choose(name: Option<&str>) -> Result<Vec<&'static Target>> {
    let Some(name) = name else {
        return Ok(TARGETS.iter().collect());
    };
    TARGETS
        .iter()
        .find(|target| target.name == name)
        .map(|target| vec![target])
        .ok_or_else(|| anyhow!("there is no fuzz target `{name}`"))
        .help("cargo xtask fuzz --list")
}

/// The folder of everything about fuzzing.
fn folder() -> PathBuf {
    let target = std::env::var_os("CARGO_TARGET_DIR").map(PathBuf::from);
    paths::workspace()
        .join(target.unwrap_or_else(|| PathBuf::from("target")))
        .join("fuzz")
}

fn row(target: &Target, outcome: &Outcome) -> String {
    let stats = &outcome.stats;
    let coverage = format!("{} -> {}", stats.first_coverage, stats.coverage);
    let memory = format!("{} MiB", stats.peak_mib);
    format!(
        "{:<13} {:>10} {:>8} {coverage:>14} {:>7} {memory:>9}  {}",
        target.name,
        stats.executions,
        stats.per_second,
        stats.inputs,
        outcome.reason.as_deref().unwrap_or("passed")
    )
}

fn report(dir: &Path, target: &Target, outcome: &Outcome) -> Result<()> {
    let program = build::program(dir);
    output::line(format_args!(""))?;
    output::line(format_args!(
        "{}: {}",
        target.name,
        outcome.reason.as_deref().unwrap_or("")
    ))?;
    for line in &outcome.stats.message {
        output::line(format_args!("  {line}"))?;
    }
    output::line(format_args!("  log:       {}", outcome.log.display()))?;
    if let Some(artifact) = &outcome.stats.artifact {
        output::line(format_args!("  input:     {artifact}"))?;
        output::line(format_args!(
            "  reproduce: {}={} {} {artifact}",
            run::CHOICE,
            target.module(),
            program.display()
        ))?;
    }
    Ok(())
}
