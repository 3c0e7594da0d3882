//! [`Watcher`]: a Linux that is running, from its start to its end.
//!
//! While it measures it says nothing. How far it has come tells its count of ticks, which is read out of its memory: it
//! says itself where that lies, and nothing of this costs the guest an instruction.

use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use takt_timerlat::stats::view::Memory;

use super::machine::LinuxMachine;
use takt_guest::Ram;
use takt_machine::qemu::Process;
use takt_machine::run::signals::{Interrupted, Watch, Wish};

/// A guest that makes no progress while QEMU computes for so long is stuck.
const STUCK_CPU: Duration = Duration::from_secs(60);
/// As is one whose QEMU does not even compute.
const STUCK_IDLE: Duration = Duration::from_secs(15);
/// QEMU that computes less than this has not computed.
const NO_CPU: Duration = Duration::from_millis(100);
/// What comes of a comparison that the user ends.
pub const NOTHING_COMPARED: &str = "interrupted: nothing was compared, no run folder was made";
/// How often the guest is looked at.
const TICK: Duration = Duration::from_millis(50);
/// Where the kernel's addresses begin: physical address 0 (`__START_KERNEL_map`; it does not move without KASLR).
const KERNEL_MAP: u64 = 0xffff_ffff_8000_0000;
/// What Linux takes from its reset to `init`, for the progress bar only.
const BOOT_NS: u64 = 1_700_000_000;

/// How far the guest has come, as it says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// The kernel boots.
    Booting,
    /// `init` runs.
    Init,
    /// timerlat measures.
    Timerlat,
    /// cyclictest measures.
    Cyclictest,
    /// The results are on their way.
    Results,
    /// All of them have come.
    Done,
}

impl Phase {
    fn name(self) -> &'static str {
        match self {
            Self::Booting => "booting",
            Self::Init => "booted",
            Self::Timerlat => "timerlat",
            Self::Cyclictest => "cyclictest",
            Self::Results => "sending results",
            Self::Done => "done",
        }
    }
}

/// What the console says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Console {
    /// The last phase that began.
    pub phase: Phase,
    /// When `init` began to run, in the guest's time.
    pub booted_ns: Option<u64>,
    /// What went wrong, in the words of `init` or of the kernel.
    pub failure: Option<String>,
    /// The latest time that a line bears.
    latest_ns: u64,
    /// Where the count of ticks lies.
    jiffies: Option<u64>,
}

impl Console {
    /// Reads the text.
    #[must_use]
    pub fn read(text: &str) -> Self {
        let mut console = Self {
            phase: Phase::Booting,
            booted_ns: None,
            failure: None,
            latest_ns: 0,
            jiffies: None,
        };
        for line in text.lines() {
            console.take(line);
        }
        console
    }

    fn take(&mut self, line: &str) {
        self.latest_ns = stamp_ns(line).unwrap_or(self.latest_ns);
        if let Some((_, why)) = line.split_once("Kernel panic - ") {
            self.failure = Some(format!("Linux panicked: {}", why.trim()));
        }
        let Some((_, words)) = line.split_once("takt: ") else {
            return;
        };
        let phase = match words.trim() {
            "timerlat begins" => Phase::Timerlat,
            "cyclictest begins" => Phase::Cyclictest,
            "results" => Phase::Results,
            "done" => Phase::Done,
            words => {
                if let Some(why) = words.strip_prefix("failed: ") {
                    self.failure.get_or_insert_with(|| why.to_owned());
                } else if let Some(address) = words.strip_prefix("jiffies 0x") {
                    self.jiffies = u64::from_str_radix(address, 16)
                        .ok()
                        .and_then(|address| address.checked_sub(KERNEL_MAP));
                } else if words.starts_with("init runs") {
                    self.booted_ns = stamp_ns(line);
                    self.phase = Phase::Init;
                }
                return;
            }
        };
        self.phase = phase;
    }
}

