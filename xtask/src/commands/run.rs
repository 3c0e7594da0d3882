//! `run`: boots an example or any other image, with every event on record, and prints its log and
//! its trace.

use std::fs;
use std::path::Path;
use std::process::ExitCode;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use super::{log, trace};
use crate::cli::{Read, Run};
use crate::guest::rtt::{Rtt, UP_LOG};
use crate::image::symbolize::Symbolizer;
use crate::image::{Elf, Recipe};
use crate::qemu::{Accel, GuestExit, Machine, Process, Ram};
use crate::report::load;
use crate::run::config::clock_keys;
use crate::run::demux::{FileFacts, Rest, demux};
use crate::run::events::resolve;
use crate::run::execute::with_words;
use crate::run::{RunFolder, folder, words};
use crate::{paths, setup};

/// Under icount by definition; otherwise what is assumed, since an image of the user's own need
/// not tell.
const TSC_HZ: u64 = 1_000_000_000;

/// Builds, boots, prints.
pub(super) fn run(flags: &Run) -> Result<ExitCode> {
    if let Some(output) = &flags.output {
        folder::check_free(output, flags.force)?;
    }
    setup::ensure_qemu(!flags.no_install)?;
    let elf = image(flags)?;
    let run_folder = RunFolder::create(
        flags.output.as_deref(),
        flags.force,
        &paths::runs(),
        &flags.name,
    )?;
    let dir = run_folder.path().to_owned();
    let exit = boot(flags, &elf, &dir)?;
    let dir = run_folder.publish()?;

    let read = Read {
        run: Some(dir.clone()),
        json: false,
    };
    println!("# log");
    log::run(&read)?;
    println!("# trace");
    trace::print(&dir)?;
    let serial = fs::read_to_string(dir.join(folder::SERIAL)).unwrap_or_default();
    if !serial.trim().is_empty() {
        println!("# serial port");
        print!("{}", Symbolizer::new(&elf).annotate(&serial));
    }
    eprintln!("{exit}; run folder {}", paths::shown(&dir));
    Ok(match exit {
        GuestExit::Passed => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    })
}

fn image(flags: &Run) -> Result<Elf> {
    let recipe = Recipe {
        package: flags.package.clone(),
        kind: if flags.bin { "--bin" } else { "--example" },
        name: flags.name.clone(),
        ..Recipe::takt(flags.verbose)
    }
    .for_words(&flags.append);
    Elf::open(&recipe.build()?.path)
}

/// Boots the image and leaves a run folder's files in `dir`.
fn boot(flags: &Run, elf: &Elf, dir: &Path) -> Result<GuestExit> {
    let known = words::known(&crate::image::events::table(elf)?);
    let ids: Vec<_> = resolve(&flags.events, &known)?
        .iter()
        .map(ToString::to_string)
        .collect();
    let image = dir.join(folder::IMAGE);
    fs::write(&image, &elf.data).context("cannot copy the image into the run folder")?;
    let ram = Ram::create(dir)?;
    let accel = Accel::TcgIcount;
    let machine = Machine {
        image,
        ram: ram.path().to_owned(),
        dir: dir.to_owned(),
        cmdline: with_words(
            format!("events={} mode=capture{}", ids.join(","), clock_keys(accel)),
            &words::translate(&flags.append, elf)?.line,
        ),
        smp: flags.smp,
        accel,
    };
    fs::write(dir.join(folder::CMDLINE), machine.to_shell() + "\n")?;

    let exit = wait(&machine, dir, Duration::from_secs(flags.timeout))?;
    let rest = Rest {
        log: Rtt::new(elf, &ram)
            .and_then(|rtt| rtt.pending(UP_LOG).ok())
            .unwrap_or_default(),
        trace: Vec::new(),
    };
    let facts = FileFacts::new(elf, TSC_HZ, flags.smp.into());
    let capture = demux(&machine.capture(), dir, facts, &rest)?;
    let record = serde_json::json!({
        "schema": load::BOOT,
        "image": flags.name,
        "kernel_cmdline": machine.cmdline,
        "clocks": { "tsc_hz": TSC_HZ },
        "capture": capture,
    });
    fs::write(dir.join(folder::RECORD), format!("{record:#}\n"))?;
    // Its frames are in the other two files.
    let _ = fs::remove_file(machine.capture());
    Ok(exit)
}

fn wait(machine: &Machine, dir: &Path, limit: Duration) -> Result<GuestExit> {
    let messages = dir.join(folder::MESSAGES);
    let mut process = Process::start(machine, &messages)?;
    let started = Instant::now();
    loop {
        if let Some(status) = process.try_wait()? {
            return Ok(GuestExit::of(status, &messages));
        }
        if started.elapsed() >= limit {
            let status = process.kill()?;
            eprintln!("stopped after {} s (--timeout)", limit.as_secs());
            return Ok(GuestExit::of(status, &messages));
        }
        thread::sleep(Duration::from_millis(5));
    }
}
