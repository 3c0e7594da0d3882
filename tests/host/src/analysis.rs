//! `latency-run --auto`: what crossed the limit is taken apart, and nothing is left over.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};

use super::Stage;
use takt_guest::Elf;
use takt_guest::patterns::resolve;
use takt_guest::place::Kind;
use takt_guest::place::Names;
use takt_guest::words;
use takt_image::Recipe;
use takt_machine::qemu::{Accel, GuestExit};
use takt_machine::run::config::clock_keys;
use takt_machine::run::demux::{FileFacts, Rest, demux};
use takt_machine::run::signals::Watch;
use takt_machine::run::{config, folder};
use takt_machine::samples::Trace;
use takt_results::analysis::rows::{Breakdown, Group, Row};
use takt_results::analysis::{self, refine, replay};

#[path = "../../src/bin/causes/plan.rs"]
mod plan;

use plan::Case;

/// The rows add up to the latency, nothing is unexplained, and the report from the folder has the same.
pub(super) fn adds_up(stage: &Stage) -> Result<()> {
    let done = stage
        .latency_run("auto", "-d 20ms -a 0.1 --load mix")?
        .code(2)?;
    done.says("## CPU 0 hit stop tracing, analyzing it ##")?
        .says("Unexplained:                                      0.000 us    (0.00 %)")?
        .says("\ncause        ")?;
    let again = stage.xtask(&["latency-run", "--from", &stage.dir("auto"), "--json", "-"])?;
    let document = again.code(2)?.json()?;
    sums(&document["analysis"])?;
    // Without the flag: the cause in a line, no more.
    let brief = stage
        .latency_run("brief", "-d 20ms -i 0.001")?
        .code(2)?
        .says("\ncause        exit from idle: 4 of 4 ns (100.0 %)")?;
    ensure!(!brief.stdout.contains("analyzing it"), "{}", brief.stdout);
    Ok(())
}

/// What the load `plant` asks for without further words, in ns.
const PLANTED_NS: u64 = 30_000;
/// Loads beside which the bound is looked at.
const LOADS: [&str; 6] = ["none", "cpu", "irq", "lock", "mix", "plant"];

/// The proved bound of the thread latency is not below what was observed, and one that is says that the analysis is wrong.
pub(super) fn bound_holds(stage: &Stage) -> Result<()> {
    for load in LOADS {
        let name = format!("bound-{load}");
        stage
            .latency_run(&name, &format!("-d 200ms -a 100 --load {load}"))?
            .code(0)?
            .says("## Proved bound of the thread latency")?;
        let dir = stage.dir(&name);
        let document = stage.xtask(&["latency-run", "--from", &dir, "--json", "-"])?;
        let bound = document.code(0)?.json()?["bound"].clone();
        let number = |it: &Value| it.as_u64().context("no number");
        let (total, observed) = (
            number(&bound["total"])?,
            number(&bound["proved"]["observed"])?,
        );
        if load == "plant" {
            // The load's own sections are at least as long as they were asked to be.
            for part in ["irqs_off", "preempt_off"] {
                let part = number(&bound["proved"][part]["instructions"])?;
                ensure!(part >= PLANTED_NS, "{part}");
            }
        }
        // Without what may come between, which did not.
        let between = number(&bound["proved"]["interference"]["instructions"])?;
        ensure!(
            load != "none" || total - between >= observed,
            "a latency of {observed}, and {total} are proved with {between} of others"
        );
        // Nor is it a bound of nothing in particular.
        ensure!(
            (observed..=40 * observed).contains(&total),
            "{load}: a latency of {observed}, whose bound is {total}"
        );
    }
    // As if shorter sections had been proved.
    let dir = stage.dir("bound-plant");
    let path = PathBuf::from(&dir).join(folder::BOUND);
    let mut kept: Value = serde_json::from_slice(&fs::read(&path)?)?;
    for part in ["irqs_off", "preempt_off"] {
        kept["proved"][part]["instructions"] = json!(0);
    }
    kept["proved"]["interference"]["instructions"] = json!(0);
    fs::write(&path, kept.to_string())?;
    stage
        .xtask(&["latency-run", "--from", &dir])?
        .code(1)?
        .says("More was observed than the bound: the analysis is wrong.")?;
    stage
        .latency_run("bound-2", "-d 20ms -a 100 --smp 2 -c 0")?
        .says("There is no proved bound: it is of one CPU, and 2 run.")?;
    Ok(())
}