/// The time stamp of a line of the kernel's log, `[    1.758832] …`, in ns.
fn stamp_ns(line: &str) -> Option<u64> {
    let (stamp, _) = line.trim_start().strip_prefix('[')?.split_once(']')?;
    let (whole, micros) = stamp.trim().split_once('.')?;
    let micros = micros.parse::<u64>().ok().filter(|_| micros.len() == 6)?;
    Some(whole.parse::<u64>().ok()? * 1_000_000_000 + micros * 1_000)
}

/// How it ended.
#[derive(Clone, Debug)]
pub struct Ended {
    /// What it said.
    pub console: Console,
    /// Real time from start to end.
    pub took: Duration,
    /// What was wrong, if it did not end well.
    pub error: Option<String>,
}

/// Watches a guest.
#[derive(Debug)]
pub struct Watcher<'w> {
    process: Process,
    machine: &'w LinuxMachine,
    ram: &'w Ram,
    /// Ticks a second.
    hz: u64,
    bar: ProgressBar,
}

/// What changes as long as the guest gets on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct SignOfLife {
    ticks: Option<u64>,
    output_bytes: u64,
}

impl<'w> Watcher<'w> {
    /// Watches `process`, which is the `machine` with this memory and a kernel of so many ticks a second.
    #[must_use]
    pub fn new(
        process: Process,
        machine: &'w LinuxMachine,
        ram: &'w Ram,
        hz: u64,
        is_quiet: bool,
    ) -> Self {
        let target = if is_quiet {
            ProgressDrawTarget::hidden()
        } else {
            ProgressDrawTarget::stderr()
        };
        let bar = ProgressBar::with_draw_target(Some(expected_ns(machine)), target);
        // As the live view of latency-run; the template is constant.
        if let Ok(style) =
            ProgressStyle::with_template("\n{msg}\n{bar:34.cyan/dim} {percent:>3} % in {elapsed}")
        {
            bar.set_style(style);
        }
        Self {
            process,
            machine,
            ram,
            hz: hz.max(1),
            bar,
        }
    }

    /// Watches until it is over.
    ///
    /// # Errors
    ///
    /// If files cannot be read, or the user wants out. A guest that fails is no error here.
    pub fn run(mut self) -> Result<Ended> {
        let mut watch = Watch::start().context("cannot watch for Ctrl-C")?;
        let started = Instant::now();
        let mut alive = (SignOfLife::default(), Instant::now(), Duration::ZERO);
        let mut error = loop {
            if self.process.try_wait()?.is_some() {
                break None;
            }
            if watch.wish() != Wish::None {
                self.bar.finish_and_clear();
                bail!(Interrupted(NOTHING_COMPARED));
            }
            let console = self.console();
            let sign = self.sample(&console);
            let cpu = cpu_time(self.process.id());
            if sign != alive.0 {
                alive = (sign, Instant::now(), cpu);
            }
            if sign
                .ticks
                .is_some_and(|ticks| self.virtual_ns(ticks) > self.limit_ns())
            {
                break Some("Linux runs on and on".to_owned());
            }
            let computed = cpu.saturating_sub(alive.2);
            if computed >= STUCK_CPU || (computed < NO_CPU && alive.1.elapsed() >= STUCK_IDLE) {
                break Some("Linux has stopped answering".to_owned());
            }
            thread::sleep(TICK);
        };
        self.process.kill().context("cannot end QEMU")?;
        self.bar.finish_and_clear();
        let console = self.console();
        if console.failure.is_some() {
            error = console.failure.clone();
        } else if error.is_none() && console.phase != Phase::Done {
            error = Some("the machine ended before the measurement was over".into());
        }
        let error = error.map(|error| format!("{error} (state: {})", console.phase.name()));
        Ok(Ended {
            console,
            took: started.elapsed(),
            error,
        })
    }

    fn console(&self) -> Console {
        let bytes = takt_base::input::read(self.machine.console()).unwrap_or_default();
        Console::read(&String::from_utf8_lossy(&bytes))
    }

