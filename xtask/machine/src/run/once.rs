//! [`Folder`]: boots an image under icount and waits for its end; nothing is kept.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;
use std::{fs, thread};

use anyhow::{Context, Result, bail};
use takt_guest::{Elf, Ram};

use super::config::clock_keys;
use crate::qemu::{Accel, GuestExit, Machine, Process, Served};

/// How long a boot may take; time for which the host was busy with others does not count.
const LIMIT: Duration = Duration::from_secs(120);

/// A folder for what guests write, gone in the end.
#[derive(Debug)]
pub struct Folder(PathBuf);

/// A guest that has ended well.
#[derive(Debug)]
pub struct Booted {
    /// Its memory.
    pub ram: Ram,
    /// What it wrote to the serial port.
    pub serial: String,
}

impl Folder {
    /// One among the temporary ones.
    ///
    /// # Errors
    ///
    /// If it cannot be made.
    pub fn create() -> Result<Self> {
        Ok(Self(takt_base::scratch::folder()?.keep()))
    }

    /// The folder of this name.
    ///
    /// # Errors
    ///
    /// If it cannot be made.
    pub fn create_at(path: PathBuf) -> Result<Self> {
        fs::create_dir_all(&path)
            .with_context(|| format!("cannot make the folder {}", path.display()))?;
        Ok(Self(path))
    }

    /// The frames that the last guest sent.
    #[must_use]
    pub fn capture(&self) -> PathBuf {
        self.0.join("capture.bin")
    }

    /// A file in it.
    #[must_use]
    pub fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// Boots an image under icount and waits for its end.
    ///
    /// # Errors
    ///
    /// If it does not end well.
    pub fn boot(&self, elf: &Elf, cmdline: &str) -> Result<Booted> {
        self.boot_with(elf, cmdline, |arguments| arguments)
    }

    /// The image that counts instructions, on a machine with the device that it measures besides; with QEMU's arguments
    /// changed.
    ///
    /// # Errors
    ///
    /// As [`Folder::boot`].
    pub fn boot_counting(
        &self,
        elf: &Elf,
        change: impl FnOnce(Vec<OsString>) -> Vec<OsString>,
    ) -> Result<Booted> {
        self.boot_with(elf, "capture=off", |mut arguments| {
            arguments.extend(["-device", "edu"].map(Into::into));
            change(arguments)
        })
    }

    /// The same with QEMU's arguments changed.
    ///
    /// # Errors
    ///
    /// As [`Folder::boot`].
    pub fn boot_with(
        &self,
        elf: &Elf,
        cmdline: &str,
        change: impl FnOnce(Vec<OsString>) -> Vec<OsString>,
    ) -> Result<Booted> {
        self.boot_on(1, elf, cmdline, change)
    }

    /// The same on so many CPUs.
    ///
    /// # Errors
    ///
    /// As [`Folder::boot`].
    pub fn boot_on(
        &self,
        smp: u8,
        elf: &Elf,
        cmdline: &str,
        change: impl FnOnce(Vec<OsString>) -> Vec<OsString>,
    ) -> Result<Booted> {
        let ram = Ram::create(&self.0)?;
        let machine = Machine {
            image: elf.path.clone(),
            ram: ram.path().to_owned(),
            dir: self.0.clone(),
            cmdline: format!("{cmdline}{}", clock_keys(Accel::TcgIcount)),
            smp,
            accel: Accel::TcgIcount,
        };
        let mut process = Process::start_with(&machine, change, &self.0.join("messages"))?;
        let served = Served::new(process.id());
        let exit = loop {
            if let Some(status) = process.try_wait()? {
                break GuestExit::from(status);
            }
            if served.has_had(LIMIT) {
                bail!("the image did not end within {} s", LIMIT.as_secs());
            }
            thread::sleep(Duration::from_millis(5));
        };
        let serial = takt_base::input::read_to_string(machine.serial()).unwrap_or_default();
        if exit != GuestExit::Passed {
            bail!("{exit}; the serial port's last words:\n{serial}");
        }
        Ok(Booted { ram, serial })
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // A leftover in the temporary folder does no harm.
        let _ = fs::remove_dir_all(&self.0);
    }
}