/// Periods in µs, of which each meets the load's sections in its own way.
const PERIODS: [u32; 8] = [1000, 900, 700, 1100, 470, 610, 830, 330];

/// The load `plant`: sections of either kind are named, by their line, and with several CPUs as well.
pub(super) fn names_the_section(stage: &Stage) -> Result<()> {
    let mut missing = vec!["planted_irqs_off", "planted_preempt_off"];
    for period in PERIODS {
        let name = format!("plant-{period}");
        let found = plant(stage, &name, &format!("-p {period}"))?;
        whole_stack(stage, &name)?;
        missing.retain(|section| !found.contains(section));
        if missing.is_empty() {
            break;
        }
    }
    ensure!(missing.is_empty(), "{missing:?} was never met");
    plant(stage, "plant-4", "--smp 4 -c 0-3").map(|_| ())
}

/// A run beside the load, which a section stops; gives what it says of the cause.
fn plant(stage: &Stage, name: &str, flags: &str) -> Result<String> {
    let done = stage
        .latency_run(name, &format!("-d 1s -a 20 --load plant {flags}"))?
        .code(2)?
        .says("Unexplained:                                      0.000 us    (0.00 %)")?;
    // Each interrupt has a name.
    let nameless = done
        .stdout
        .lines()
        .find(|line| line.trim_start().starts_with("irq "));
    ensure!(nameless.is_none(), "{nameless:?}");
    let analysis = fs::read(format!("{}/{}", stage.dir(name), folder::ANALYSIS))?;
    sums(&serde_json::from_slice(&analysis)?)?;
    let cause = done.stdout.lines().find(|line| line.starts_with("cause "));
    let cause = cause.context("no cause")?;
    ensure!(
        cause.contains(" plant::planted_") && cause.contains(" (timerlat/src/workload/plant.rs:"),
        "{cause}"
    );
    Ok(cause.to_owned())
}

/// The stack of the thread that was interrupted: from where the interrupt came, inlined functions too, to where it began.
fn whole_stack(stage: &Stage, name: &str) -> Result<()> {
    let analysis = fs::read(format!("{}/{}", stage.dir(name), folder::ANALYSIS))?;
    let analysis: Value = serde_json::from_slice(&analysis)?;
    let stack = analysis["stack"].as_array().context("no stack")?;
    let frames = stack.iter().map(|frame| frame.as_str().unwrap_or_default());
    let mut frames = frames.skip_while(|frame| !frame.starts_with("plant::planted_"));
    for function in [
        "plant::planted_",
        "plant::run (",
        "load::planted (",
        "exit::thread_main (",
    ] {
        let frame = frames.next().unwrap_or_default();
        ensure!(frame.starts_with(function), "not {function} in {stack:#?}");
    }
    Ok(())
}

/// How many activations with known causes are taken apart.
const NR_CASES: u32 = 1000;
/// And how many that wait for a lock.
const NR_LOCKS: u32 = 100;
/// In instructions, how long a section of theirs holds a lock of the kernel's at most.
const LONGEST_HELD: u64 = 142;
/// Instructions around an activation in which everything of it lies.
const NEAR: u64 = 20_000;
/// Under icount.
const TSC_HZ: u64 = 1_000_000_000;
/// Instructions in which preemption is off around what is planted.
const AROUND_PREEMPT_OFF: u64 = 40;

