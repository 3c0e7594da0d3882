//! One measurement of Linux: from its packages to its distributions.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use takt_timerlat::stats::ExactHistogram;
use tempfile::TempDir;

use super::kernel::Kernel;
use super::machine::LinuxMachine;
use super::packages::{self, Packages};
use super::watch::Watcher;
use super::{PRIORITY, Settings, cyclictest, initramfs, timerlat};
use takt_base::input;
use takt_base::term::WithHelp;
use takt_base::tool;
use takt_guest::Ram;
use takt_machine::qemu::Process;
use takt_machine::record::Distributions;
use takt_machine::run::folder::{CMDLINE, MESSAGES};
use takt_machine::run::last_words::tail;

/// Ticks a second, if the kernel's configuration does not say: Debian's.
const HZ: u64 = 250;
/// Lines of the console that are shown of a guest that failed.
const LAST_LINES: usize = 20;
/// Instructions that QEMU translates and executes in a second, for telling how long it will take: a slow machine's.
const RATE: u64 = 60_000_000;

/// Linux, ready to be booted, in a folder that goes away with this.
#[derive(Debug)]
pub struct Linux {
    scratch: TempDir,
    kernel: Kernel,
    initramfs: PathBuf,
}

impl Linux {
    /// Unpacks the packages into `dir`. Programs that are needed for it are installed if they may be.
    ///
    /// # Errors
    ///
    /// If the packages are not what they should be.
    pub fn unpack(packages: &Packages, dir: &Path, may_install: bool) -> Result<Self> {
        let scratch = takt_base::scratch::folder_in(dir)?;
        let kernel = Kernel::unpack(&packages.kernel, &[], scratch.path(), may_install)?;
        let root = scratch.path().join("root");
        for package in &packages.others {
            packages::unpack(&package.file, &root)?;
        }
        let initramfs = scratch.path().join("initramfs");
        initramfs::write(&root, &initramfs)?;
        Ok(Self {
            scratch,
            kernel,
            initramfs,
        })
    }
}

/// What came of it.
#[derive(Clone, Debug, Default)]
pub struct Measured {
    /// timerlat's.
    pub timerlat: Distributions,
    /// cyclictest's.
    pub cyclictest: ExactHistogram,
    /// Why the figures cannot be trusted.
    pub taint: Vec<String>,
}

/// A guest that is over.
#[derive(Clone, Debug)]
pub struct Finished {
    /// The figures, or what was wrong.
    pub measured: Result<Measured, String>,
    /// Its version in its own words.
    pub version: String,
    /// When its `init` began to run, in its own time.
    pub booted_ns: Option<u64>,
    /// Real time.
    pub took: Duration,
    /// The end of its console, and of what QEMU said.
    pub last_words: String,
}

/// Boots it and has it measured. What it writes is kept in `dir`.
///
/// # Errors
///
/// If it cannot be booted, or the user wants out. A guest that fails is no error here.
pub fn run(linux: &Linux, settings: Settings, dir: &Path, is_quiet: bool) -> Result<Finished> {
    let kernel = &linux.kernel;
    let ram = Ram::create_sized(linux.scratch.path(), LinuxMachine::ram_mib(&settings))?;
    let machine = LinuxMachine {
        kernel: kernel.elf.clone(),
        initramfs: linux.initramfs.clone(),
        ram: ram.path().to_owned(),
        dir: dir.to_owned(),
        settings,
    };
    fs::create_dir_all(dir)
        .and_then(|()| fs::write(dir.join(CMDLINE), machine.to_shell() + "\n"))
        .and_then(|()| fs::write(dir.join("init.sh"), initramfs::INIT))
        .and_then(|()| fs::write(dir.join("kernel-config"), &kernel.config))
        .context("cannot write into the run folder")?;

    let messages = dir.join(MESSAGES);
    let process = Process::spawn(&machine.arguments(), true, &messages)
        .help("see what is there: cargo xtask doctor")?;
    let hz = kernel.hz().unwrap_or(HZ);
    let ended = Watcher::new(process, &machine, &ram, hz, is_quiet).run()?;
    let measured = match ended.error {
        Some(error) => Err(error),
        None => read(&machine).map_err(|error| format!("{error:#}")),
    };
    Ok(Finished {
        measured,
        version: version(&machine.console()),
        booted_ns: ended.console.booted_ns,
        took: ended.took,
        last_words: last_words(&machine, &messages),
    })
}

/// Unpacks the results and reads them.
fn read(machine: &LinuxMachine) -> Result<Measured> {
    let (dir, settings) = (&machine.dir, &machine.settings);
    let archive = machine.results();
    tool::output(
        Command::new("tar")
            .arg("-xzf")
            .arg(&archive)
            .arg("-C")
            .arg(dir),
    )
    .context("the results came damaged")?;
    // Its files are there now.
    let _ = fs::remove_file(archive);
    let text = |name: &str| {
        let bytes = input::read(dir.join(name)).with_context(|| format!("Linux sent no {name}"))?;
        anyhow::Ok(String::from_utf8_lossy(&bytes).into_owned())
    };
    let samples = timerlat::parse(&text("timerlat-trace.txt")?).context("timerlat's trace")?;
    let stats = timerlat::stats(&text("timerlat-stats.txt")?)?;
    let mut taint = Vec::new();
    if stats.lost != 0 {
        taint.push(format!("Linux lost {} records of timerlat", stats.lost));
    } else if stats.entries != samples.len() as u64 {
        let (recorded, came) = (stats.entries, samples.len());
        taint.push(format!("Linux recorded {recorded} latencies, {came} came"));
    }
    let priority = text("priority.txt")?;
    if priority.trim() != format!("{PRIORITY} 1") {
        taint.push(format!(
            "Linux's timerlat did not have FIFO {PRIORITY}: priority and policy were `{}`",
            priority.trim()
        ));
    }
    let cyclictest = cyclictest::parse(&text("cyclictest.txt")?).context("cyclictest's output")?;
    let wanted = settings.activations();
    ensure!(
        cyclictest.count() == wanted,
        "cyclictest was to take {wanted} samples, it took {}",
        cyclictest.count()
    );
    Ok(Measured {
        timerlat: timerlat::distributions(&samples, settings)?,
        cyclictest,
        taint,
    })
}

/// The line by which the kernel says what it is.
fn version(console: &Path) -> String {
    let bytes = input::read(console).unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    let line = text
        .lines()
        .find_map(|line| Some(line.split_once("Linux version ")?.1.trim()));
    line.unwrap_or("unknown").to_owned()
}

fn last_words(machine: &LinuxMachine, messages: &Path) -> String {
    let mut out = String::new();
    for (title, path) in [("console", machine.console().as_path()), ("QEMU", messages)] {
        for (index, line) in tail(path, LAST_LINES).iter().enumerate() {
            let title = if index == 0 { title } else { "" };
            out += &format!("{title:>8}  {line}\n");
        }
    }
    if fs::metadata(messages).is_ok_and(|meta| meta.len() == 0) {
        let _ = fs::remove_file(messages);
    }
    out
}

/// How long it will take on a slow machine, in seconds of real time. Time in which a CPU sleeps is skipped, so a load
/// makes it long.
#[must_use]
pub fn estimate_s(settings: &Settings) -> u64 {
    use takt_timerlat::config::Load;
    let timerlat_ns = settings.warm_up_ns + settings.duration_ns;
    let busy = match settings.load {
        Load::None => 0,
        _ => timerlat_ns + settings.duration_ns,
    };
    // The boot, an activation of each with its line of results, and the load.
    (1_700_000_000 + settings.activations() * 250_000 + busy).div_ceil(RATE)
}
