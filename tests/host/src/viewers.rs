//! The exports for other tools, judged by these tools: `trace-cmd report`, `babeltrace2` and `protoc` with Perfetto's schema
//! say the same of each event and of each loss as our own text.
//!
//! Several CPUs' events of one time have no order, so what is held against each other are the lines of a CPU.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use anyhow::{Context, Result, ensure};

use super::{Done, Stage};
use takt_base::setup;
use takt_viewers::text::{self, Cpus, Entry};
use takt_viewers::{babeltrace, perfetto, trace_cmd};

/// A run whose trace is exported.
struct Run {
    name: &'static str,
    /// Whether it is only the ring that is of interest, whose capture may be damaged: `trace` says so by exit code 1.
    may_be_damaged: bool,
}

/// The stage that the tests share, with the runs, which are made if they are not there yet.
///
/// | run | what |
/// |---|---|
/// | `overruns` | bursts of more events than the ring holds, so that some are dropped, ten times |
/// | `overwritten` | a ring that overwrites what is not handed over in time: whole sub-buffers are lost, and frames may be damaged |
/// | `two` | two CPUs, every event, nothing lost |
/// | `fields` | fields of every kind, arrays and stacks among them |
fn runs(stage: &Stage) -> Result<(Stage, [Run; 4])> {
    static MAKING: Mutex<()> = Mutex::new(());
    // What another test could not make is tried again.
    let _making = MAKING.lock().unwrap_or_else(PoisonError::into_inner);
    let stage = stage.named("viewers")?;
    let is_there = |name: &str| Path::new(&stage.dir(name)).exists();
    if !is_there("overruns") {
        stage
            .xtask(&["run", "bursts", "-o", &stage.dir("overruns")])?
            .code(0)?;
    }
    if !is_there("overwritten") {
        let keys = "mode=flight workload=timerlat period_ns=1000 duration_ns=16000000 load=mix";
        let dir = stage.dir("overwritten");
        let words = [
            "run", "timerlat", "--bin", "-e", "all", "--append", keys, "-o",
        ];
        stage.xtask(&[&words[..], &[&dir]].concat())?;
    }
    if !is_there("two") {
        let flags = "-e all --smp 2 --load mix -d 20ms";
        stage.latency_run("two", flags)?.code(0)?;
    }
    if !is_there("fields") {
        stage
            .xtask(&["run", "fields", "-o", &stage.dir("fields")])?
            .code(0)?;
    }
    let run = |name| Run {
        name,
        may_be_damaged: name == "overwritten",
    };
    Ok((stage, ["overruns", "overwritten", "two", "fields"].map(run)))
}

impl Run {
    /// Demands the exit code that the run's trace may have, and says whether the trace is damaged.
    fn judge(&self, done: Done) -> Result<(Done, bool)> {
        let is_damaged = self.may_be_damaged && done.code == Some(1);
        let done = done.code(i32::from(is_damaged))?;
        ensure!(
            !is_damaged || done.stderr.contains("damaged"),
            "{}",
            done.stderr
        );
        Ok((done, is_damaged))
    }
}

/// Our own text of a run, and whether it is what the test is about.
fn text(stage: &Stage, run: &Run) -> Result<Cpus> {
    let done = stage.xtask(&["trace", &stage.dir(run.name)])?;
    let (done, _) = run.judge(done)?;
    let cpus = text::parse(&done.stdout)?;
    let entries = || cpus.values().flatten();
    let nr_events = entries()
        .filter(|entry| matches!(entry, Entry::Event(_)))
        .count();
    let nr_losses = entries().count() - nr_events;
    let lost = |what: fn(&Entry) -> u64| entries().map(what).sum::<u64>();
    match run.name {
        "overruns" => ensure!(
            nr_events >= 100_000 && nr_losses == 10 && lost(Entry::lost_events) >= 1000,
            "only {nr_events} events and {nr_losses} losses"
        ),
        "overwritten" => ensure!(
            nr_events > 1000
                && lost(Entry::lost_events) > 1000
                && lost(Entry::lost_sub_buffers) == 0,
            "it is not known how many events were overwritten"
        ),
        "fields" => {
            let longest = |name: &str| {
                let events = entries().filter_map(|entry| match entry {
                    Entry::Event(event) if event.name == name => Some(event.message.as_str()),
                    _ => None,
                });
                events.max_by_key(|message| message.len()).unwrap_or("")
            };
            ensure!(
                longest("arrays").ends_with("list={0x1234,0xffff,0x7,0x8,0x9}")
                    && longest("places").ends_with(" name=a_name_that_…")
                    && longest("irq_handler_entry") == "irq=99 name=fields"
                    && longest("flags") == "set=BC, A, 0x8."
                    && longest("only_small") == "only small=3"
                    && longest("print") == "tracing_mark_write: round 15: done"
                    && longest(text::STACK).lines().count() > 15,
                "what the run is about is not in its trace"
            );
        }
        _ => ensure!(cpus.len() == 2 && nr_losses == 0, "{} CPUs", cpus.len()),
    }
    Ok(cpus)
}