/// The activations of the image `causes`, with what it was told, each taken apart; `smp` CPUs.
fn planted(stage: &Stage, smp: u8, nr: u32) -> Result<Vec<Breakdown>> {
    let recipe = Recipe {
        package: "takt-tests".into(),
        kind: "--bin",
        name: "causes".into(),
        ..Recipe::takt(0)
    }
    .with_features(&["capture"]);
    let elf = Elf::open(&recipe.build()?.path)?;
    let known = words::known(&takt_guest::events::table(&elf)?);
    let events: Vec<_> = config::DEFAULT_EVENTS
        .split(',')
        .map(str::to_owned)
        .collect();
    let ids: Vec<_> = resolve(&events, &known)?
        .iter()
        .map(ToString::to_string)
        .collect();
    let keys = clock_keys(Accel::TcgIcount);
    let ids = ids.join(",");
    let cmdline = format!("events={ids} mode=capture{keys} smp={smp} cases={nr}");
    let counted = replay::boot(
        elf.path.clone(),
        cmdline,
        smp,
        &elf,
        GuestExit::Passed,
        &mut Watch::start()?,
    )?;

    let dir = PathBuf::from(stage.dir(&format!("causes-{smp}")));
    fs::create_dir(&dir)?;
    fs::copy(&elf.path, dir.join(folder::IMAGE))?;
    let facts = FileFacts::new(&elf, TSC_HZ, smp.into());
    let rest = Rest {
        log: Vec::new(),
        trace: Vec::new(),
    };
    let capture = demux(&counted.machine.capture(), &dir, facts, &rest)?;
    let record = json!({ "clocks": { "tsc_hz": TSC_HZ }, "capture": capture });
    fs::write(dir.join(folder::RECORD), record.to_string())?;
    let mut trace = Trace::open_with(&dir, [])?;
    let activations = analysis::activations(&mut trace)?;
    ensure!(
        activations.len() == nr as usize,
        "{} activations",
        activations.len()
    );
    // The CPU never halts, so the guest's time and the count of instructions never part.
    let last = activations.last().context("no activation")?;
    let skipped = counted
        .executed
        .skipped(last)
        .context("the log is of another run")?;
    let names = Names::new(&elf);
    let refined = activations.iter().map(|it| {
        let (due, end) = (it.sample.due() - skipped, it.sample.recorded - skipped);
        let executed = counted.executed.part(due.saturating_sub(NEAR)..end + NEAR);
        refine::refine(it, skipped, &executed, None, &names).context("the log is of another run")
    });
    refined.collect()
}

/// Each cause that is planted is named, sections with their exact length, and nothing is left over.
pub(super) fn names_what_is_planted(stage: &Stage) -> Result<()> {
    let mut around = BTreeSet::new();
    for (case, found) in plan::cases(NR_CASES).zip(planted(stage, 1, NR_CASES)?) {
        let more = check(&case, &found)
            .with_context(|| format!("activation {}: {case:?}\n{found:#?}", found.seqnum))?;
        around.extend(more);
    }
    ensure!(
        around.len() <= 2 && around.iter().all(|more| *more <= AROUND_PREEMPT_OFF),
        "the sections with preemption off are longer than what is planted by {around:?}"
    );
    Ok(())
}

/// So many more wait for a lock that another CPU holds: the section is named, and the other CPU's turns, which are most of
/// it, are a row of their own.
pub(super) fn names_a_lock_of_another_cpu(stage: &Stage) -> Result<()> {
    let (mut nr, mut nr_waits) = (0, 0);
    for (case, found) in plan::cases(NR_LOCKS).zip(planted(stage, 2, NR_LOCKS)?) {
        let context = || format!("activation {}: {case:?}\n{found:#?}", found.seqnum);
        if case.is_kernels() {
            nr += 1;
            nr_waits += u32::from(check_kernel_lock(&found).with_context(context)?);
        } else {
            check_lock(&case, &found).with_context(context)?;
        }
    }
    // The other CPU is in a section for more than a third of the time.
    ensure!(
        nr > NR_LOCKS / 4 && nr_waits > nr / 8,
        "a lock of the kernel's was waited for {nr_waits} times of {nr}"
    );
    Ok(())
}

/// A wait for a lock of the kernel's is a row that names who held it, where, and for how long. Says whether there is one.
fn check_kernel_lock(found: &Breakdown) -> Result<bool> {
    check_sum(found)?;
    let Some(row) = found.row(Group::KernelLock) else {
        return Ok(false);
    };
    let [part] = row.parts.as_slice() else {
        bail!("not one holder");
    };
    ensure!(
        part.who.starts_with("CPU 1, ") && part.who.contains(" (kernel/src/"),
        "{}",
        part.who
    );
    let [section] = row.sections.as_slice() else {
        bail!("not one section");
    };
    ensure!(section.kind == Kind::KernelLock, "another section");
    ensure!(section.length <= LONGEST_HELD, "held too long");
    // The other CPU goes on behind its section, until it pauses.
    ensure!(
        row.ns < section.length + LONGEST_HELD,
        "longer than it is held"
    );
    Ok(true)
}

