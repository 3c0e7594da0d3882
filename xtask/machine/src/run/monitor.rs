//! Watches a guest from its start to its end.

use std::fs;
use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use takt_timerlat::stats::view::Head;
use takt_timerlat::stats::{MAX_CPUS, RunState, StatusView};

use super::folder::MESSAGES;
use super::live::Live;
use super::signals::{Interrupted, Watch, Wish};
use crate::qemu::{GuestExit, Machine, Process, Registers, Served};
use takt_guest::Ram;
use takt_guest::ram::free_bytes;
use takt_guest::rtt::{self, Rtt};

/// A guest that shows no sign of life for this long has stopped answering; while the host is busy with others it takes
/// longer.
pub const SILENCE: Duration = Duration::from_secs(8);
/// A guest that was asked to stop has this long for it.
const STOP_WITHIN: Duration = Duration::from_secs(3);
/// How often QEMU's end and signals are looked for.
const TICK: Duration = Duration::from_millis(10);
/// How often the guest's memory is read.
const SAMPLE: Duration = Duration::from_millis(100);
/// With less than this, files come out cut.
const DISK_RESERVE: u64 = 256 << 10;

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// QEMU exited by itself.
    Exited(GuestExit),
    /// No sign of life; QEMU was killed.
    Silent,
    /// The guest did not stop when it was asked to; QEMU was killed.
    DidNotStop,
    /// The file system of the run folder is full; QEMU was killed.
    DiskFull,
    /// A serial line was closed at its other end, or its adapter is gone, before the machine said how it ended.
    LineClosed,
    /// Nothing came over a serial line any more.
    LineSilent,
    /// The machine at the other end of a serial line began anew.
    Rebooted,
}

/// How a run went.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// How it ended.
    pub ending: Ending,
    /// The user ended it.
    pub is_interrupted: bool,
    /// Real time from start to end.
    pub took: Duration,
    /// Where the CPUs stood when QEMU was killed, if it said so.
    pub stood: Vec<Registers>,
}

/// Everything that is watched.
#[derive(Debug)]
pub struct Monitor<'r> {
    process: Process,
    ram: &'r Ram,
    status: StatusView<&'r Ram>,
    rtt: Option<Rtt<'r>>,
    dir: PathBuf,
    outputs: [PathBuf; 2],
}

/// What changes as long as the guest lives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct SignOfLife {
    state: Option<RunState>,
    heartbeats: [u64; MAX_CPUS],
    samples: u64,
    output_bytes: u64,
}

impl<'r> Monitor<'r> {
    /// Watches `process`, which is the `machine` with this memory.
    pub fn new(
        process: Process,
        machine: &Machine,
        ram: &'r Ram,
        status: StatusView<&'r Ram>,
        rtt: Option<Rtt<'r>>,
    ) -> Self {
        Self {
            process,
            ram,
            status,
            rtt,
            dir: machine.dir.clone(),
            outputs: [machine.capture(), machine.serial()],
        }
    }

    /// Watches until the run is over. While `is_standing` no sign of life is expected.
    ///
    /// # Errors
    ///
    /// If the memory cannot be read, or the user wants out.
    pub fn run(mut self, live: &Live, is_standing: Option<&AtomicBool>) -> Result<Outcome> {
        let mut watch = Watch::start().context("cannot watch for Ctrl-C")?;
        let started = Instant::now();
        let mut sampled: Option<Instant> = None;
        let mut alive = SignOfLife::default();
        let mut silent = Served::new(self.process.id());
        let mut stop: Option<StopRequest> = None;
        let ending = loop {
            if let Some(status) = self.process.try_wait()? {
                break Ending::Exited(GuestExit::of(status, &self.dir.join(MESSAGES)));
            }
            match watch.wish() {
                Wish::None => {}
                Wish::Stop => stop
                    .get_or_insert_with(StopRequest::new)
                    .send(self.rtt.as_ref()),
                Wish::Quit => {
                    live.finish();
                    bail!(Interrupted(
                        "interrupted: nothing was reported, no run folder was made"
                    ));
                }
            }
            if sampled.is_none_or(|at| at.elapsed() >= SAMPLE) {
                sampled = Some(Instant::now());
                let sign = self.sample(live)?;
                if sign != alive || is_standing.is_some_and(|it| it.load(Relaxed)) {
                    alive = sign;
                    silent.restart();
                }
                if free_bytes(&self.dir).is_some_and(|free| free < DISK_RESERVE) {
                    break Ending::DiskFull;
                }
            }
            if stop
                .as_ref()
                .is_some_and(|stop| stop.since.elapsed() >= STOP_WITHIN)
            {
                break Ending::DidNotStop;
            }
            if silent.has_had(SILENCE) {
                break Ending::Silent;
            }
            thread::sleep(TICK);
        };
        let took = started.elapsed();
        let stood = match ending {
            Ending::Silent | Ending::DidNotStop => self.process.registers(),
            _ => Vec::new(),
        };
        self.process.kill().context("cannot end QEMU")?;
        live.finish();
        Ok(Outcome {
            ending,
            is_interrupted: stop.is_some(),
            took,
            stood,
        })
    }

    /// Reads what changes, and shows it.
    fn sample(&self, live: &Live) -> Result<SignOfLife> {
        let mut sign = SignOfLife {
            output_bytes: self
                .outputs
                .iter()
                .map(|path| fs::metadata(path).map_or(0, |meta| meta.len()))
                .sum(),
            ..SignOfLife::default()
        };
        let head: Option<Head> = self
            .status
            .head()
            .context("cannot read the guest's status")?;
        let Some(head) = head else {
            return Ok(sign);
        };
        sign.state = Some(head.state);
        // The guest runs, so QEMU has the file open: nothing is left behind from here on.
        self.ram.unlink();
        for (cpu, beats) in sign.heartbeats.iter_mut().enumerate() {
            *beats = self.status.cpu(cpu)?.heartbeat;
        }
        let slots = self.status.slots()?;
        sign.samples = slots
            .iter()
            .map(|slot| slot.irq.count.wrapping_add(slot.thread.count))
            .fold(0, u64::wrapping_add);
        live.update(&head, &slots);
        Ok(sign)
    }
}

/// The request to stop: sent once, and tried again until that works.
#[derive(Debug)]
struct StopRequest {
    since: Instant,
    is_sent: bool,
}

impl StopRequest {
    fn new() -> Self {
        Self {
            since: Instant::now(),
            is_sent: false,
        }
    }

    fn send(&mut self, rtt: Option<&Rtt<'_>>) {
        if !self.is_sent {
            // It fails while the guest has not set up its channels; it has three seconds for that.
            self.is_sent = rtt.is_some_and(|rtt| rtt.send(rtt::DOWN_COMMANDS, rtt::STOP).is_ok());
        }
    }
}

/// Whether an error says that a file system is full.
#[must_use]
pub fn is_disk_full(error: &anyhow::Error) -> bool {
    error
        .chain()
        .filter_map(|cause| cause.downcast_ref::<io::Error>())
        .any(|error| {
            matches!(
                error.kind(),
                io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded
            )
        })
}
