//! `ci`: what must hold before anything is merged. Every step is run; what failed is said again at
//! the end.

use std::env;
use std::ffi::OsString;
use std::process::{Command, ExitCode};
use std::time::Instant;

use anyhow::{Context, Result};
use console::style;

use crate::paths;

/// One gate.
struct Step {
    name: &'static str,
    /// Cargo's arguments.
    args: &'static str,
    /// A variable for it.
    variable: Option<(&'static str, &'static str)>,
}

const fn step(name: &'static str, args: &'static str) -> Step {
    Step {
        name,
        args,
        variable: None,
    }
}

/// The tests first, as the README has them.
const STEPS: [Step; 9] = [
    step("tests", "xtask test"),
    step("example", "xtask run hello"),
    // Measures what `bench` does and refuses a row above its limit, too.
    step("budgets and limits", "xtask budget check"),
    step("fuzzing", "xtask fuzz --seconds 5"),
    step("format", "fmt --all --check"),
    step(
        "lints",
        "clippy --workspace --all-targets -- --deny warnings",
    ),
    step(
        "lints of the image",
        "clippy --package takt-board --features image --lib -- --deny warnings",
    ),
    Step {
        // For the attribute of functions that are never traced, as when such an image is built.
        variable: Some(("RUSTC_BOOTSTRAP", "1")),
        ..step(
            "lints of the tracers",
            "clippy --package takt-board --features image,latency-tracers,function --lib -- --deny warnings",
        )
    },
    Step {
        variable: Some(("RUSTDOCFLAGS", "--deny warnings")),
        ..step("documentation", "doc --workspace --no-deps")
    },
];

/// Runs every step.
pub(super) fn run() -> Result<ExitCode> {
    let mut failed = Vec::new();
    for step in &STEPS {
        let heading = style(format!("{}:", step.name)).bold().for_stderr();
        eprintln!("{heading} cargo {}", step.args);
        let mut command = Command::new(cargo());
        command
            .args(step.args.split(' '))
            .envs(step.variable)
            .current_dir(paths::workspace());
        let started = Instant::now();
        let status = command.status().context("cannot run cargo")?;
        eprintln!("{heading} {:.0} s", started.elapsed().as_secs_f64());
        if !status.success() {
            failed.push(step.name);
        }
    }
    if failed.is_empty() {
        return Ok(ExitCode::SUCCESS);
    }
    eprintln!(
        "{} failed: {}",
        style("error:").red().bold().for_stderr(),
        failed.join(", ")
    );
    Ok(ExitCode::FAILURE)
}

/// The cargo that runs us, or the one in `PATH`.
pub(super) fn cargo() -> OsString {
    env::var_os("CARGO").unwrap_or_else(|| "cargo".into())
}
