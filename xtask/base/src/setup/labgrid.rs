//! labgrid, in whose environment of `docs/lab` the tests have a machine.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, bail};

use super::install::install;
use crate::paths;
use crate::term::{last_lines, note};

/// What is installed, into a folder of its own.
const PACKAGES: [&str; 2] = ["labgrid==26.0.1", "pytest==9.2.0"];

/// What an error says if the packages cannot be had, which is no fault of ours.
pub const UNAVAILABLE: &str = "labgrid could not be had from Python's package index";

/// Makes sure that labgrid and pytest are there, in a virtual environment among the build's files; gives pytest. As
/// [`ensure_qemu`](super::ensure_qemu).
///
/// # Errors
///
/// If they are missing in the end.
pub fn ensure_labgrid(may_install: bool) -> Result<PathBuf> {
    let dir = paths::target().join("labgrid");
    let pytest = dir.join("bin/pytest");
    let is_there = |module: &str| {
        let mut python = Command::new(dir.join("bin/python"));
        let output = python.args(["-c", &format!("import {module}")]).output();
        output.is_ok_and(|it| it.status.success())
    };
    if is_there("labgrid, pytest") {
        return Ok(pytest);
    }
    if !may_install {
        bail!("{UNAVAILABLE}: nothing may be installed");
    }
    let make = || {
        let mut python = Command::new("python3");
        let output = python.args(["-m", "venv"]).arg(&dir).output();
        output.is_ok_and(|it| it.status.success())
    };
    if !make() {
        install(
            "python3 with venv",
            "Python 3 with its module venv",
            true,
            |manager| manager.python,
        )?;
        if !make() {
            bail!("python3 makes no virtual environment at {}", dir.display());
        }
    }
    note(format_args!(
        "installing {} into {}",
        PACKAGES.join(" and "),
        paths::shown(&dir)
    ));
    let mut pip = Command::new(dir.join("bin/pip"));
    pip.args(["install", "--quiet", "--disable-pip-version-check"]);
    let output = pip
        .args(PACKAGES)
        .output()
        .context("cannot run the virtual environment's pip")?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        bail!("{UNAVAILABLE}:\n{}", last_lines(&said, 3).join("\n"));
    }
    Ok(pytest)
}
