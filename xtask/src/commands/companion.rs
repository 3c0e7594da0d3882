//! `report` and `history`: built and carried out by `takt-report`, a program of its own, so that nobody waits for its
//! libraries who only wants to measure.

use std::env;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

use anyhow::{Context, Result};

use crate::setup::build::{Package, bring_up_to_date};

const PACKAGE: Package = Package {
    name: "takt-report",
    file: "takt-report",
    first: "SQLite and a plotting library take some minutes",
    takes: "minutes",
    needs: "SQLite needs a C compiler: cargo xtask doctor",
};

/// Becomes `takt-report`, with the same arguments.
pub(super) fn run() -> Result<ExitCode> {
    let program = bring_up_to_date(&PACKAGE)?;
    let error = Command::new(&program).args(env::args_os().skip(1)).exec();
    Err(error).with_context(|| format!("cannot run {}", program.display()))
}
