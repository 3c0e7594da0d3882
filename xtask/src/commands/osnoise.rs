//! `osnoise` and `hwnoise`: what keeps a thread that computes from doing so.

use std::fs;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Result, anyhow, bail};
use console::style;
use takt_timerlat::config::{Config, CpuMask, Load, Workload};
use takt_timerlat::stats::Status;
use takt_tracer::control::osnoise::{Flag, Param};
use takt_tracer::control::setting::{Ids, Osnoise as Parameter};
use takt_tracer::control::{Setting, Tracer};

use super::trace;
use takt_base::term::WithHelp;
use takt_base::units::CpuSet;
use takt_base::{EXIT_THRESHOLD, output, paths, setup};
use takt_cli::{Osnoise, OsnoiseCommand, Sampling};
use takt_guest::Ram;
use takt_guest::{Elf, events};
use takt_guest::{patterns, words};
use takt_image::Recipe;
use takt_machine::osnoise::Measured;
use takt_machine::osnoise::table::{self, Columns};
use takt_machine::qemu::{Accel, Machine};
use takt_machine::run::boot::boot;
use takt_machine::run::config::clock_keys;
use takt_machine::run::{RunFolder, folder};

/// What is always recorded beside the tracer's own samples.
const EVENTS: &str = "osnoise:sample_threshold";
/// How long Takt's own image is measured unless the user says otherwise, in nanoseconds.
const DURATION: u64 = 1_000_000_000;
/// What is noise on one CPU unless the user says otherwise, in nanoseconds.
const THRESHOLD: u64 = 1_000;
/// How long an application may take, in seconds of real time, that has no duration.
const TIMEOUT: u64 = 600;
/// What stands below figures that were taken with several CPUs.
const HAS_TURNS: &str =
    "# All times have the turns of the other CPUs in them: QEMU runs one after the other.\n";
/// Exit code of a run of which something is missing.
const EXIT_TAINTED: u8 = 3;

/// `osnoise top` and `osnoise hist`.
pub(super) fn run(flags: &Osnoise) -> Result<ExitCode> {
    match &flags.command {
        OsnoiseCommand::Top(sampling) => {
            measure(sampling, Flag::Workload.bit(), |it, has_turns| {
                table::top(it, Columns::All, has_turns)
            })
        }
        OsnoiseCommand::Hist(hist) => measure(&hist.sampling, Flag::Workload.bit(), |it, _| {
            table::hist(it, hist.bucket_size, hist.entries)
        }),
    }
}

/// `hwnoise`: interrupts are off while a CPU samples.
pub(super) fn hwnoise(sampling: &Sampling) -> Result<ExitCode> {
    let options = Flag::Workload.bit() | Flag::IrqDisable.bit();
    measure(sampling, options, |it, has_turns| {
        table::top(it, Columns::Hardware, has_turns)
    })
}

fn measure(
    flags: &Sampling,
    options: u64,
    show: impl FnOnce(&Measured, bool) -> String,
) -> Result<ExitCode> {
    if let Some(output) = &flags.output {
        folder::check_free(output, flags.force)?;
    }
    let smp = flags
        .smp
        .unwrap_or_else(|| flags.cpus.map_or(1, CpuSet::needed_smp));
    let cpus = measured_cpus(flags, smp)?;
    if flags.runtime > flags.period || flags.runtime == 0 {
        bail!("--runtime is to be above 0 and no longer than --period");
    }
    setup::ensure_qemu(!flags.no_install)?;
    let elf = image(flags)?;
    let run_folder = RunFolder::create(
        flags.output.as_deref(),
        flags.force,
        &paths::runs(),
        "osnoise",
    )?;
    let ram = Ram::create(run_folder.path())?;
    let machine = machine(flags, &elf, run_folder.path(), &ram, (smp, cpus, options))?;
    let limit = flags.timeout.or((!measures(&elf)).then_some(TIMEOUT));
    let limit = limit.map_or(Duration::MAX, Duration::from_secs);
    let booted = boot(&machine, &[], &elf, &ram, limit, None)?;
    let dir = run_folder.publish()?;
    let has_turns = smp > 1;
    let measured = Measured::read(&dir, &elf, has_turns)?;
    let has_sampled = measured.cpus.values().any(|cpu| cpu.count > 0);
    if booted.exit_code() == 0 && measured.stopped.is_none() && !has_sampled {
        return Err(anyhow!("no sampling was completed")).help(match measures(&elf) {
            _ if measured.lost != 0 => "it is not in the trace, which noises filled: raise --threshold",
            true => "--duration is to be longer than --period",
            false => {
                "the application was over before: shorten --period and --runtime; the tracer is set in an image that has \
                 takt-board's feature `settings`"
            }
        });
    }
    if let (Some(file), Some(_)) = (&flags.trace, &measured.stopped) {
        trace::save(&dir, file)?;
    }
    if flags.json {
        output::print(&output::json_pretty(&measured)?)?;
    } else {
        output::print(&show(&measured, has_turns))?;
        if has_turns {
            output::print(HAS_TURNS)?;
        }
    }
    if flags.debug {
        tell!("kernel args  {}", machine.cmdline);
        tell!("run folder   {}", paths::shown(&dir));
    }
    if booted.exit_code() != 0 {
        tell!(
            "{} {}",
            style("error:").red().bold().for_stderr(),
            booted.end
        );
        return Ok(ExitCode::from(booted.exit_code()));
    }
    if measured.lost != 0 {
        tell!(
            "{} events are not in the trace: raise --threshold",
            measured.lost
        );
        return Ok(ExitCode::from(EXIT_TAINTED));
    }
    match &measured.stopped {
        Some(why) => {
            tell!("osnoise {why}");
            Ok(ExitCode::from(EXIT_THRESHOLD))
        }
        None => Ok(ExitCode::SUCCESS),
    }
}

