//! One boot of an image with tests.

use std::ffi::OsString;
use std::io::BufReader;
use std::ops::Range;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, anyhow};

use takt_guest::Elf;
use takt_guest::Ram;
use takt_machine::counted::Plugin;
use takt_machine::qemu::command::escape;
use takt_machine::qemu::executed::logged;
use takt_machine::qemu::{self, Accel, GuestExit, Machine, Process, Qmp, Served};
use takt_machine::run::config::clock_keys;
use takt_machine::run::places;
use tempfile::TempDir;

/// A boot.
#[derive(Clone, Copy, Debug)]
pub(super) struct Boot<'b> {
    /// The image.
    pub(super) image: &'b Elf,
    /// Words of the kernel's command line besides those for the clocks.
    pub(super) words: &'b str,
    /// The accelerator.
    pub(super) accel: Accel,
    /// How many CPUs.
    pub(super) smp: u8,
    /// Under icount, nanoseconds an instruction, as a power of two.
    pub(super) shift: u8,
    /// How long it may take.
    pub(super) limit: Duration,
    /// Logs every instruction in these ranges to the file.
    pub(super) executed: Option<(&'b [Range<u64>], &'b Path)>,
    /// Has a plugin log to the file.
    pub(super) plugin: Option<(&'b Plugin, &'b Path)>,
    /// What is injected when the guest asks for it.
    pub(super) inject: Option<Inject>,
}

/// What the host injects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Inject {
    /// NMIs, to the guest's end; what it records is captured.
    Nmis,
    /// A machine check.
    MachineCheck,
}

impl Inject {
    /// What a guest writes to the serial port that wants it.
    const fn asked_for(self) -> &'static str {
        match self {
            Self::Nmis => "inject: nmi\n",
            Self::MachineCheck => "inject: machine check\n",
        }
    }
}

/// What came of it.
#[derive(Debug)]
pub(super) struct Ended {
    /// How it ended; `None` if it was killed because it did not.
    pub(super) exit: Option<GuestExit>,
    /// What it wrote to the serial port; behind it, if it was killed, where its CPUs stood.
    pub(super) serial: String,
    /// The machine's files.
    pub(super) dir: TempDir,
}

/// How often what goes on is looked at.
const TICK: Duration = Duration::from_millis(5);
/// An error of CPU 0's bank 1 that was not corrected: its state, the CPU's, the address, and what that is.
const MACHINE_CHECK: &str = "mce 0 1 0xbd00000000000000 0x5 0x1234000 0x8c";

