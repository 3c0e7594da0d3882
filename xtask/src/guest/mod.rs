//! Reading the guest's memory.

pub mod log;
pub mod rings;
pub mod rtt;
pub mod trace;

use anyhow::Result;
use takt_timerlat::stats::{Status, StatusView};

use crate::image::Elf;
use crate::qemu::Ram;

/// The status block in `ram`.
///
/// # Errors
///
/// If the image has none.
pub fn status<'r>(elf: &Elf, ram: &'r Ram) -> Result<StatusView<&'r Ram>> {
    Ok(StatusView::new(ram, elf.physical(Status::SYMBOL)?))
}
