//! `report` and `history`: built and carried out by `takt-report`, a program of its own, so that nobody waits for its
//! libraries who only wants to measure.

use std::env;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context, Result, anyhow};

use super::ci::cargo;
use crate::paths;
use crate::term::{WithHelp, note};

const PACKAGE: &str = "takt-report";

/// Becomes `takt-report`, with the same arguments.
pub(super) fn run() -> Result<ExitCode> {
    let program = paths::target().join("release").join(PACKAGE);
    let is_there = program.is_file();
    if !is_there {
        note(format_args!(
            "building {PACKAGE}, this once: SQLite and a plotting library take a minute or two"
        ));
    }
    let mut build = Command::new(cargo());
    build
        .args(["build", "--release", "--package", PACKAGE])
        // Nothing is said when it is up to date.
        .args(is_there.then_some("--quiet"))
        .arg("--target-dir")
        .arg(paths::target())
        .current_dir(paths::workspace())
        .stdin(Stdio::null());
    if !build.status().context("cannot run cargo")?.success() {
        return Err(anyhow!("{PACKAGE} does not build"))
            .help("what is missing stands above; SQLite needs a C compiler: cargo xtask doctor");
    }
    let error = Command::new(&program).args(env::args_os().skip(1)).exec();
    Err(error).with_context(|| format!("cannot run {}", program.display()))
}