impl Boot<'_> {
    /// Boots and waits for the end.
    pub(super) fn run(&self) -> Result<Ended> {
        let scratch = takt_base::scratch::folder()?;
        let ram = Ram::create(scratch.path())?;
        let machine = Machine {
            image: self.image.path.clone(),
            ram: ram.path().to_owned(),
            dir: scratch.path().to_owned(),
            // The ring is the tests' own: no one else takes anything out of it.
            cmdline: format!(
                "{}{}{}",
                self.words,
                clock_keys(self.accel),
                match self.inject {
                    Some(Inject::Nmis) => "",
                    _ => " capture=off",
                }
            ),
            smp: self.smp,
            accel: self.accel,
        };
        let messages = scratch.path().join("messages.txt");
        let change = |arguments| self.arguments(arguments, &machine);
        let mut process = Process::start_with(&machine, change, &messages)?;
        let exit = match self.inject {
            Some(what) => wait_injecting(what, &mut process, self.limit, &machine.serial())?,
            None => wait(&mut process, self.limit)?,
        };
        let stood = match exit {
            Some(_) => Vec::new(),
            None => places::describe(self.image, &ram, &process.registers()),
        };
        let serial = takt_base::input::read(machine.serial()).unwrap_or_default();
        let mut serial = String::from_utf8_lossy(&serial).into_owned();
        if exit == Some(GuestExit::QemuFailed) {
            serial += &takt_base::input::read_to_string(&messages).unwrap_or_default();
        }
        // The guest may have stopped in the middle of a line.
        for place in stood {
            serial += &format!("\n{place}");
        }
        Ok(Ended {
            exit,
            serial,
            dir: scratch,
        })
    }

    /// Arguments for the machine that `latency-run` has, with a second serial port that leads to a second console, a parallel
    /// port, entropy, devices that send messages, watchdogs that raise an NMI, and this boot's clock.
    fn arguments(&self, arguments: Vec<OsString>, machine: &Machine) -> Vec<OsString> {
        let clock = format!("shift={},sleep=off", self.shift);
        let arguments = arguments
            .into_iter()
            .map(|argument| match argument.to_str() {
                Some("shift=0,sleep=off") => clock.clone().into(),
                _ => argument,
            })
            .collect();
        let mut arguments: Vec<_> = match self.executed {
            Some((ranges, log)) => {
                let version = qemu::version().unwrap_or_default();
                logged(arguments, &version, ranges, log)
            }
            None => arguments,
        };
        if let Some((plugin, log)) = self.plugin {
            arguments = plugin.added_to(arguments, log, None);
        }
        let link = format!("path={}", escape(&machine.dir.join("com2")));
        let console = format!("socket,id=console,server=on,wait=off,{link}");
        let com2 = format!("socket,id=com2,{link}");
        arguments.extend(
            [
                ["-chardev", "null,id=par"],
                ["-parallel", "chardev:par"],
                // COM2's other end is a console.
                ["-chardev", &console],
                ["-chardev", &com2],
                ["-serial", "chardev:com2"],
                ["-device", "virtio-serial-pci,max_ports=1,id=second"],
                ["-device", "virtconsole,bus=second.0,chardev=console"],
                ["-object", "rng-builtin,id=rng"],
                ["-device", "virtio-rng-pci,rng=rng"],
                ["-device", "edu"],
                ["-device", "e1000e,romfile="],
                ["-device", "i6300esb"],
                ["-device", "pcie-root-port"],
                ["-global", "ICH9-LPC.noreboot=false"],
                ["-action", "watchdog=inject-nmi"],
            ]
            .as_flattened()
            .iter()
            .map(Into::into),
        );
        arguments
    }
}

/// Waits for the end, as long as it may take; time for which the host was busy with others does not count.
fn wait(process: &mut Process, limit: Duration) -> Result<Option<GuestExit>> {
    let served = Served::new(process.id());
    while !served.has_had(limit) {
        if let Some(status) = process.try_wait().context("QEMU cannot be watched")? {
            return Ok(Some(status.into()));
        }
        thread::sleep(TICK);
    }
    Ok(None)
}

/// As [`wait`], and injects meanwhile, from the moment when `serial` says that it is wanted.
fn wait_injecting(
    what: Inject,
    process: &mut Process,
    limit: Duration,
    serial: &Path,
) -> Result<Option<GuestExit>> {
    let (input, output) = process.take_monitor().context("QEMU has no monitor")?;
    let has_ended = AtomicBool::new(false);
    thread::scope(|scope| {
        let injects = scope.spawn(|| {
            // Connected at once: QEMU waits with its greeting for nobody.
            let mut qmp = Qmp::new(BufReader::new(output), input)?;
            while !takt_base::input::read_to_string(serial)
                .is_ok_and(|text| text.contains(what.asked_for()))
            {
                if has_ended.load(Relaxed) {
                    return Ok(());
                }
                thread::sleep(TICK);
            }
            if what == Inject::MachineCheck {
                return qmp.print(MACHINE_CHECK).map(|_| ());
            }
            loop {
                if has_ended.load(Relaxed) || !qmp.execute("inject-nmi")? {
                    return anyhow::Ok(());
                }
            }
        });
        let exit = wait(process, limit);
        has_ended.store(true, Relaxed);
        // Whoever waits for an answer gets an end of file.
        let _ = process.kill();
        let injected = injects
            .join()
            .map_err(|_| anyhow!("the thread that injects panicked"))?;
        // An error of a monitor whose machine has ended says nothing.
        match exit {
            Ok(None) => injected.map(|()| None),
            exit => exit,
        }
    })
}
