//! The trace events of an image.

use anyhow::Result;

use super::Elf;
use crate::run::events::Known;

/// All events that the image declares.
///
/// # Errors
///
/// If their descriptions cannot be read.
pub fn known(_elf: &Elf) -> Result<Vec<Known>> {
    Ok(Vec::new())
}
