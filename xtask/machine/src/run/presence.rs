//! [`Live`]: by what others find a run that goes on.

use std::fs;
use std::os::fd::AsRawFd;
use std::path::Path;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use takt_guest::Ram;

use crate::qemu::Accel;

/// The file in the folder of a run that goes on, by which it is found.
pub const LIVE: &str = "live.json";

/// How to get at the RAM of a running guest: it has no name any more, but a process that has it open.
#[derive(Debug, Serialize, Deserialize)]
pub struct Live {
    /// The process.
    pub pid: u32,
    /// The number under which it has the RAM open.
    pub ram_fd: i32,
    /// What the guest runs under.
    pub accel: Accel,
}

impl Live {
    /// Leaves it in the folder of a run that begins.
    ///
    /// # Errors
    ///
    /// If it cannot be written.
    pub fn write(dir: &Path, ram: &Ram, accel: Accel) -> Result<()> {
        let live = Self {
            pid: std::process::id(),
            ram_fd: ram.file().as_raw_fd(),
            accel,
        };
        fs::write(dir.join(LIVE), serde_json::to_vec(&live)?)
            .context("cannot write into the run folder")
    }

    /// Takes it away: the run is over.
    pub fn remove(dir: &Path) {
        // If it is not there, nobody finds the run, which is what is wanted.
        let _ = fs::remove_file(dir.join(LIVE));
    }
}