/// Exports a run; what is written of a damaged one is in the part.
fn export(stage: &Stage, run: &Run, format: &str) -> Result<PathBuf> {
    let path = stage.dir(&format!("{}-{format}", run.name));
    let dir = stage.dir(run.name);
    let done = stage.xtask(&["trace", &dir, "--format", format, "-o", &path])?;
    let (_, is_damaged) = run.judge(done)?;
    let part = if is_damaged { ".part" } else { "" };
    Ok(PathBuf::from(path + part))
}

/// Holds what a tool has read against our text, line by line.
fn compare(run: &Run, ours: &Cpus, theirs: &Cpus, same: fn(&Entry, &Entry) -> bool) -> Result<()> {
    for (cpu, ours) in ours {
        let none = Vec::new();
        let theirs = theirs.get(cpu).unwrap_or(&none);
        let differs = ours.iter().zip(theirs).position(|(a, b)| !same(a, b));
        if let Some(at) = differs {
            anyhow::bail!(
                "{}, CPU {cpu}, line {at}: ours\n{:?}\nand theirs\n{:?}",
                run.name,
                ours[at],
                theirs[at]
            );
        }
        ensure!(
            ours.len() == theirs.len(),
            "{}, CPU {cpu}: {} lines of ours and {} of theirs",
            run.name,
            ours.len(),
            theirs.len()
        );
    }
    ensure!(
        theirs.keys().all(|cpu| ours.contains_key(cpu)),
        "{}: there are CPUs {:?}",
        run.name,
        theirs.keys()
    );
    Ok(())
}

/// `trace-cmd report` reads `trace.dat` without a warning and prints the same.
pub(super) fn trace_cmd_agrees(stage: &Stage) -> Result<()> {
    setup::ensure_viewers(stage.may_install())?;
    let (stage, runs) = runs(stage)?;
    for run in runs {
        let ours = text(&stage, &run)?;
        let file = export(&stage, &run, "trace.dat")?;
        let theirs = trace_cmd::read(&file).context(run.name)?;
        compare(&run, &ours, &theirs, trace_cmd::is_same)?;
    }
    Ok(())
}

/// `babeltrace2` reads the CTF folder, complains of nothing but the losses and prints the same.
pub(super) fn babeltrace2_agrees(stage: &Stage) -> Result<()> {
    setup::ensure_viewers(stage.may_install())?;
    let (stage, runs) = runs(stage)?;
    for run in runs {
        let ours = text(&stage, &run)?;
        let dir = export(&stage, &run, "ctf")?;
        let theirs = babeltrace::read(&dir).context(run.name)?;
        compare(&run, &ours, &theirs, babeltrace::is_same)?;
    }
    Ok(())
}

/// Decoded by the schema that Perfetto publishes, the protobuf says the same.
pub(super) fn perfetto_agrees(stage: &Stage) -> Result<()> {
    let schema = perfetto::Schema::find()?;
    let (stage, runs) = runs(stage)?;
    for run in runs {
        let ours = text(&stage, &run)?;
        let file = export(&stage, &run, "perfetto")?;
        let theirs = perfetto::read(&schema, &file).context(run.name)?;
        compare(&run, &ours, &theirs, perfetto::is_same)?;
    }
    Ok(())
}
