//! Installing QEMU, FUSE's helper, and the programs that judge exports of traces and reports, when they are missing.

use std::path::PathBuf;

use anyhow::{Context, Result, anyhow, bail};

use super::packages::{Manager, has_sudo, is_root};
use crate::paths::which;
use crate::qemu;
use crate::term::{WithHelp, note};

/// Programs that read the exports of traces.
const VIEWERS: [&str; 2] = ["trace-cmd", "babeltrace2"];

/// Names under which systems have Chromium.
const BROWSERS: [&str; 3] = ["chromium", "chromium-browser", "google-chrome"];

/// Makes sure that there is a QEMU. Installs it with the system's package manager if that needs
/// nobody's password, saying so first; otherwise says what to type.
///
/// # Errors
///
/// If there is none in the end.
pub fn ensure_qemu(may_install: bool) -> Result<()> {
    if qemu::version().is_some() {
        return Ok(());
    }
    if std::env::var_os("TAKT_QEMU").is_some() {
        bail!(
            "TAKT_QEMU is set to `{}`, and that does not run",
            qemu::program().display()
        );
    }
    install(qemu::PROGRAM, "QEMU for x86-64", may_install, |manager| {
        manager.qemu
    })?;
    match qemu::version() {
        Some(_) => Ok(()),
        None => bail!("{} was installed, and yet it does not run", qemu::PROGRAM),
    }
}

/// Makes sure that `trace-cmd` and `babeltrace2` are there, which judge the exports of traces. As [`ensure_qemu`].
///
/// # Errors
///
/// If one of them is missing in the end.
pub fn ensure_viewers(may_install: bool) -> Result<()> {
    let missing = || VIEWERS.into_iter().find(|program| which(program).is_none());
    let Some(program) = missing() else {
        return Ok(());
    };
    install(
        program,
        "trace-cmd and babeltrace2",
        may_install,
        |manager| manager.viewers,
    )?;
    match missing() {
        None => Ok(()),
        Some(program) => bail!("{program} was installed, and yet it is not there"),
    }
}

/// Makes sure that there is a Chromium, in which the tests open reports; gives its program. As [`ensure_qemu`].
///
/// # Errors
///
/// If there is none in the end.
pub fn ensure_browser(may_install: bool) -> Result<PathBuf> {
    if let Some(program) = browser() {
        return Ok(program);
    }
    install(BROWSERS[0], "Chromium", may_install, |manager| {
        manager.browser
    })?;
    browser().context("Chromium was installed, and yet it is not there")
}

/// The Chromium that this machine has.
#[must_use]
pub fn browser() -> Option<PathBuf> {
    BROWSERS.into_iter().find_map(which)
}

/// Makes sure that there is a make, which builds programs in C. As [`ensure_qemu`].
///
/// # Errors
///
/// If there is none in the end.
pub fn ensure_make(may_install: bool) -> Result<()> {
    if which("make").is_some() {
        return Ok(());
    }
    install("make", "make", may_install, |_| "make")
}

/// Makes sure that Slurm's daemons are there, of which the tests make a cluster. As [`ensure_qemu`].
///
/// # Errors
///
/// If they are missing in the end.
pub fn ensure_slurm(may_install: bool) -> Result<()> {
    const PROGRAMS: [&str; 4] = ["slurmctld", "slurmd", "munged", "sbatch"];
    let Some(program) = PROGRAMS.into_iter().find(|it| which(it).is_none()) else {
        return Ok(());
    };
    install(program, "Slurm", may_install, |manager| manager.slurm)
}

/// Makes sure that a program is there which decompresses a kernel: `xz`, `zstd` or `gzip`. As [`ensure_qemu`].
///
/// # Errors
///
/// If it is missing in the end.
pub fn ensure_unpacker(program: &str, may_install: bool) -> Result<()> {
    if which(program).is_some() {
        return Ok(());
    }
    install(program, program, may_install, |manager| match program {
        "xz" => manager.xz,
        "zstd" => "zstd",
        _ => "gzip",
    })
}

/// Installs a package for a program that is missing.
pub(super) fn install(
    program: &str,
    what: &str,
    may_install: bool,
    package: impl Fn(&Manager) -> &'static str,
) -> Result<()> {
    let missing = Err(anyhow!("{program} is missing"));
    let Some(manager) = Manager::find() else {
        return missing.help(format!(
            "install {what}; no package manager known here was found"
        ));
    };
    let package = package(&manager);
    let by_hand = format!("install it: {}", manager.to_shell(package));
    if !may_install || !(is_root() || has_sudo()) {
        return missing.help(by_hand);
    }
    note(format_args!(
        "{program} is missing; installing package {package} with {}",
        manager.program
    ));
    manager
        .install(package)
        .map_err(|said| {
            let said = said.trim().replace('\n', "\n  ");
            anyhow!("{} could not install {package}:\n  {said}", manager.program)
        })
        .help(by_hand)
}

/// Makes sure that we can mount with FUSE: root can by itself, everybody else needs `fusermount3`. As [`ensure_qemu`].
///
/// # Errors
///
/// If it is missing in the end.
pub fn ensure_fuse(may_install: bool) -> Result<()> {
    const HELPER: &str = "fusermount3";
    if is_root() || which(HELPER).is_some() {
        return Ok(());
    }
    install(HELPER, "FUSE 3", may_install, |manager| manager.fuse)
        .context("without fusermount3 only root can mount")
}
