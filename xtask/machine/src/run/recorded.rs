//! What must hold of every file that a run has recorded.

use std::path::Path;

use anyhow::{Result, bail};
use takt_tracer::wire;

use takt_guest::Elf;

/// Refuses a file that was written by another image.
///
/// # Errors
///
/// If it was.
pub fn check_image(sum: u64, elf: &Elf) -> Result<()> {
    if sum != wire::checksum(&elf.data) {
        bail!(
            "byte 24: this was recorded by another image than {}",
            elf.path.display()
        );
    }
    Ok(())
}

/// Bytes of a file, for a message.
#[must_use]
pub fn size(path: &Path) -> u64 {
    path.metadata().map_or(0, |meta| meta.len())
}

/// Refuses a file that ends too early, though between two frames.
///
/// # Errors
///
/// If it does.
pub fn check_end(size: u64, what: &str, found: u64, expected: u64) -> Result<()> {
    if found < expected {
        bail!("byte {size}: the file ends after {found} of the run's {expected} {what}");
    }
    Ok(())
}

/// `1 place`, `2 places`.
#[must_use]
pub fn places(count: u64) -> String {
    format!("{count} place{}", if count == 1 { "" } else { "s" })
}
