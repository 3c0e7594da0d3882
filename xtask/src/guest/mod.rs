//! Reading the guest's memory.

pub mod log;
pub mod rings;
pub mod rtt;
pub mod trace;

use std::io;

use anyhow::Result;
use takt_timerlat::stats::view::Memory;
use takt_timerlat::stats::{Status, StatusView};

use crate::image::Elf;
use crate::qemu::Ram;

/// Where the guest counts the frames that it could not get rid of.
const LOST_FRAMES: &str = "TAKT_LOST_FRAMES";

/// Frames that the guest could not get rid of; none if the image does not count them.
///
/// # Errors
///
/// If the memory cannot be read.
pub fn lost_frames(elf: &Elf, ram: &Ram) -> io::Result<u64> {
    let Ok(address) = elf.physical(LOST_FRAMES) else {
        return Ok(0);
    };
    let mut count = [0; 4];
    ram.read_exact_at(address, &mut count)?;
    Ok(u32::from_le_bytes(count).into())
}

/// The status block in `ram`.
///
/// # Errors
///
/// If the image has none.
pub fn status<'r>(elf: &Elf, ram: &'r Ram) -> Result<StatusView<&'r Ram>> {
    Ok(StatusView::new(ram, elf.physical(Status::SYMBOL)?))
}
