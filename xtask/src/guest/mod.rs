//! Reading the guest's memory.

pub mod log;
pub mod names;
pub mod percpu;
pub mod rings;
pub mod rtt;
pub mod stacks;

pub mod trace;

use std::io;

use anyhow::Result;
use takt_timerlat::stats::view::Memory;
use takt_timerlat::stats::{Status, StatusView};

use crate::image::Elf;
use crate::qemu::Ram;

/// Frames that the guest could not get rid of; none if the image does not count them.
///
/// # Errors
///
/// If the memory cannot be read.
pub fn lost_frames(elf: &Elf, ram: &Ram) -> io::Result<u64> {
    counter(elf, ram, "TAKT_LOST_FRAMES")
}

/// Log messages that found no room in the guest; none if the image does not count them.
///
/// # Errors
///
/// If the memory cannot be read.
pub fn dropped_log(elf: &Elf, ram: &Ram) -> io::Result<u64> {
    counter(elf, ram, "TAKT_LOG_DROPPED")
}

/// The counter of 32 bits under a symbol; 0 if the image has none.
fn counter(elf: &Elf, ram: &Ram, symbol: &str) -> io::Result<u64> {
    let Ok(address) = elf.physical(symbol) else {
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
