//! `ci`: what must hold before anything is merged. Every step is run; what failed is said again at
//! the end.

use std::env;
use std::ffi::OsString;
use std::process::{Command, ExitCode};

use anyhow::{Context, Result};
use console::style;

use crate::paths;

/// Name, cargo's arguments, a variable.
type Step = (
    &'static str,
    &'static [&'static str],
    Option<(&'static str, &'static str)>,
);

const STEPS: [Step; 4] = [
    ("format", &["fmt", "--all", "--check"], None),
    (
        "lints",
        &[
            "clippy",
            "--workspace",
            "--all-targets",
            "--",
            "-D",
            "warnings",
        ],
        None,
    ),
    (
        "documentation",
        &["doc", "--workspace", "--no-deps"],
        Some(("RUSTDOCFLAGS", "-D warnings")),
    ),
    ("tests", &["xtask", "test"], None),
];

/// Runs every step.
pub(super) fn run() -> Result<ExitCode> {
    let mut failed = Vec::new();
    for (name, args, variable) in STEPS {
        eprintln!(
            "{} cargo {}",
            style(format!("{name}:")).bold().for_stderr(),
            args.join(" ")
        );
        let status = Command::new(cargo())
            .args(args)
            .envs(variable)
            .current_dir(paths::workspace())
            .status()
            .context("cannot run cargo")?;
        if !status.success() {
            failed.push(name);
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