    /// Reads what changes, and shows it.
    fn sample(&self, console: &Console) -> SignOfLife {
        let len = |path| fs::metadata(path).map_or(0, |meta| meta.len());
        let ticks = console.jiffies.and_then(|address| {
            // The guest runs, so QEMU has the file open.
            self.ram.unlink();
            let mut bytes = [0; 8];
            self.ram.read_exact_at(address, &mut bytes).ok()?;
            // Linux counts from five minutes before the 32-bit counter's end.
            let begin = u64::from((300 * self.hz as u32).wrapping_neg());
            u64::from_le_bytes(bytes).checked_sub(begin)
        });
        // Until it has said where they are, its words have times too.
        let now = ticks.map_or(console.latest_ns, |ticks| self.virtual_ns(ticks));
        self.bar.set_position(now);
        let time = format!(", {:.1} s of its time", now as f64 / 1e9);
        self.bar
            .set_message(format!("Linux PREEMPT_RT: {}{time}", console.phase.name()));
        SignOfLife {
            ticks,
            output_bytes: len(self.machine.console()) + len(self.machine.results()),
        }
    }

    fn virtual_ns(&self, ticks: u64) -> u64 {
        (u128::from(ticks) * 1_000_000_000 / u128::from(self.hz))
            .try_into()
            .unwrap_or(u64::MAX)
    }

    /// A guest whose time goes beyond this will not come to an end.
    fn limit_ns(&self) -> u64 {
        expected_ns(self.machine)
            .saturating_mul(4)
            .saturating_add(60_000_000_000)
    }
}

/// How long the guest will take by its own clock.
#[must_use]
pub fn expected_ns(machine: &LinuxMachine) -> u64 {
    let settings = &machine.settings;
    // Printing the trace and packing it takes some 50 µs an activation.
    BOOT_NS
        + settings.warm_up_ns
        + 2 * settings.duration_ns
        + settings.activations() * 50_000
        + 500_000_000
}

/// The time for which a process has computed. Zero if it is gone.
fn cpu_time(pid: u32) -> Duration {
    let stat = takt_base::input::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    Duration::from_millis(cpu_ticks(&stat).unwrap_or(0) * 10)
}

/// User and system time in a `/proc/PID/stat`, in hundredths of a second (`USER_HZ`, which is 100 on x86). The name in
/// front of it may have blanks and parentheses.
fn cpu_ticks(stat: &str) -> Option<u64> {
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_whitespace().skip(11);
    Some(fields.next()?.parse::<u64>().ok()? + fields.next()?.parse::<u64>().ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_console_says_how_far_it_came() {
        let text = "[    0.000000] Linux version 6.1\r\n\
                    [    1.758832] takt: init runs on 6.1.0-56-rt-amd64\r\n\
                    [    1.769123] takt: jiffies 0xffffffff82a091c0\r\n\
                    [    1.802345] takt: timerlat begins\r\n";
        let console = Console::read(text);
        assert_eq!(console.phase, Phase::Timerlat);
        assert_eq!(console.booted_ns, Some(1_758_832_000));
        assert_eq!(console.jiffies, Some(0x2a0_91c0));
        assert_eq!(console.latest_ns, 1_802_345_000);
        assert_eq!(console.failure, None);
        assert!(console.phase < Phase::Done);
    }

    #[test]
    fn failures_are_in_its_own_words() {
        let failed = Console::read("[    1.9] takt: failed: cyclictest: no CPU\n");
        assert_eq!(failed.failure.as_deref(), Some("cyclictest: no CPU"));
        let text = "[    0.5] Kernel panic - not syncing: VFS: Unable to mount root fs\r\n";
        let panicked = Console::read(text).failure.unwrap();
        assert_eq!(
            panicked,
            "Linux panicked: not syncing: VFS: Unable to mount root fs"
        );
    }

    #[test]
    fn an_address_outside_the_kernel_is_none() {
        assert_eq!(Console::read("takt: jiffies 0x1000\n").jiffies, None);
        assert_eq!(Console::read("takt: jiffies 0x\n").jiffies, None);
    }

    #[test]
    fn a_process_has_computed_for_user_and_system_time() {
        let stat = "12 (qemu (x) y) R 1 12 12 0 -1 4194304 1 2 3 4 250 17 0 0 20 0 3 0 5";
        assert_eq!(cpu_ticks(stat), Some(267));
        assert_eq!(cpu_ticks(""), None);
    }
}
