//! Reading what a guest has written: its image, its memory and what it sends. Nothing that is read here is trusted.
//!
//! | module | content |
//! |---|---|
//! | [`elf`] | an image's ELF file |
//! | [`symbolize`], [`signature`] | what its debug information says of functions |
//! | [`events`], [`tasks`] | the trace events and the protected tasks of an image |
//! | [`apart`] | whether the files of tasks can be read |
//! | [`ram`] | the guest's RAM as a file |
//! | [`percpu`], [`names`], [`stacks`] | CPUs, threads and stacks in it |
//! | [`rtt`], [`rings`] | the log and the trace in it that were not sent yet |
//! | [`frames`] | the stream that a guest sends |
//! | [`log`](mod@log), [`trace`] | both of them decoded |
//! | [`named`] | values of a set with names, as files have them |
//! | [`patterns`], [`functions`] | which events and functions of an image a pattern means |
//! | [`words`], [`options`], [`syntax`] | what a user types: the kernel's command line, `trace_options`, `tracefs shell` |
//! | [`disassembly`], [`place`] | instructions: as text, and where they stand |
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

pub mod apart;
mod debug_info;
pub mod disassembly;
pub mod elf;
pub mod events;
pub mod frames;
pub mod functions;
pub mod log;
pub mod named;
pub mod names;
pub mod options;
pub mod patterns;
pub mod percpu;
pub mod place;
pub mod ram;
pub mod rings;
pub mod rtt;
pub mod signature;
pub mod stacks;
pub mod symbolize;
pub mod syntax;
pub mod tasks;
pub mod trace;
pub mod words;

pub use elf::Elf;
pub use ram::Ram;

use std::io;

use anyhow::Result;
use takt_timerlat::stats::view::Memory;
use takt_timerlat::stats::{Status, StatusView};

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
