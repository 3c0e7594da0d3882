//! [`Gate`]: the host's side of where a guest under icount stands still ([`takt_tracer::control::gate`]).

use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{CWD, FileType, Mode, OFlags, mknodat};
use takt_tracer::control::gate::{BYTE, PORTS};

use super::command::escape;

/// What a pipe is filled with: not the guest's byte.
const FILL: [u8; 4096] = [!BYTE; 4096];
/// QEMU looks at a full pipe ten times in a millisecond; one that takes longer than this has ended.
const PATIENCE: Duration = Duration::from_secs(20);

/// Three pipes: into the first the guest writes that it has come; at the others, which are full, it stands.
#[derive(Debug)]
pub struct Gate {
    pipes: [File; 3],
    paths: [PathBuf; 3],
}

impl Gate {
    /// Makes the pipes in a folder. The guest will stand at the first that it comes to.
    ///
    /// # Errors
    ///
    /// If they cannot be made.
    pub fn new(dir: &Path) -> Result<Self> {
        let paths = ["came", "first", "second"].map(|name| dir.join(format!("gate-{name}")));
        let open = |path: &PathBuf| -> io::Result<File> {
            mknodat(CWD, path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0)?;
            let flags = OFlags::NONBLOCK.bits().cast_signed();
            OpenOptions::new()
                .read(true)
                .write(true)
                .custom_flags(flags)
                .open(path)
        };
        let [came, first, second] = &paths;
        let make = || Ok::<_, io::Error>([open(came)?, open(first)?, open(second)?]);
        let mut gate = Self {
            pipes: make().context("cannot make the pipes that a guest under icount waits at")?,
            paths,
        };
        gate.fill(1)
            .and_then(|()| gate.fill(2))
            .context("cannot fill a pipe")?;
        Ok(gate)
    }

    /// QEMU's arguments with the devices that write into the pipes.
    #[must_use]
    pub fn devices(&self, mut arguments: Vec<OsString>) -> Vec<OsString> {
        for (number, (port, path)) in PORTS.iter().zip(&self.paths).enumerate() {
            let chardev = format!("file,id=gate{number},path={}", escape(path));
            let device = format!("isa-debugcon,iobase={port:#x},chardev=gate{number}");
            arguments.extend([
                "-chardev".into(),
                chardev.into(),
                "-device".into(),
                device.into(),
            ]);
        }
        arguments
    }

    /// Waits until the guest has come, for so long at most. Says whether it has.
    ///
    /// # Errors
    ///
    /// If the pipe cannot be read.
    pub fn has_come(&mut self, within: Duration) -> io::Result<bool> {
        self.drain(0, within)
    }

    /// Lets the guest go on, up to the next time that it comes.
    ///
    /// # Errors
    ///
    /// If QEMU does not take notice, or a pipe cannot be read or written.
    pub fn open(&mut self) -> io::Result<()> {
        for pipe in [1, 2] {
            if !self.drain(pipe, PATIENCE)? {
                return Err(ErrorKind::TimedOut.into());
            }
            // It stands at the other now, or is on its way to the next time.
            self.fill(pipe)?;
        }
        Ok(())
    }

    /// Reads until the guest's byte has come, waiting for so long at most. Says whether it has.
    fn drain(&mut self, pipe: usize, within: Duration) -> io::Result<bool> {
        let mut bytes = [0; FILL.len()];
        loop {
            match self.pipes[pipe].read(&mut bytes) {
                Ok(nr) if bytes[..nr].contains(&BYTE) => return Ok(true),
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    let mut waits = [PollFd::new(&self.pipes[pipe], PollFlags::IN)];
                    let time = Timespec::try_from(within).ok();
                    if poll(&mut waits, time.as_ref())? == 0 {
                        return Ok(false);
                    }
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Fills a pipe, so that a byte more waits.
    fn fill(&mut self, pipe: usize) -> io::Result<()> {
        for len in [FILL.len(), 1] {
            loop {
                match self.pipes[pipe].write(&FILL[..len]) {
                    Ok(_) => {}
                    Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A guest that writes as QEMU does: again and again while there is no room.
    #[test]
    fn a_guest_comes_stands_and_goes() {
        let dir = tempfile::tempdir().unwrap();
        let mut gate = Gate::new(dir.path()).unwrap();
        let mut ends = gate.paths.clone().map(|path| {
            let flags = OFlags::NONBLOCK.bits().cast_signed();
            OpenOptions::new()
                .write(true)
                .custom_flags(flags)
                .open(path)
                .unwrap()
        });
        let is_full = |end: &mut File| {
            let written = end.write(&[BYTE]);
            written.is_err_and(|error| error.kind() == ErrorKind::WouldBlock)
        };
        for _ in 0..3 {
            assert!(!gate.has_come(Duration::ZERO).unwrap());
            ends[0].write_all(&[BYTE]).unwrap();
            assert!(gate.has_come(PATIENCE).unwrap());
            assert!(is_full(&mut ends[1]) && is_full(&mut ends[2]));
            std::thread::scope(|scope| {
                let [_, first, second] = &mut ends;
                scope.spawn(|| {
                    for end in [first, second] {
                        while end.write(&[BYTE]).is_err() {
                            std::thread::yield_now();
                        }
                    }
                });
                gate.open().unwrap();
            });
            assert!(is_full(&mut ends[1]) && is_full(&mut ends[2]));
        }
    }
}
