//! Boots an image that measures nothing, sees it through to its end, however it ends, and leaves a run folder's files.

use std::ffi::OsString;
use std::fmt;
use std::fs;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use super::console::Console;
use super::demux::{CaptureCount, FileFacts, Rest, demux};
use super::signals::{Interrupted, Watch, Wish};
use super::{folder, places};
use crate::qemu::{GuestExit, Machine, Process};
use crate::{judge, load};
use takt_base::{EXIT_ERROR, EXIT_INTERRUPTED, EXIT_THRESHOLD};
use takt_guest;
use takt_guest::Elf;
use takt_guest::Ram;
use takt_guest::frames::Damage;
use takt_guest::rings;
use takt_guest::rtt::{Rtt, UP_LOG};

/// Under icount by definition; otherwise what is assumed, since an image of the user's own need
/// not tell.
const TSC_HZ: u64 = 1_000_000_000;
/// How often QEMU's end and signals are looked for.
const TICK: Duration = Duration::from_millis(5);
/// Exit code of a run of which something is missing.
pub const EXIT_TAINTED: u8 = 3;

/// How a boot ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// By itself.
    Exited(GuestExit),
    /// It took longer than this and was killed.
    TimedOut(Duration),
    /// The user left its console.
    Left,
    /// The user ended it.
    Interrupted,
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exited(exit) => exit.fmt(f),
            Self::TimedOut(limit) => write!(
                f,
                "the guest did not end within {} s of real time (--timeout) and was stopped",
                limit.as_secs()
            ),
            Self::Left => f.write_str("the guest was stopped at its console"),
            Self::Interrupted => f.write_str("interrupted: the guest was stopped"),
        }
    }
}

/// What came of a boot.
#[derive(Debug)]
pub struct Booted {
    /// How it ended.
    pub end: End,
    /// Where the CPUs of a guest stood that was stopped.
    pub places: Vec<String>,
    /// What is missing of what it sent.
    pub losses: Vec<String>,
    /// How often the guest began anew: log and trace are those of the last time.
    pub restarts: u64,
}

impl Booted {
    /// The exit code that says it.
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        let code = match self.end {
            End::Left => 0,
            End::Exited(exit) => exit_code(exit),
            End::TimedOut(_) => EXIT_ERROR,
            End::Interrupted => EXIT_INTERRUPTED,
        };
        match code {
            0 if !self.losses.is_empty() => EXIT_TAINTED,
            code => code,
        }
    }
}

/// The exit code that says how a guest of which nothing is missing ended.
#[must_use]
pub fn exit_code(exit: GuestExit) -> u8 {
    match exit {
        GuestExit::Passed => 0,
        GuestExit::Threshold => EXIT_THRESHOLD,
        _ => EXIT_ERROR,
    }
}

/// Boots a machine with this image, this memory and `more` arguments of QEMU's, for as long as `limit` at most or until its
/// console is left. Its folder has the run's files then.
///
/// # Errors
///
/// If QEMU cannot be started, files cannot be written, or the user wants out at once. A guest that fails is none.
pub fn boot(
    machine: &Machine,
    more: &[OsString],
    elf: &Elf,
    ram: &Ram,
    limit: Duration,
    console: Option<Console>,
) -> Result<Booted> {
    // To the end of this function: a second Ctrl-C does not leave a folder behind that is half full.
    let mut watch = Watch::start().context("cannot watch for Ctrl-C")?;
    let (end, stood) = {
        let messages = machine.dir.join(folder::MESSAGES);
        let arguments = |all: Vec<_>| {
            let all = [&all, more].concat();
            match &console {
                Some(console) => console.wired(all),
                None => all,
            }
        };
        let mut process = Process::start_with(machine, arguments, &messages)?;
        let has_left = || console.as_ref().is_some_and(Console::has_left);
        let end = wait(
            &mut process,
            &mut watch,
            ram,
            elf,
            &messages,
            limit,
            &has_left,
        )?;
        let stood = match end {
            End::Exited(_) | End::Left => Vec::new(),
            End::TimedOut(_) | End::Interrupted => process.registers(),
        };
        process.kill().context("cannot end QEMU")?;
        if let Some(console) = console {
            console.finish();
        }
        (end, stood)
    };
    let rest = Rest {
        // A guest that died early has no channels, and then there is no rest.
        log: Rtt::new(elf, ram)
            .and_then(|rtt| rtt.pending(UP_LOG).ok())
            .unwrap_or_default(),
        trace: rings::rest(elf, ram).context("cannot read the guest's trace rings")?,
    };
    let facts = FileFacts::new(elf, TSC_HZ, machine.smp.into());
    let mut capture = demux(&machine.capture(), &machine.dir, facts, &rest)?;
    capture.lost = takt_guest::lost_frames(elf, ram).context("cannot read the guest's memory")?;
    let log_dropped =
        takt_guest::dropped_log(elf, ram).context("cannot read the guest's memory")?;
    let record = Record {
        end: end.to_string(),
        kernel_cmdline: &machine.cmdline,
        tsc_hz: TSC_HZ,
        log_dropped,
        capture: &capture,
    };
    record.write(&machine.dir)?;
    if capture.damage == Damage::default() {
        // Its frames are in the other two files. A damaged one is kept as evidence.
        let _ = fs::remove_file(machine.capture());
    }
    Ok(Booted {
        end,
        places: places::describe(elf, ram, &stood),
        losses: judge::losses(&capture, log_dropped),
        restarts: capture.restarts,
    })
}

/// What is noted of a boot that measured nothing.
#[derive(Debug)]
pub struct Record<'r> {
    /// How it ended.
    pub end: String,
    /// The kernel's command line.
    pub kernel_cmdline: &'r str,
    /// TSC frequency in Hz.
    pub tsc_hz: u64,
    /// Log messages that found no room.
    pub log_dropped: u64,
    /// What came.
    pub capture: &'r CaptureCount,
}

impl Record<'_> {
    /// Writes it into the run folder.
    ///
    /// # Errors
    ///
    /// If it cannot be written.
    pub fn write(&self, dir: &Path) -> Result<()> {
        let record = serde_json::json!({
            "schema": load::BOOT,
            "end": self.end,
            "kernel_cmdline": self.kernel_cmdline,
            "clocks": { "tsc_hz": self.tsc_hz },
            "log_dropped": self.log_dropped,
            "capture": self.capture,
        });
        fs::write(dir.join(folder::RECORD), format!("{record:#}\n"))
            .context("cannot write run.json")
    }
}

fn wait(
    process: &mut Process,
    watch: &mut Watch,
    ram: &Ram,
    elf: &Elf,
    messages: &Path,
    limit: Duration,
    has_left: &dyn Fn() -> bool,
) -> Result<End> {
    let rtt = Rtt::new(elf, ram);
    let started = Instant::now();
    loop {
        if let Some(status) = process.try_wait()? {
            return Ok(End::Exited(GuestExit::of(status, messages)));
        }
        match watch.wish() {
            Wish::None => {}
            Wish::Stop => return Ok(End::Interrupted),
            Wish::Quit => bail!(Interrupted("interrupted: no run folder was made")),
        }
        if has_left() {
            return Ok(End::Left);
        }
        if started.elapsed() >= limit {
            return Ok(End::TimedOut(limit));
        }
        // The image is in the memory, so QEMU has the file open: nothing is left behind from here on.
        if rtt.as_ref().is_some_and(|rtt| rtt.pending(UP_LOG).is_ok()) {
            ram.unlink();
        }
        thread::sleep(TICK);
    }
}
