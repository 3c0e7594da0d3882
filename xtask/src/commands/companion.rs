//! `report` and `history`: built and carried out by `takt-report`, a program of its own, so that nobody waits for its
//! libraries who only wants to measure.

use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitCode, ExitStatus, Stdio};
use std::time::{Duration, Instant};
use std::{env, io, thread};

use anyhow::{Context, Result, anyhow};

use super::ci::cargo;
use crate::paths;
use crate::term::{WithHelp, note};

const PACKAGE: &str = "takt-report";

/// How long cargo may take before it is said that it builds.
const SILENCE: Duration = Duration::from_secs(2);
const TICK: Duration = Duration::from_millis(20);

/// Waits for the end of a cargo that says nothing itself. That it has much to do is said.
fn wait_quietly(mut build: Child) -> io::Result<ExitStatus> {
    let started = Instant::now();
    while started.elapsed() < SILENCE {
        if let Some(status) = build.try_wait()? {
            return Ok(status);
        }
        thread::sleep(TICK);
    }
    note(format_args!(
        "bringing {PACKAGE} up to date, which takes minutes if much has changed"
    ));
    build.wait()
}

/// Becomes `takt-report`, with the same arguments.
pub(super) fn run() -> Result<ExitCode> {
    let program = paths::target().join("release").join(PACKAGE);
    let is_there = program.is_file();
    if !is_there {
        note(format_args!(
            "building {PACKAGE}, this once: SQLite and a plotting library take some minutes"
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
    let mut build = build.spawn().context("cannot run cargo")?;
    let status = match is_there {
        true => wait_quietly(build),
        false => build.wait(),
    };
    if !status.context("cannot wait for cargo")?.success() {
        return Err(anyhow!("{PACKAGE} does not build"))
            .help("what is missing stands above; SQLite needs a C compiler: cargo xtask doctor");
    }
    let error = Command::new(&program).args(env::args_os().skip(1)).exec();
    Err(error).with_context(|| format!("cannot run {}", program.display()))
}
