//! `run`: boots an example or any other image, with every event on record, and prints its log and
//! its trace.

use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Result, ensure};
use takt_decode::{EventDef, EventTable};
use takt_tracer::event::Layout;

use super::{log, trace};
use takt_base::{input, output, paths, setup, term};
use takt_cli::Run;
use takt_guest::Elf;
use takt_guest::Ram;
use takt_guest::patterns::{means, resolve};
use takt_guest::words;
use takt_image::elsewhere::Elsewhere;
use takt_image::tasks::Manifest;
use takt_image::{Recipe, elsewhere};
use takt_machine::load::Facts;
use takt_machine::qemu::command::{escape, shell};
use takt_machine::qemu::{Accel, Machine};
use takt_machine::run::boot::boot;
use takt_machine::run::config::clock_keys;
use takt_machine::run::console::Console;
use takt_machine::run::execute::with_words;
use takt_machine::run::{RunFolder, folder};

/// The kernel's events that are recorded unless the user says otherwise.
const KERNEL_EVENTS: [&str; 6] = ["sched", "irq", "timer", "mutex", "task", "print"];

/// COM2's first port.
const COM2: u64 = 0x2f8;

/// How long a guest without a console may take.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Builds, boots, prints.
pub(super) fn run(flags: &Run) -> Result<ExitCode> {
    if let Some(output) = &flags.output {
        folder::check_free(output, flags.force)?;
    }
    setup::ensure_qemu(!flags.no_install)?;
    let elf = image(flags)?;
    let name = elf.path.file_stem().unwrap_or_default();
    let run_folder = RunFolder::create(
        flags.output.as_deref(),
        flags.force,
        &paths::runs(),
        &name.to_string_lossy(),
    )?;
    let ram = Ram::create(run_folder.path())?;
    let machine = machine(flags, &elf, run_folder.path(), &ram)?;
    let more = more(flags, run_folder.path())?;
    let command = format!("{} {}\n", machine.to_shell(), shell(&more));
    fs::write(run_folder.path().join(folder::CMDLINE), command)?;
    let console = flags.serial.as_ref().map(Console::open).transpose()?;
    let limit = match (flags.timeout, &console) {
        (Some(seconds), _) => Duration::from_secs(seconds),
        (None, None) => TIMEOUT,
        (None, Some(_)) => Duration::MAX,
    };
    let booted = boot(&machine, &more, &elf, &ram, limit, console)?;
    let dir = run_folder.publish()?;
    let shown = show(&elf, &dir, flags.serial.is_some());
    tell!("{}; run folder {}", booted.end, paths::shown(&dir));
    for place in &booted.places {
        tell!("  {place}");
    }
    if booted.restarts != 0 {
        term::note(format_args!(
            "the guest began anew {} times: log and trace are those of its last boot",
            booted.restarts
        ));
    }
    for loss in &booted.losses {
        term::note(loss);
    }
    shown?;
    Ok(ExitCode::from(booted.exit_code()))
}

/// Prints what the guest has left. What cannot be read does not keep the rest from being printed.
pub(super) fn show(elf: &Elf, dir: &Path, has_seen_serial: bool) -> Result<()> {
    let serial = || {
        let serial = input::read(dir.join(folder::SERIAL)).unwrap_or_default();
        let serial = term::printable(&serial);
        if has_seen_serial || serial.trim().is_empty() {
            return Ok(ExitCode::SUCCESS);
        }
        let text = elf.annotate(&serial);
        output::print(&format!("# serial port\n{text}"))
    };
    let log = output::print("# log\n").and_then(|_| log::print(dir, &Facts::read(dir), false));
    let trace = output::print("# trace\n").and_then(|_| trace::print(dir));
    log.and(trace).and(serial()).map(drop)
}

/// More arguments for QEMU: the user's, and COM2 if a task has it.
fn more(flags: &Run, dir: &Path) -> Result<Vec<OsString>> {
    let mut more: Vec<_> = flags.qemu.split_whitespace().map(Into::into).collect();
    let manifest = flags.manifest.as_deref().map(Manifest::read).transpose()?;
    if manifest.is_some_and(|it| it.has_port(COM2)) {
        let sent = dir.join(folder::COM2);
        let link = format!("file,id=com2,path={}", escape(&sent));
        more.extend(["-chardev", &link, "-serial", "chardev:com2"].map(Into::into));
    }
    Ok(more)
}

fn image(flags: &Run) -> Result<Elf> {
    if let Some(image) = &flags.image {
        return Elf::open(image);
    }
    let kind = if flags.bin { "--bin" } else { "--example" };
    if let Some(manifest) = &flags.manifest_path {
        let elsewhere = Elsewhere {
            manifest,
            package: flags.package.as_deref(),
            what: flags.name.as_deref().map(|name| (kind, name)),
            features: &elsewhere::features(&flags.features, &flags.append),
        };
        return Elf::open(&elsewhere.build()?);
    }
    let takt = Recipe::takt(flags.verbose);
    if let Some(manifest) = &flags.manifest {
        let recipe = Recipe::of_manifest(manifest, flags.verbose)?.with_features(&flags.features);
        return Elf::open(&recipe.for_words(&flags.append).build()?.path);
    }
    let recipe = Recipe {
        package: flags.package.clone().unwrap_or(takt.package.clone()),
        kind,
        // Clap demands one of the three.
        name: flags.name.clone().unwrap_or_default(),
        ..takt
    }
    .with_features(&flags.features)
    .for_words(&flags.append);
    Elf::open(&recipe.build()?.path)
}

/// What is recorded unless the user says otherwise: the usual events of the kernel, as far as the image has them, and all
/// that the application has declared, which are those of layout `wide`; of the kernel's own tracers `hwlat` has one too.
fn default_events(table: &EventTable) -> Vec<String> {
    let is_wanted = |event: &&EventDef| {
        let is_own = event.layout == Layout::Wide && event.system() != "tracer";
        is_own || KERNEL_EVENTS.iter().any(|it| means(it, &event.name))
    };
    let wanted = table.iter().filter(is_wanted);
    wanted.map(|event| event.name.clone()).collect()
}

/// How many CPUs the guest has: enough for its tasks.
fn smp(flags: &Run) -> Result<u8> {
    let needed = match &flags.manifest {
        Some(manifest) => Manifest::read(manifest)?.nr_cpus(),
        None => 1,
    };
    let smp = flags.smp.unwrap_or(needed);
    ensure!(
        smp >= needed,
        "the manifest has a task for CPU {}, but --smp {smp} ends at CPU {}",
        needed - 1,
        smp - 1
    );
    Ok(smp)
}

/// The machine to boot, with its image in the run folder and how it is booted.
fn machine(flags: &Run, elf: &Elf, dir: &Path, ram: &Ram) -> Result<Machine> {
    let table = takt_guest::events::table(elf)?;
    let events = match &*flags.events {
        [] => default_events(&table),
        given => given.to_vec(),
    };
    let ids: Vec<_> = resolve(&events, &words::known(&table))?
        .iter()
        .map(ToString::to_string)
        .collect();
    let image = folder::put_image(dir, &elf.data)?;
    let accel = Accel::TcgIcount;
    let machine = Machine {
        image,
        ram: ram.path().to_owned(),
        dir: dir.to_owned(),
        cmdline: with_words(
            format!("events={} mode=capture{}", ids.join(","), clock_keys(accel)),
            &words::translate(&flags.append, elf)?.line,
        ),
        smp: smp(flags)?,
        accel,
    };
    Ok(machine)
}
