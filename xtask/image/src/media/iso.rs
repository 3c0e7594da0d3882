//! An ISO file that boots as CD and as USB stick, by BIOS and by UEFI.

use std::process::Command;

use anyhow::{Context, Result, anyhow};

use super::{Contents, grub};
use takt_base::input;
use takt_base::setup::GrubTools;
use takt_base::term::WithHelp;
use takt_base::tool;

/// ISO 9660's volume descriptors begin at the 16th block of 2048 bytes: a type, and these five.
const DESCRIPTOR: usize = 16 * 2048 + 1;
const MAGIC: &[u8] = b"CD001";

/// Whether these are an ISO file's bytes.
#[must_use]
pub fn is_iso(bytes: &[u8]) -> bool {
    bytes
        .get(DESCRIPTOR..)
        .is_some_and(|at| at.starts_with(MAGIC))
}

/// The bytes of the ISO file, by `grub-mkrescue`.
///
/// # Errors
///
/// What it said if it fails.
pub fn make(contents: &Contents, tools: &GrubTools) -> Result<Vec<u8>> {
    let scratch = takt_base::scratch::folder()?;
    let (root, file) = (scratch.path().join("root"), scratch.path().join("iso"));
    contents.write(&root)?;
    let mut mkrescue = Command::new(&tools.mkrescue);
    mkrescue
        .arg("--output")
        .arg(&file)
        .arg(format!("--install-modules={}", grub::MODULES))
        .args(["--fonts=", "--locales=", "--themes="])
        .arg(&root)
        .args(["--", "-volid", "TAKT"]);
    let said = tool::output(&mut mkrescue).context("cannot make the ISO file")?;
    match input::read(&file) {
        Ok(bytes) if is_iso(&bytes) => Ok(bytes),
        _ => Err(anyhow!(
            "{} was content, and yet there is no ISO file: {}",
            tools.mkrescue.display(),
            said.trim()
        ))
        .help("see whether what it calls is whole: xorriso --version, mformat --version"),
    }
}
