//! Building another package of the workspace when it is first needed, so that nobody waits for it who does not need it.

use std::io;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow};

use crate::paths;
use crate::term::{WithHelp, note};

/// How long cargo may take before it is said that it builds.
const SILENCE: Duration = Duration::from_secs(2);
const TICK: Duration = Duration::from_millis(20);

/// What is built.
#[derive(Clone, Copy, Debug)]
pub struct Package {
    /// The package's name.
    pub name: &'static str,
    /// How it is built.
    pub profile: Profile,
    /// The file that comes of it.
    pub file: &'static str,
    /// What is said when it is built for the first time, behind its name.
    pub first: &'static str,
    /// How long it takes when much has changed.
    pub takes: &'static str,
    /// What it may be that is missing.
    pub needs: &'static str,
}

/// A profile of cargo's.
#[derive(Clone, Copy, Debug)]
pub enum Profile {
    /// That of xtask: what it has in common with xtask is there already, if cargo has built that.
    Dev,
    /// For what has to be fast.
    Release,
}

impl Profile {
    /// Its name, and that of its folder.
    fn names(self) -> (&'static str, &'static str) {
        match self {
            Self::Dev => ("dev", "debug"),
            Self::Release => ("release", "release"),
        }
    }
}

/// Builds a package if it is not up to date; where its file is.
///
/// # Errors
///
/// If it does not build.
pub fn bring_up_to_date(package: &Package) -> Result<PathBuf> {
    let (profile, folder) = package.profile.names();
    let file = paths::target().join(folder).join(package.file);
    let is_there = file.is_file();
    if !is_there {
        note(format_args!(
            "building {}, this once: {}",
            package.name, package.first
        ));
    }
    let mut build = Command::new(paths::cargo());
    build.args(["build", "--profile", profile, "--package", package.name]);
    if matches!(package.profile, Profile::Dev) {
        // With the features of xtask's libraries, so that they are there if cargo has built xtask.
        build.args(["--package", "xtask", "--bin", package.file]);
    }
    build
        // Errors are said all the same.
        .arg("--quiet")
        .arg("--target-dir")
        .arg(paths::target())
        .current_dir(paths::workspace())
        .stdin(Stdio::null());
    let mut build = build.spawn().context("cannot run cargo")?;
    let status = match is_there {
        true => wait_quietly(build, package),
        false => build.wait(),
    };
    if !status.context("cannot wait for cargo")?.success() {
        return Err(anyhow!("{} does not build", package.name))
            .help(format!("what is missing stands above; {}", package.needs));
    }
    Ok(file)
}

/// Waits for the end of a cargo that says nothing itself. That it has much to do is said.
fn wait_quietly(mut build: Child, package: &Package) -> io::Result<ExitStatus> {
    let started = Instant::now();
    while started.elapsed() < SILENCE {
        if let Some(status) = build.try_wait()? {
            return Ok(status);
        }
        thread::sleep(TICK);
    }
    note(format_args!(
        "bringing {} up to date, which takes {} if much has changed",
        package.name, package.takes
    ));
    build.wait()
}
