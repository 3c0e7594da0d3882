//! A measurement's activations as they come, out of the capture that QEMU still writes.

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering::Acquire};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};
use takt_decode::{SubBuffer, TscClock};
use takt_tracer::wire::CHANNEL_TRACE;

use crate::qemu::Machine;
use crate::samples;
use takt_base::input;
use takt_guest;
use takt_guest::Ram;
use takt_guest::frames::FrameScanner;
use takt_guest::{Elf, events};

/// An activation of a measured thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cycle {
    /// Which thread.
    pub slot: u32,
    /// How late it ran, in ns.
    pub latency_ns: u64,
}

/// What is done with each.
pub type OnCycle<'a> = dyn Fn(Cycle) -> Result<()> + Sync + 'a;

/// How often the end of the file is looked at.
const TICK: Duration = Duration::from_millis(20);
const BUFFER: usize = 1 << 16;

/// A file that grows. Its end is the end only once nobody writes any more.
struct Growing<'g> {
    path: PathBuf,
    file: Option<File>,
    is_over: &'g AtomicBool,
}

impl Read for Growing<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            // Before the reading: what was written by then is read.
            let is_over = self.is_over.load(Acquire);
            if self.file.is_none() {
                match input::open(&self.path) {
                    Ok(file) => self.file = Some(file),
                    Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                    Err(error) => return Err(error),
                }
            }
            let read = self.file.as_mut().map_or(Ok(0), |file| file.read(buffer))?;
            if read > 0 || is_over {
                return Ok(read);
            }
            thread::sleep(TICK);
        }
    }
}

/// Hands over each activation, in the order in which the CPUs' sub-buffers come, until `is_over` and all that was captured
/// is read. What the guest has not sent by its end, and damage, is for who reads the run's files.
///
/// # Errors
///
/// If the capture or the guest's memory cannot be read, or those of `on_cycle`.
pub(super) fn follow(
    machine: &Machine,
    elf: &Elf,
    ram: &Ram,
    is_over: &AtomicBool,
    on_cycle: &OnCycle<'_>,
) -> Result<()> {
    let table = events::table(elf)?;
    let status = takt_guest::status(elf, ram)?;
    let growing = Growing {
        path: machine.capture(),
        file: None,
        is_over,
    };
    let mut frames = FrameScanner::new(BufReader::with_capacity(BUFFER, growing));
    while let Some((header, payload)) = frames.next().context("cannot read the capture")? {
        if header.channel != CHANNEL_TRACE {
            continue;
        }
        let Ok(mut sub) = SubBuffer::new(payload.to_vec(), 0) else {
            continue;
        };
        let clock = TscClock::new(status.head()?.map_or(0, |head| head.tsc_hz));
        while let Some(record) = sub.next(&table) {
            let cycle = record.ok().as_ref().and_then(samples::of_thread);
            if let Some((slot, latency)) = cycle {
                on_cycle(Cycle {
                    slot,
                    latency_ns: clock.ns(latency),
                })?;
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::sync::atomic::Ordering::Release;

    use super::*;

    #[test]
    fn the_end_of_a_file_that_grows_is_none_until_nobody_writes() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("capture");
        let is_over = AtomicBool::new(false);
        let mut growing = Growing {
            path: path.clone(),
            file: None,
            is_over: &is_over,
        };
        let mut parts = Vec::new();
        thread::scope(|scope| {
            let (sender, receiver) = std::sync::mpsc::channel();
            scope.spawn(move || {
                loop {
                    let mut part = [0; 8];
                    let read = growing.read(&mut part).unwrap();
                    sender.send(part[..read].to_vec()).unwrap();
                    if read == 0 {
                        break;
                    }
                }
            });
            // Each part is read while the next is not written yet, the first though there was no file.
            let mut file = File::create(&path).unwrap();
            for part in ["one", "two"] {
                file.write_all(part.as_bytes()).unwrap();
                parts.push(receiver.recv().unwrap());
            }
            file.write_all(b"three").unwrap();
            is_over.store(true, Release);
            parts.extend(receiver.iter());
        });
        assert_eq!(parts, [&b"one"[..], b"two", b"three", b""]);
    }
}
