//! GRUB's tools, its modules for both kinds of firmware, and the one that QEMU does not come with.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use super::install::install;
use crate::paths::which;

/// Names of GRUB's tools: those of most systems, and Fedora's.
const MKRESCUE: [&str; 2] = ["grub-mkrescue", "grub2-mkrescue"];
const MKNETDIR: [&str; 2] = ["grub-mknetdir", "grub2-mknetdir"];

/// What GRUB's tools call.
const HELPERS: [&str; 2] = ["xorriso", "mformat"];

/// GRUB's modules: by BIOS and by UEFI.
const PLATFORMS: [&str; 2] = ["i386-pc", "x86_64-efi"];
const MODULES: [&str; 3] = ["/usr/lib/grub", "/usr/lib/grub2", "/usr/share/grub2"];

/// GRUB's tools that are there.
#[derive(Clone, Debug)]
pub struct GrubTools {
    /// Makes ISO files.
    pub mkrescue: PathBuf,
    /// Makes folders for the network.
    pub mknetdir: PathBuf,
}

/// Makes sure that GRUB's tools are there, its modules for BIOS and UEFI, and what the tools call. As
/// [`ensure_qemu`](super::ensure_qemu).
///
/// # Errors
///
/// If something is missing in the end.
pub fn ensure_grub(may_install: bool) -> Result<GrubTools> {
    if let Some(missing) = missing_grub() {
        install(
            &missing,
            "GRUB for BIOS and UEFI, xorriso and mtools",
            may_install,
            |manager| manager.grub,
        )?;
    }
    let find = |names: [&str; 2]| {
        let found = names.into_iter().find_map(which);
        found.with_context(|| format!("{} was installed, and yet it is not there", names[0]))
    };
    match missing_grub() {
        None => Ok(GrubTools {
            mkrescue: find(MKRESCUE)?,
            mknetdir: find(MKNETDIR)?,
        }),
        Some(missing) => bail!("{missing} was installed, and yet it is not there"),
    }
}

/// UEFI's firmware as one file with its variables.
const OVMF: [&str; 4] = [
    "/usr/share/ovmf/OVMF.fd",
    "/usr/share/edk2/ovmf/OVMF.fd",
    "/usr/share/OVMF/OVMF.fd",
    "/usr/share/qemu/ovmf-x86_64.bin",
];

/// Makes sure that there is UEFI's firmware for QEMU, by which the tests boot media; gives its file. As
/// [`ensure_qemu`](super::ensure_qemu).
///
/// # Errors
///
/// If it is missing in the end.
pub fn ensure_ovmf(may_install: bool) -> Result<PathBuf> {
    let find = || {
        OVMF.into_iter()
            .map(PathBuf::from)
            .find(|file| file.is_file())
    };
    if let Some(file) = find() {
        return Ok(file);
    }
    install("OVMF.fd", "OVMF", may_install, |manager| manager.ovmf)?;
    find().with_context(|| {
        format!("OVMF was installed, and yet none of its files is there: {OVMF:?}")
    })
}

/// The first thing of GRUB's that is missing.
#[must_use]
pub fn missing_grub() -> Option<String> {
    for names in [MKRESCUE, MKNETDIR] {
        if names.into_iter().all(|program| which(program).is_none()) {
            return Some(names[0].into());
        }
    }
    if let Some(helper) = HELPERS.into_iter().find(|program| which(program).is_none()) {
        return Some(helper.into());
    }
    let has = |platform: &str| {
        let has = |dir: &&str| Path::new(dir).join(platform).is_dir();
        MODULES.iter().any(has)
    };
    let platform = PLATFORMS.into_iter().find(|platform| !has(platform))?;
    Some(format!("GRUB for {platform}"))
}
