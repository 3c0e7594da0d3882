//! A folder for a server from which machines boot over the network: PXE, by BIOS and by UEFI.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

use super::{Contents, grub};
use takt_base::setup::GrubTools;
use takt_base::tool;

/// Where GRUB and its configuration are in the folder.
const SUBDIR: &str = "boot/grub";
/// What the DHCP server names, by the firmware's kind.
pub const CORES: [(&str, &str); 2] = [
    ("BIOS", "boot/grub/i386-pc/core.0"),
    ("UEFI", "boot/grub/x86_64-efi/core.efi"),
];

/// Fills `dir` by `grub-mknetdir`.
///
/// # Errors
///
/// What it said if it fails.
pub fn write(contents: &Contents, tools: &GrubTools, dir: &Path) -> Result<()> {
    let mut mknetdir = Command::new(&tools.mknetdir);
    let mut option = std::ffi::OsString::from("--net-directory=");
    option.push(dir);
    mknetdir
        .arg(option)
        .arg(format!("--subdir={SUBDIR}"))
        .arg(format!("--install-modules={} tftp", grub::MODULES))
        .args(["--fonts=", "--locales=", "--themes="]);
    tool::output(&mut mknetdir).context("cannot make the folder for the network")?;
    contents.write(dir)
}
