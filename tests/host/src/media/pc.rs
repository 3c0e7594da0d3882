//! [`Pc`]: a machine of QEMU's that starts by its firmware, as a real one does.

use std::ffi::OsString;
use std::fs;
use std::io::{BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use takt_base::term::last_lines;
use takt_machine::qemu::command::{BARE, escape};
use takt_machine::qemu::{GuestExit, Process, Qmp};

/// How long a boot may take, from the firmware's first instruction to timerlat's end.
const PATIENCE: Duration = Duration::from_secs(120);
const TICK: Duration = Duration::from_millis(50);
/// Lines of the serial port that are shown of a boot that failed.
const LAST_LINES: usize = 30;

/// Firmware.
#[derive(Clone, Copy, Debug)]
pub(super) enum Firmware {
    Bios,
    Uefi,
}

/// Where the machine boots from.
#[derive(Clone, Copy, Debug)]
pub(super) enum Medium {
    Cd,
    Usb,
    /// QEMU loads the image itself, by PVH.
    None,
    /// A network's TFTP server.
    Net,
}

/// What the machine's time is.
#[derive(Clone, Copy, Debug)]
pub(super) enum Clock {
    /// The host's: where somebody outside is waited for.
    Host,
    /// That of instructions, 256 ns each, so that a busy host misses no activation and waiting firmware is soon through.
    Instructions,
}

/// A machine.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pc {
    pub(super) clock: Clock,
    pub(super) firmware: Firmware,
    pub(super) chipset: &'static str,
    pub(super) medium: Medium,
    pub(super) ram_mib: u64,
    pub(super) smp: u8,
}

/// A machine that was started.
pub(super) struct Booted {
    process: Process,
    dir: PathBuf,
    started: Instant,
}

impl Pc {
    /// QEMU's arguments, with all files in `dir`.
    fn arguments(self, medium: &Path, ovmf: &Path, dir: &Path) -> Vec<OsString> {
        let mut args: Vec<OsString> = BARE.map(Into::into).into();
        let mut add = |name: &str, value: String| args.extend([name.into(), value.into()]);
        add("-machine", self.chipset.into());
        add("-m", format!("{}M", self.ram_mib));
        add("-smp", self.smp.to_string());
        add("-cpu", "max".into());
        add("-vga", "std".into());
        add("-device", "isa-debug-exit,iobase=0xf4,iosize=4".into());
        let socket = |name: &str| format!("path={},server=on,wait=off", escape(&dir.join(name)));
        let log = escape(&dir.join(SERIAL));
        add(
            "-chardev",
            format!("socket,id=com1,{},logfile={log}", socket(COM1)),
        );
        add("-serial", "chardev:com1".into());
        add("-chardev", format!("socket,id=qmp,{}", socket(MONITOR)));
        add("-mon", "chardev=qmp,mode=control".into());
        if let Clock::Instructions = self.clock {
            add("-icount", "shift=8,sleep=off".into());
        }
        if let Firmware::Uefi = self.firmware {
            add("-bios", ovmf.display().to_string());
        }
        let file = escape(medium);
        let drive = format!("if=none,id=medium,format=raw,file={file}");
        match self.medium {
            Medium::None => add("-kernel", medium.display().to_string()),
            Medium::Cd => {
                add("-drive", drive + ",readonly=on");
                add(
                    "-device",
                    "ide-cd,bus=ide.0,drive=medium,bootindex=1".into(),
                );
            }
            Medium::Usb => {
                add("-drive", drive);
                add("-device", "qemu-xhci".into());
                add(
                    "-device",
                    "usb-storage,drive=medium,removable=on,bootindex=1".into(),
                );
            }
            Medium::Net => {
                let core = "boot/grub/i386-pc/core.0";
                add(
                    "-netdev",
                    format!("user,id=net,tftp={file},bootfile={core}"),
                );
                add("-device", "e1000e,netdev=net,bootindex=1".into());
            }
        }
        args
    }

