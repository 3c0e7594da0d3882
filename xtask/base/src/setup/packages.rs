//! Package managers: which one this system has, and what its words are.

use std::fs::File;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::paths::{self, which};
use crate::term::last_lines;

/// A package manager.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Manager {
    /// Its program.
    pub program: &'static str,
    /// Brings the list of packages up to date, if that is a step of its own.
    refresh: Option<&'static [&'static str]>,
    /// Installs the packages that follow.
    install: &'static [&'static str],
    /// What goes before `install` when nobody is there to try it again: a machine that has just
    /// been started is often busy with its own updates.
    patience: &'static [&'static str],
    /// The package with qemu-system-x86_64.
    pub qemu: &'static str,
    /// The package with fusermount3, by which those who are not root mount.
    pub fuse: &'static str,
    /// The package with a C linker.
    pub linker: &'static str,
    /// The packages with trace-cmd and babeltrace2.
    pub viewers: &'static str,
    /// The package with Chromium.
    pub browser: &'static str,
    /// The package with xz.
    pub xz: &'static str,
    /// The packages with GRUB for BIOS and for UEFI, and what its tools call.
    pub grub: &'static str,
    /// The package with UEFI's firmware for QEMU.
    pub ovmf: &'static str,
    /// The packages with Python 3 and its module venv.
    pub python: &'static str,
    /// The packages with Slurm's daemons and munged.
    pub slurm: &'static str,
}

const MANAGERS: [Manager; 3] = [
    Manager {
        program: "apt-get",
        refresh: Some(&["update"]),
        install: &["install", "-y", "--no-install-recommends"],
        patience: &["-o", "DPkg::Lock::Timeout=60"],
        qemu: "qemu-system-x86",
        fuse: "fuse3",
        linker: "gcc libc6-dev",
        viewers: "trace-cmd babeltrace2",
        browser: "chromium",
        xz: "xz-utils",
        grub: "grub-common grub-pc-bin grub-efi-amd64-bin xorriso mtools",
        ovmf: "ovmf",
        python: "python3-venv",
        slurm: "slurm-wlm",
    },
    Manager {
        program: "dnf",
        refresh: None,
        install: &["install", "-y", "--setopt=install_weak_deps=False"],
        patience: &[],
        qemu: "qemu-system-x86-core",
        fuse: "fuse3",
        linker: "gcc",
        viewers: "trace-cmd babeltrace",
        browser: "chromium",
        xz: "xz",
        grub: "grub2-tools-extra grub2-pc-modules grub2-efi-x64-modules xorriso mtools",
        ovmf: "edk2-ovmf",
        python: "python3-pip",
        slurm: "slurm-slurmctld slurm-slurmd munge",
    },
    Manager {
        program: "pacman",
        refresh: None,
        install: &["-Sy", "--noconfirm", "--needed"],
        patience: &[],
        qemu: "qemu-system-x86",
        fuse: "fuse3",
        linker: "gcc",
        viewers: "trace-cmd babeltrace",
        browser: "chromium",
        xz: "xz",
        grub: "grub libisoburn mtools",
        ovmf: "edk2-ovmf",
        python: "python",
        slurm: "slurm-llnl munge",
    },
];

impl Manager {
    /// The one that this system has.
    #[must_use]
    pub fn find() -> Option<Self> {
        MANAGERS
            .into_iter()
            .find(|manager| which(manager.program).is_some())
    }

    /// The command that installs `packages`, as one would type it without being root.
    #[must_use]
    pub fn to_shell(self, packages: &str) -> String {
        let sudo = if is_root() { "" } else { "sudo " };
        let install = format!(
            "{sudo}{} {} {packages}",
            self.program,
            self.install.join(" ")
        );
        match self.refresh {
            Some(refresh) => format!("{sudo}{} {} && {install}", self.program, refresh.join(" ")),
            None => install,
        }
    }

    /// Installs packages, quietly. Gives the manager's messages if it fails.
    ///
    /// # Errors
    ///
    /// What the manager said.
    pub fn install(self, packages: &str) -> Result<(), String> {
        // Package managers refuse to be two. Where this cannot be asked for, they say so.
        let turn = File::create(paths::target().join(".install-lock"));
        let _turn = turn.and_then(|file| file.lock().map(|()| file));
        let install = |warnings: String| {
            let args = self.patience.iter().chain(self.install).copied();
            let args = args.chain(packages.split_whitespace());
            // A list that could not be had is only a warning, and then the package is not found.
            run_as_root(self.program, args)
                .map(drop)
                .map_err(|said| [said, warnings].join("\n"))
        };
        let refresh = |words: &[&'static str]| run_as_root(self.program, words.iter().copied());
        let Some(words) = self.refresh else {
            return install(String::new());
        };
        if !has_lists() {
            return install(refresh(words)?);
        }
        // The list may be old and name versions that are gone.
        install(String::new()).or_else(|first| {
            refresh(words).and_then(install).map_err(|second| {
                if second.trim().is_empty() {
                    first
                } else {
                    second
                }
            })
        })
    }
}

/// Whether apt has lists of packages at all; images of containers come without.
fn has_lists() -> bool {
    std::fs::read_dir("/var/lib/apt/lists")
        .into_iter()
        .flatten()
        .flatten()
        .any(|entry| entry.file_name().to_string_lossy().contains("_Packages"))
}

/// Whether we are root.
#[must_use]
pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Whether `sudo` works without a password.
#[must_use]
pub fn has_sudo() -> bool {
    which("sudo").is_some()
        && Command::new("sudo")
            .args(["-n", "true"])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()
            .is_ok_and(|status| status.success())
}

/// Runs it and gives what it said on stderr, whether it failed or not.
fn run_as_root<'a>(program: &str, args: impl Iterator<Item = &'a str>) -> Result<String, String> {
    let mut command = if is_root() {
        Command::new("env")
    } else {
        let mut command = Command::new("sudo");
        command.args(["-n", "env"]);
        command
    };
    let output = command
        // Its messages are quoted, so they should be in the language of the rest.
        .args(["DEBIAN_FRONTEND=noninteractive", "LC_ALL=C"])
        .arg(program)
        .args(args)
        .current_dir(Path::new("/"))
        .stdin(Stdio::null())
        .output()
        .map_err(|error| format!("cannot run {program}: {error}"))?;
    let said = String::from_utf8_lossy(&output.stderr);
    let said = last_lines(&said, 6).join("\n");
    if output.status.success() {
        Ok(said)
    } else {
        Err(said)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_manager_can_say_what_it_would_do() {
        for manager in MANAGERS {
            let shell = manager.to_shell(manager.qemu);
            assert!(
                shell.ends_with(manager.qemu) && shell.contains(manager.program),
                "{shell}"
            );
        }
        let apt = MANAGERS[0].to_shell("x");
        assert!(apt.contains("apt-get update && ") && apt.contains("--no-install-recommends x"));
    }
}