/// The image: the user's, or ours, built if it is not up to date.
fn image(flags: &Sampling) -> Result<Elf> {
    let Some(path) = &flags.image else {
        return Elf::open(&Recipe::takt(0).build()?.path);
    };
    let elf = Elf::open(path)?;
    let shown = path.display();
    if !events::table(&elf)?
        .iter()
        .any(|event| event.name == EVENTS)
    {
        return Err(anyhow!(
            "the image {shown} does not have the tracer osnoise"
        ))
        .help("build it with takt-board's feature `osnoise`, which is a default one");
    }
    if !measures(&elf) && (flags.duration.is_some() || flags.load != Load::None) {
        return Err(anyhow!(
            "the image {shown} has none of takt_timerlat's workloads: it knows neither a duration nor a load"
        ))
        .help("leave out --duration and --load: it is sampled until it ends, until --timeout or Ctrl-C");
    }
    Ok(elf)
}

/// Whether an image has workloads, which end when they are told to.
fn measures(elf: &Elf) -> bool {
    elf.symbol(Status::SYMBOL).is_ok()
}

/// A bit for each CPU that is measured.
fn measured_cpus(flags: &Sampling, smp: u8) -> Result<u32> {
    let all = CpuMask::first(smp).0;
    let asked = flags.cpus.map_or(all, |cpus| cpus.mask().into());
    if asked & !all != 0 {
        bail!("--cpus names a CPU that --smp {smp} has not");
    }
    let kept = flags.house_keeping.map_or(0, |cpus| u32::from(cpus.mask()));
    if kept & !all != 0 {
        bail!("--house-keeping names a CPU that --smp {smp} has not");
    }
    match asked & !kept {
        0 => bail!("no CPU is left to measure on"),
        cpus => Ok(cpus),
    }
}

fn machine(
    flags: &Sampling,
    elf: &Elf,
    dir: &Path,
    ram: &Ram,
    (smp, cpus, options): (u8, u32, u64),
) -> Result<Machine> {
    let known = words::known(&events::table(elf)?);
    let mut wanted = vec![EVENTS.to_owned()];
    wanted.extend(flags.event.iter().cloned());
    let ids: Vec<_> = patterns::resolve(&wanted, &known)?
        .iter()
        .map(ToString::to_string)
        .collect();
    let ids = ids.join(",");
    let config = Config {
        workload: Workload::None,
        duration_ns: flags.duration.unwrap_or(DURATION),
        smp: smp.into(),
        cpus: CpuMask(cpus),
        load: flags.load,
        ..Config::default()
    };
    let mut line = vec![config.to_string()];
    let mut set = |setting: Setting<'_>| line.push(setting.to_string());
    set(Setting::Events(Ids::parse(&ids).expect("ids are numbers")));
    set(Setting::Overwrite(false));
    // Each CPU that records a noise keeps all others waiting, under icount: with less they would record each other's turns
    // without end.
    let threshold = flags.threshold.unwrap_or(THRESHOLD * u64::from(smp));
    set(Setting::Thresh(threshold));
    // Either is possible at any time: first what makes room for the other.
    let parameters = [
        (Param::Runtime, 1),
        (Param::Period, flags.period),
        (Param::Runtime, flags.runtime),
        (Param::Cpus, cpus.into()),
        (Param::StopTracing, flags.stop.unwrap_or(0)),
        (Param::StopTracingTotal, flags.stop_total.unwrap_or(0)),
        (Param::Options, options),
    ];
    for (param, value) in parameters {
        set(Setting::Osnoise(Parameter { param, value }));
    }
    // Last: from its first sample on it is about what was asked for.
    set(Setting::Tracer(Tracer::Osnoise.name()));
    let accel = Accel::TcgIcount;
    let image = dir.join(folder::IMAGE);
    fs::write(&image, &elf.data)?;
    let machine = Machine {
        image,
        ram: ram.path().to_owned(),
        dir: dir.to_owned(),
        cmdline: line.join(" ") + clock_keys(accel),
        smp,
        accel,
    };
    fs::write(dir.join(folder::CMDLINE), machine.to_shell() + "\n")?;
    Ok(machine)
}
