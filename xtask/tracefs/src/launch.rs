//! Starting a guest to look at, and attaching to one that runs.
//!
//! A guest that is started here runs in the host's time: under icount with `sleep=off` it would race through virtual time
//! whenever nothing happens. If icount is asked for, it stands still between commands ([`Gate`]), and a session can be had
//! once more to the bit. Nobody else can attach to it then. It runs cyclictest, which is what there is to see, until the
//! session ends: not timerlat, whose threads would bear the names of those of the tracer of that name. Its image has the function tracers; while they are off they cost less than one per cent.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use takt_timerlat::config::{Config, CpuMask, Load, Workload};
use takt_tracer::control::gate;

use super::guest::{Guest, Owner};
use takt_base::input;
use takt_base::paths;
use takt_base::setup;
use takt_base::term::WithHelp;
use takt_guest::Elf;
use takt_guest::Ram;
use takt_guest::options::Options;
use takt_guest::words::{self, Words};
use takt_image::Recipe;
use takt_machine::qemu::accel::AccelChoice;
use takt_machine::qemu::{Accel, Gate, Machine, Process, accel};
use takt_machine::run::config::clock_keys;
use takt_machine::run::presence::{LIVE, Live};
use takt_machine::run::{RunFolder, folder, probe};

/// How often the guest looks for settings, in nanoseconds.
pub const CONTROL_NS: u64 = 5_000_000;
/// How long a guest may take to boot.
const BOOT: Duration = Duration::from_secs(30);
/// How long one that runs already may take to tell.
const TELL: Duration = Duration::from_secs(10);

/// What a guest is started with.
#[derive(Debug)]
pub struct Launch<'l> {
    /// More words for the kernel's command line, in Linux's spelling.
    pub append: &'l str,
    /// CPUs.
    pub smp: u8,
    /// Load beside cyclictest.
    pub load: Load,
    /// Boot this instead of building the image.
    pub image: Option<&'l Path>,
    /// Under icount, where time passes by command only.
    pub icount: bool,
    /// May install QEMU.
    pub may_install: bool,
    /// As for building.
    pub verbose: u8,
}

/// Starts a guest. Gives it with the options of output that its words have.
///
/// # Errors
///
/// If it cannot be built or started.
pub fn start(launch: &Launch<'_>) -> Result<(Guest, Options)> {
    setup::ensure_qemu(launch.may_install)?;
    let elf = match launch.image {
        Some(path) => Elf::open(path)?,
        // With every tracer that there is.
        None => {
            let recipe = Recipe::takt(launch.verbose).with_features(&["function"]);
            Elf::open(&recipe.build()?.path)?
        }
    };
    let Words { line, options } = words::translate(launch.append, &elf)?;
    let accel = if launch.icount {
        Accel::TcgIcount
    } else {
        let probe = || probe::probe(&elf.path, Accel::Kvm);
        accel::select(AccelChoice::Auto, false, probe)?.accel
    };
    let run_folder = RunFolder::create(None, false, &paths::runs(), "tracefs")?;
    let dir = run_folder.path().to_owned();
    let image = folder::put_image(&dir, &elf.data)?;
    let ram = Ram::create(&dir)?;
    let gate = launch.icount.then(|| Gate::new(&dir)).transpose()?;
    let control = match gate {
        Some(_) => format!("{}=1", gate::WORD),
        None => format!("control_ns={CONTROL_NS}"),
    };
    let machine = Machine {
        image,
        ram: ram.path().to_owned(),
        dir: dir.clone(),
        cmdline: format!(
            "{} capture=off mode=flight {control} {line}{}",
            workload(launch.smp, launch.load),
            clock_keys(accel),
        ),
        smp: launch.smp,
        accel,
    };
    let devices = |arguments| match &gate {
        Some(gate) => gate.devices(arguments),
        None => arguments,
    };
    let process = Process::start_with(&machine, devices, &dir.join(folder::MESSAGES))
        .help("see what is there: cargo xtask doctor")?;
    if gate.is_none() {
        Live::write(&dir, &ram, accel)?;
    }
    let owner = Owner::Us {
        process,
        folder: run_folder,
        gate,
    };
    Ok((Guest::new(elf, ram, owner, accel, BOOT)?, options))
}

/// A thread of cyclictest on each CPU, one after the other, until the session ends. They are below the tracers' threads,
/// whose latencies they are no cause of.
fn workload(smp: u8, load: Load) -> Config {
    let config = Config::default();
    Config {
        workload: Workload::Cyclictest,
        duration_ns: 0,
        smp: smp.into(),
        cpus: CpuMask::first(smp),
        prio: 80,
        load,
        threads: smp.into(),
        distance_ns: 0,
        stagger_ns: config.period_ns / u64::from(smp),
        ..config
    }
}

/// Attaches to a run that goes on: the folder that it was told to make, its name in `runs`, with or without number, or the
/// folder that it fills meanwhile.
///
/// # Errors
///
/// If there is none of that name, or more than one.
pub fn attach(run: &Path) -> Result<Guest> {
    let dir = find(run)?;
    let live: Live = serde_json::from_slice(&input::read(dir.join(LIVE))?)
        .with_context(|| format!("{} cannot be read", dir.join(LIVE).display()))?;
    let ram = PathBuf::from(format!("/proc/{}/fd/{}", live.pid, live.ram_fd));
    let ram = Ram::open(&ram).with_context(|| {
        format!(
            "cannot get at the RAM of the guest of process {}: it is over, or another user's",
            live.pid
        )
    })?;
    let elf = folder::image(&dir)?;
    let owner = Owner::Other {
        pid: live.pid,
        live: dir.join(LIVE),
    };
    Guest::new(elf, ram, owner, live.accel, TELL)
}

/// The folder that a run in progress is filling.
fn find(run: &Path) -> Result<PathBuf> {
    if run.join(LIVE).is_file() {
        return Ok(run.to_owned());
    }
    let stem = run
        .file_name()
        .context("--attach needs the name of a run")?
        .to_string_lossy()
        .into_owned();
    let parent = std::path::absolute(run)?
        .parent()
        .map_or_else(PathBuf::new, Path::to_owned);
    let mut found: Vec<_> = [parent, paths::runs()]
        .iter()
        .flat_map(|parent| in_progress(parent, &stem))
        .collect();
    found.sort();
    found.dedup();
    match &*found {
        [one] => Ok(one.clone()),
        [] => Err(anyhow!("no run {} goes on", run.display()))
            .help("runs are found while they go on: the name is that of --output, else timerlat, cyclictest or tracefs"),
        many => {
            let folders: Vec<_> = many.iter().map(|dir| format!("\n  {}", dir.display())).collect();
            bail!("{} runs of the name {stem} go on; --attach takes the folder of one:{}", many.len(), folders.concat())
        }
    }
}

/// The folders in `parent` that runs of this name are filling.
fn in_progress(parent: &Path, stem: &str) -> Vec<PathBuf> {
    let prefix = format!(".{stem}.tmp-");
    let entries = fs::read_dir(parent).into_iter().flatten().flatten();
    let named = entries.filter(|entry| {
        let name = entry.file_name();
        let pid = name.to_str().and_then(|name| name.strip_prefix(&prefix));
        pid.and_then(|pid| pid.parse().ok())
            .is_some_and(|pid| !paths::is_process_gone(pid))
    });
    named
        .map(|entry| entry.path())
        .filter(|dir| dir.join(LIVE).is_file())
        .collect()
}