fn check_lock(case: &Case, found: &Breakdown) -> Result<()> {
    check_sum(found)?;
    section(
        found,
        Group::IrqHandlerDelay,
        Kind::IrqsOff,
        "planted_lock_wait",
    )?;
    let (own, others) = (found.ns(Group::IrqHandlerDelay), found.ns(Group::OtherCpus));
    // At most the whole time for which it is held: two instructions a round of `spend`, and the loop around it.
    let held = u64::from(case.held()) * (2 * 8 + 8);
    ensure!(
        own < others && others < held,
        "own {own}, others {others}, held {held}"
    );
    Ok(())
}

fn check_sum(found: &Breakdown) -> Result<()> {
    let total: u64 = found.rows.iter().map(|row| row.ns).sum();
    ensure!(total == found.latency_ns, "the rows add up to {total}");
    ensure!(
        found.ns(Group::Unexplained) == 0,
        "something is unexplained"
    );
    Ok(())
}

/// The length of the one section that is behind a row, which must be in this function.
fn section(found: &Breakdown, group: Group, kind: Kind, function: &str) -> Result<u64> {
    let sections = found.row(group).map(|row| row.sections.as_slice());
    match sections.unwrap_or_default() {
        [one] if one.kind == kind && one.begun_by.line.contains(function) => Ok(one.length),
        other => bail!("{function} is not the one section behind {group:?}: {other:#?}"),
    }
}

/// Holds an analysis against what was planted. Gives how much longer a section with preemption off is than what is in it.
fn check(case: &Case, found: &Breakdown) -> Result<Option<u64>> {
    check_sum(found)?;
    let has = |group, is_there: bool| {
        ensure!(
            found.row(group).is_some() == is_there,
            "{group:?} is {}there",
            if is_there { "not " } else { "" }
        );
        Ok(found.row(group))
    };
    let irqs_off = match case.irqs_off {
        0 => 0,
        rounds => u64::from(2 * rounds + 2 + u32::from(case.has_irq)),
    };
    if irqs_off > 0 {
        let name = if case.has_irq {
            "planted_irqs_off_with_irq"
        } else {
            "planted_irqs_off ("
        };
        let length = section(found, Group::IrqHandlerDelay, Kind::IrqsOff, name)?;
        ensure!(
            length == irqs_off,
            "interrupts off for {length}, not {irqs_off}"
        );
    }
    let who = |row: &Row, name: &str| row.parts.iter().any(|part| part.who.starts_with(name));
    if let Some(row) = has(Group::IrqInterference, case.has_irq)? {
        ensure!(who(row, "planted:97"), "another interrupt");
    }
    has(Group::BlockingThread, case.preempt_off > 0)?;
    let runs = case.more_important + case.inherited;
    if let Some(row) = has(Group::ThreadInterference, runs > 0)? {
        let name = if case.inherited > 0 { "" } else { "above:" };
        ensure!(who(row, name), "another thread");
        // One that is woken in a section runs behind it, all of it.
        let is_whole = case.preempt_off > 0;
        let least = if is_whole { 2 * u64::from(runs) } else { 1 };
        ensure!(row.ns >= least, "{} of {runs} rounds", row.ns);
    }
    if case.preempt_off == 0 {
        return Ok(None);
    }
    let length = section(
        found,
        Group::BlockingThread,
        Kind::PreemptOff,
        "planted_preempt_off",
    )?;
    let inside = 2 * u64::from(case.preempt_off) + irqs_off;
    // What wakes a thread in it has a way of its own.
    Ok((case.more_important == 0 && irqs_off == 0).then(|| length - inside))
}

fn sums(analysis: &Value) -> Result<()> {
    let rows = analysis["rows"].as_array().context("no rows")?;
    let ns = |row: &Value| row["ns"].as_u64().context("a row without ns");
    let total = rows.iter().map(ns).sum::<Result<u64>>()?;
    ensure!(
        analysis["latency_ns"] == total && total > 100,
        "{total} ns in {analysis}"
    );
    ensure!(
        rows.iter().all(|row| row["group"] != "unexplained"),
        "{analysis}"
    );
    Ok(())
}
