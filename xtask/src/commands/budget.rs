//! `budget`: latency under test.

use std::collections::BTreeMap;
use std::process::{Command, ExitCode};

use anyhow::{Context, Result, bail};

use super::bench;
use crate::budget::file::{FILE, Functions};
use crate::budget::{Budget, compare, figures};
use crate::cli::{Budget as Flags, BudgetCheck, BudgetCommand};
use crate::run::provenance;
use crate::term::WithHelp;
use crate::{EXIT_THRESHOLD, output, paths, setup, term};

/// Everything that has a budget.
type Figures = (BTreeMap<String, u64>, BTreeMap<String, Functions>);

/// Measures, and compares or writes.
pub(super) fn run(flags: &Flags) -> Result<ExitCode> {
    let path = paths::workspace().join(FILE);
    let compiler = compiler()?;
    match &flags.command {
        BudgetCommand::Check(BudgetCheck { json, flags }) => {
            // What is wrong with a file is said before minutes are spent.
            if let Some(file) = json {
                output::check_writable(file)?;
            }
            let budget = Budget::read(&path, &compiler)?;
            setup::ensure_qemu(!flags.no_install)?;
            let (figures, functions) = measure(flags.jobs)?;
            let found = compare::compare(&budget, &figures, &functions);
            if !json.as_deref().is_some_and(output::is_stdout) {
                output::print(&found.text())?;
            }
            if let Some(file) = json {
                output::to_named(file, &found.json(&budget)?)?;
            }
            if !found.is_of_same() {
                return Err(anyhow::anyhow!(
                    "{} is outdated: it has not the figures that are measured",
                    path.display()
                ))
                .help("look at the figures, then: cargo xtask budget update");
            }
            if !found.is_kept() {
                term::note("if that is meant: cargo xtask budget update");
                return Ok(ExitCode::from(EXIT_THRESHOLD));
            }
            if !found.shrunk.is_empty() {
                term::note("what shrank stays so with: cargo xtask budget update");
            }
            Ok(ExitCode::SUCCESS)
        }
        BudgetCommand::Update(flags) => {
            setup::ensure_qemu(!flags.no_install)?;
            // That which is built now, whatever happens to the sources in the minutes to come.
            let revision = provenance::git_revision();
            let (figures, functions) = measure(flags.jobs)?;
            if let Ok(before) = Budget::read(&path, &compiler) {
                let found = compare::compare(&before, &figures, &functions);
                output::print(&found.text())?;
            }
            let nr = figures.len();
            Budget::new(revision, compiler, figures, functions).write(&path)?;
            output::line(format_args!("{nr} figures in {FILE}"))?;
            Ok(ExitCode::SUCCESS)
        }
    }
}

/// The compiler that builds the images.
fn compiler() -> Result<String> {
    let output = Command::new("rustc")
        .arg("--version")
        .current_dir(paths::workspace())
        .output()
        .context("cannot run rustc")?;
    let text = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    if text.is_empty() {
        bail!("rustc does not tell its version");
    }
    Ok(text)
}

fn measure(jobs: Option<u16>) -> Result<Figures> {
    let mut all = BTreeMap::new();
    let bench::Rows {
        values,
        missed,
        functions: of_rows,
    } = bench::rows()?;
    if !missed.is_empty() {
        bail!(
            "above the limit that no budget can raise: {}",
            missed.join(", ")
        );
    }
    for (name, value) in values {
        all.insert(format!("bench.{name}"), value);
    }
    tell!("Sweeping every primitive …");
    let document = super::latency_sweep::primitives(jobs)?;
    if !document.is_complete() {
        bail!("the sweep is not complete; see cargo xtask latency-sweep");
    }
    let (of_sweep, mut functions) = figures::of_sweep(&document);
    all.extend(of_sweep);
    let named = |(name, of_row)| (format!("bench.{name}"), of_row);
    functions.extend(of_rows.into_iter().map(named));
    Ok((all, functions))
}
