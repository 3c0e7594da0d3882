//! The bound of a run's thread latency, proved of the image that it ran (`latency-run --auto`).

use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use takt_timerlat::config::{Load, Policy, User, Workload};
use takt_tracer::control::Tracer;

use takt_base::term::{note, one_line};
use takt_guest::{rings, words};
use takt_machine::qemu::Accel;
use takt_machine::record::{Run, SlotRecord, Verdict};
use takt_machine::run::folder;
use takt_machine::samples::Trace;
use takt_results::analysis::arrivals::{self, Interrupts};
use takt_results::analysis::bound::{Bound, Kept, Part, Parts};
use takt_sweep::latency::{Setting, Term, Terms, terms};

/// Events without which nobody knows what interrupts there were.
const NEEDED: [&str; 5] = [
    "irq:irq_handler_entry",
    "timer:timer_start",
    "timer:timer_expire",
    "timerlat:timerlat_irq",
    "mutex:mutex_contended",
];

/// Proves it, and keeps it in the run's folder; or why there is none, which is no error.
pub(super) fn keep(dir: &Path, run: &Run) {
    let kept = match prove(dir, run) {
        Ok(bound) => Kept::Bound(Box::new(bound)),
        Err(error) => Kept::None(one_line(&error)),
    };
    if let Err(error) = kept.keep(dir) {
        note(format_args!("the bound is not kept: {}", one_line(&error)));
    }
}

/// What is kept, if anything is.
pub(super) fn kept(dir: &Path) -> Option<Kept> {
    Kept::read(dir).unwrap_or_else(|error| {
        note(format_args!("there is no bound: {}", one_line(&error)));
        None
    })
}

fn prove(dir: &Path, run: &Run) -> Result<Bound> {
    let slot = slot(run)?;
    let elf = folder::image(dir)?;
    let known = words::known(&takt_guest::events::table(&elf)?);
    let recorded = |id: &u32| run.record.event_ids.contains(id);
    let events: Vec<_> = known.into_iter().filter(|it| recorded(&it.id)).collect();
    for name in NEEDED {
        ensure!(
            events.iter().any(|it| it.name == name),
            "without the event {name} it is not known what interrupts there were"
        );
    }
    let tids: Vec<u64> = run.record.threads.iter().map(|it| it.tid.into()).collect();
    let cpu = u8::try_from(slot.cpu)?;
    let is_thread = |timer| tids.contains(&timer);
    let interrupts = arrivals::read(&mut Trace::open(dir, run)?, cpu, is_thread)?;
    check(&interrupts, run)?;
    let setting = Setting {
        events: events.into_iter().map(|it| (it.id, it.name)).collect(),
        counts: counts(run),
        armed: interrupts.armed as u64,
        asked: asked(run),
    };
    let found = terms(&dir.join(folder::IMAGE), &setting)?;
    let without = found.without.clone();
    let observed = slot.thread.max.context("no thread latency was measured")?;
    let parts = Parts {
        sub_size: elf.symbol(rings::SUB_SIZE)?,
        ..parts(found)
    };
    Bound::new(
        parts,
        &interrupts.arrivals,
        slot.interval_ns,
        observed,
        without,
    )
    .context("it would be longer than the period")
}

/// The measured thread, if a bound is known of such a run.
fn slot(run: &Run) -> Result<&SlotRecord> {
    let (record, config) = (&run.record, &run.record.config);
    if record.accel.accel != Accel::TcgIcount {
        bail!("an instruction takes a nanosecond under icount only");
    }
    ensure!(config.smp == 1, "it is of one CPU, and {} run", config.smp);
    if config.workload != Workload::Timerlat || config.user != User::None {
        bail!("it is of timerlat's kernel threads only");
    }
    ensure!(
        config.tracer == Tracer::Nop,
        "the tracer {} was on",
        config.tracer
    );
    ensure!(record.result != Verdict::Error, "the run has failed");
    if let Some(word) = further_words(run).first() {
        bail!("what `{word}` means to it is not known");
    }
    let [slot] = &*record.slots else {
        bail!("{} threads were measured", record.slots.len());
    };
    ensure!(
        slot.missed == 0 && slot.negative == 0,
        "activations were missed"
    );
    let is_above = |it: &&takt_machine::record::ThreadRecord| {
        it.cpu == slot.cpu && u32::from(it.tid) != slot.tid && it.priority >= slot.priority
    };
    if let Some(it) = record.threads.iter().find(is_above) {
        bail!("the thread {} is as important", it.name);
    }
    Ok(slot)
}

/// Words of the command line that `latency-run` has not put there.
fn further_words(run: &Run) -> Vec<&str> {
    let record = &run.record;
    let own = record
        .config
        .kernel_cmdline(record.accel.accel, &record.event_ids);
    let own: Vec<_> = own.split_whitespace().collect();
    let all = record.kernel_cmdline.split_whitespace();
    all.filter(|it| !own.contains(it) && !it.starts_with(PLANT))
        .collect()
}

/// How long the load `plant` keeps interrupts or preemption off.
const PLANT: &str = "plant_ns=";

fn asked(run: &Run) -> Option<u64> {
    if run.record.config.load != Load::Plant {
        return None;
    }
    let words = run.record.kernel_cmdline.split_whitespace();
    words
        .filter_map(|it| it.strip_prefix(PLANT))
        .next_back()?
        .parse()
        .ok()
}

/// Whether something is counted at switches.
fn counts(run: &Run) -> bool {
    let has_counted = run.record.threads.iter().any(|it| it.switches.is_some());
    has_counted || run.record.config.policy == Policy::RoundRobin
}

/// Whether all that came is known to the proof.
fn check(interrupts: &Interrupts, run: &Run) -> Result<()> {
    if let Some(vector) = interrupts.devices.first() {
        bail!("what the handler of interrupt {vector} takes is not known");
    }
    ensure!(
        !interrupts.timed_out_of_mutex,
        "a time-out ended a wait for a mutex, and went along its owners"
    );
    let is_known = matches!(run.record.config.load, Load::Irq | Load::Mix);
    ensure!(
        interrupts.timers.len() <= usize::from(is_known),
        "what the functions of other timers take is not known"
    );
    Ok(())
}

fn parts(found: Terms) -> Parts {
    let part = |it: Term| Part {
        instructions: it.instructions,
        place: it.place,
    };
    let mut switch = part(found.switch);
    switch.instructions += found.clock.instructions;
    Parts {
        irqs_off: part(found.irqs_off),
        preempt_off: part(found.preempt_off),
        switching: part(found.switching),
        interrupt: part(found.interrupt),
        enabled: part(found.enabled),
        switch,
        timer: part(found.timer),
        full: found.full,
        sub_size: 0,
    }
}
