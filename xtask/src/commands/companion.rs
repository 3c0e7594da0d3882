//! `report` and `history`: built and carried out by `takt-report`, a program of its own, so that nobody waits for its
//! libraries who only wants to measure. It is built as xtask is, so that what both are made of is there by then.

use std::env;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

use anyhow::{Context, Result};

use takt_base::setup::build::{Package, Profile, bring_up_to_date};

const PACKAGE: Package = Package {
    name: "takt-report",
    profile: Profile::Dev,
    file: "takt-report",
    first: "its plotting library takes up to a minute",
    takes: "up to a minute",
    needs: "cargo xtask doctor says whether all is there",
};

/// Becomes `takt-report`, with the same arguments and the same name.
pub(super) fn run() -> Result<ExitCode> {
    let program = bring_up_to_date(&PACKAGE)?;
    let mut words = env::args_os();
    // By its name advice names commands: `cargo xtask` or `takt`.
    let called = words.next().unwrap_or_else(|| PACKAGE.file.into());
    let error = Command::new(&program).arg0(called).args(words).exec();
    Err(error).with_context(|| format!("cannot run {}", program.display()))
}
