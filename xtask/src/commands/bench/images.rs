//! Building and booting the benchmark images.

use std::ffi::OsString;
use std::fs;
use std::path::PathBuf;
use std::time::Duration;
use std::{env, thread};

use anyhow::{Context, Result, bail};

use takt_guest::Elf;
use takt_guest::Ram;
use takt_image::build::Capacities;
use takt_image::{Recipe, small};
use takt_machine::qemu::{Accel, GuestExit, Machine, Process, Served};
use takt_machine::run::config::clock_keys;

/// How long a boot may take; time for which the host was busy with others does not count.
const LIMIT: Duration = Duration::from_secs(120);

/// The image `bench` with functions that can be traced.
pub(super) const FUNCTIONS: &str = "bench-function";

/// One CPU, so that there are ids for 250 threads.
const BENCH: Capacities = Capacities {
    name: "bench",
    profile: "image",
    variables: &[("TAKT_MAX_CPUS", "1")],
};

/// Just enough for some events.
const EVENTS: Capacities = Capacities {
    name: "events",
    profile: "image",
    variables: &[
        ("TAKT_MAX_CPUS", "1"),
        ("TAKT_MAX_THREADS", "4"),
        ("TAKT_MAX_TIMERS", "4"),
        ("TAKT_TRACE_SUB_SIZE", "1024"),
        ("TAKT_TRACE_NR_SUBS", "2"),
    ],
};

fn recipe(name: &str) -> Recipe {
    if name == "minimal" {
        return small::recipe(None);
    }
    let mut features = vec!["base".into()];
    if is_bench(name) {
        features.push("latency-tracers".into());
    }
    Recipe {
        package: "takt-bench".into(),
        kind: "--bin",
        name: if name == FUNCTIONS { "bench" } else { name }.into(),
        features,
        defmt_log: if is_bench(name) { "info" } else { "off" }.into(),
        capacities: Some(if is_bench(name) { BENCH } else { EVENTS }),
        manifest: None,
        dir: None,
        verbose: false,
    }
    .with_features(if name == FUNCTIONS {
        &["function"]
    } else {
        &[]
    })
}

fn is_bench(name: &str) -> bool {
    name == "bench" || name == FUNCTIONS
}

/// Builds an image of the benchmark package, with the capacities that it wants.
pub(super) fn build(name: &str) -> Result<Elf> {
    Elf::open(&recipe(name).build()?.path)
}

/// The image that `latency-run` boots, as it is built for that, with these features besides.
pub(super) fn takt(features: &[&str]) -> Result<Elf> {
    Elf::open(&Recipe::takt(0).with_features(features).build()?.path)
}

/// A folder for what guests write, gone in the end.
pub(in super::super) struct Folder(PathBuf);

/// A guest that has ended well.
pub(in super::super) struct Booted {
    /// Its memory.
    pub(super) ram: Ram,
    /// What it wrote to the serial port.
    pub(super) serial: String,
}

impl Folder {
    pub(in super::super) fn create() -> Result<Self> {
        Self::create_at(env::temp_dir().join(format!("takt-bench-{}", std::process::id())))
    }

    /// The folder of this name.
    pub(in super::super) fn create_at(path: PathBuf) -> Result<Self> {
        fs::create_dir_all(&path)
            .with_context(|| format!("cannot make the folder {}", path.display()))?;
        Ok(Self(path))
    }

    /// The frames that the last guest sent.
    pub(super) fn capture(&self) -> PathBuf {
        self.0.join("capture.bin")
    }

    /// A file in it.
    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// Boots an image under icount and waits for its end.
    pub(in super::super) fn boot(&self, elf: &Elf, cmdline: &str) -> Result<Booted> {
        self.boot_with(elf, cmdline, |arguments| arguments)
    }

    /// The image that counts instructions, on a machine with the device that it measures besides; with QEMU's arguments
    /// changed.
    pub(super) fn boot_counting(
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
    pub(super) fn boot_with(
        &self,
        elf: &Elf,
        cmdline: &str,
        change: impl FnOnce(Vec<OsString>) -> Vec<OsString>,
    ) -> Result<Booted> {
        self.boot_on(1, elf, cmdline, change)
    }

    /// The same on so many CPUs.
    pub(super) fn boot_on(
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
            if served.elapsed() > LIMIT {
                bail!("the image did not end within {} s", LIMIT.as_secs());
            }
            thread::sleep(Duration::from_millis(5));
        };
        let serial = fs::read_to_string(machine.serial()).unwrap_or_default();
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

/// Reads the lines `bench NAME UNIT VALUE`: names and values, in their order.
pub(super) fn lines(serial: &str) -> Result<Vec<(String, u64)>> {
    let mut rows = Vec::new();
    for line in serial.lines() {
        let words: Vec<_> = line.split_ascii_whitespace().collect();
        if let ["bench", name, _, value] = *words {
            let value = value
                .parse()
                .with_context(|| format!("the image said `{line}`"))?;
            rows.push((name.into(), value));
        }
    }
    if rows.is_empty() {
        bail!("the image said nothing of use:\n{serial}");
    }
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read() {
        let rows = lines("hello\nbench yield insn 73\nbench x B 8\n").unwrap();
        assert_eq!(rows, [("yield".into(), 73), ("x".into(), 8)]);
        assert!(lines("bench yield insn many").is_err());
        assert!(lines("").is_err());
    }
}