    /// Starts it.
    pub(super) fn boot(self, medium: &Path, ovmf: &Path, dir: &Path) -> Result<Booted> {
        self.boot_with(medium, ovmf, dir, Vec::new())
    }

    /// The same with further arguments for QEMU.
    pub(super) fn boot_with(
        self,
        medium: &Path,
        ovmf: &Path,
        dir: &Path,
        further: Vec<OsString>,
    ) -> Result<Booted> {
        fs::create_dir_all(dir)?;
        let mut arguments = self.arguments(medium, ovmf, dir);
        arguments.extend(further);
        Ok(Booted {
            process: Process::spawn(&arguments, false, &dir.join(MESSAGES))?,
            dir: dir.to_owned(),
            started: Instant::now(),
        })
    }
}

/// Files in the machine's folder.
const SERIAL: &str = "serial.txt";
const MESSAGES: &str = "messages.txt";
const COM1: &str = "com1";
const MONITOR: &str = "monitor";

impl Booted {
    /// What came over the serial port so far.
    pub(super) fn serial(&self) -> String {
        let bytes = fs::read(self.dir.join(SERIAL)).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    fn last_words(&self) -> String {
        last_lines(&self.serial(), LAST_LINES).join("\n")
    }

    /// Waits until the serial port has said something for which this holds.
    pub(super) fn wait_for(&mut self, holds: impl Fn(&str) -> bool) -> Result<()> {
        while !holds(&self.serial()) {
            let ended = self.process.try_wait()?;
            ensure!(
                ended.is_none() && self.started.elapsed() < PATIENCE,
                "it said only (QEMU: {ended:?})\n{}",
                self.last_words()
            );
            thread::sleep(TICK);
        }
        Ok(())
    }

    /// Types on the serial line.
    pub(super) fn type_in(&self, text: &str) -> Result<()> {
        UnixStream::connect(self.dir.join(COM1))
            .and_then(|mut port| port.write_all(text.as_bytes()))
            .context("cannot reach the serial port")
    }

    /// Has QEMU's monitor do something.
    pub(super) fn monitor(&self, command: &str) -> Result<()> {
        let stream = UnixStream::connect(self.dir.join(MONITOR)).context("no monitor")?;
        let said = Qmp::new(BufReader::new(stream.try_clone()?), stream)?.print(command)?;
        ensure!(said.as_deref() == Some(""), "{command}: {said:?}");
        Ok(())
    }

    /// The screen's pixels, by rows, each red, green and blue.
    pub(super) fn screen(&self) -> Result<(usize, Vec<u8>)> {
        let file = self.dir.join("screen.ppm");
        self.monitor(&format!("screendump {}", file.display()))?;
        let picture = fs::read(file)?;
        // P6, width and height, 255, pixels.
        let mut parts = picture.splitn(4, |byte| *byte == b'\n');
        let size = parts.nth(1).context("no picture")?;
        let width = String::from_utf8_lossy(size);
        let width = width.split(' ').next().context("no width")?.parse()?;
        let pixels = parts.nth(1).context("no pixels")?;
        Ok((width, pixels.to_vec()))
    }

    /// Waits for the end. How it ended, and what came over the serial port.
    pub(super) fn end(mut self) -> Result<(GuestExit, String)> {
        let status = loop {
            if let Some(status) = self.process.try_wait()? {
                break status;
            }
            ensure!(
                self.started.elapsed() < PATIENCE,
                "no end; the serial port's last lines:\n{}",
                self.last_words()
            );
            thread::sleep(TICK);
        };
        let exit = GuestExit::of(status, &self.dir.join(MESSAGES));
        Ok((exit, self.serial()))
    }

    /// The same of a boot that ends well.
    pub(super) fn finish(self) -> Result<String> {
        let (exit, serial) = self.end()?;
        let lines = last_lines(&serial, LAST_LINES).join("\n");
        ensure!(
            exit == GuestExit::Passed,
            "{exit}; the serial port's last lines:\n{lines}"
        );
        Ok(serial)
    }
}
