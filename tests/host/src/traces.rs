//! What the trace of a run says, in whatever format.

use std::fs::{self, OpenOptions};
use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::Stage;

/// Priorities are shown as in ftrace, whichever event shows them: FIFO 95 is 4, the idle thread 120.
pub(super) fn priorities_are_ftraces(stage: &Stage) -> Result<()> {
    let trace = stage.first()?;
    let shown = |event: &str, field: &str, of: &str, comm: &str| {
        let is_it = |record: &&Value| record["event"] == event && record["fields"][of] == comm;
        let found = trace.iter().find(is_it);
        found.map(|record| record["fields"][field].clone())
    };
    for (event, field, of, comm, expected) in [
        ("sched:sched_wakeup", "prio", "tid_comm", "timerlat/0", 4),
        (
            "sched:sched_switch",
            "next_prio",
            "next_comm",
            "timerlat/0",
            4,
        ),
        (
            "sched:sched_switch",
            "next_prio",
            "next_comm",
            "swapper/0",
            120,
        ),
    ] {
        let shown =
            shown(event, field, of, comm).with_context(|| format!("no {event} of {comm}"))?;
        ensure!(shown == expected, "{event} of {comm}: {field} is {shown}");
    }
    Ok(())
}

/// Of a run whose file was cut, every format says how much is missing at its end.
pub(super) fn cut_says_what_is_missing(stage: &Stage) -> Result<()> {
    let total = stage.first()?.len();
    let (whole, cut) = (stage.dir("first"), stage.dir("cut"));
    fs::create_dir_all(&cut)?;
    for entry in fs::read_dir(&whole)? {
        let entry = entry?;
        fs::copy(entry.path(), Path::new(&cut).join(entry.file_name()))?;
    }
    let trace = Path::new(&cut).join("trace.bin");
    let size = trace.metadata()?.len();
    OpenOptions::new()
        .write(true)
        .open(&trace)?
        .set_len(size / 2 + 13)?;
    let shown = |format: &str| -> Result<String> {
        let done = stage.xtask(&["trace", &cut, "--format", format])?.code(1)?;
        ensure!(done.stderr.contains("damaged: byte "), "{}", done.stderr);
        Ok(done.stdout)
    };
    let json = shown("json")?;
    let records: Vec<Value> = json
        .lines()
        .map(serde_json::from_str)
        .collect::<Result<_, _>>()?;
    let found = records
        .iter()
        .filter(|record| record["event"].is_string())
        .count();
    ensure!(0 < found && found < total, "{found} of {total}");
    let lost = total - found;
    let last = records.last().context("nothing")?;
    ensure!(
        last["lost_events"] == lost,
        "{last}, {lost} of {total} are missing"
    );
    for (format, said) in [
        ("text", format!("CPU:0 [LOST {lost} EVENTS]")),
        ("graph", format!("CPU:0 [LOST {lost} EVENTS]")),
        ("csv", format!(",0,,,,lost,events={lost} sub_buffers=0")),
        ("flamegraph", format!("lost events {lost}")),
    ] {
        let text = shown(format)?;
        ensure!(text.trim_end().ends_with(&said), "{format}: no {said}");
        ensure!(
            format == "flamegraph" || text.contains("damaged"),
            "{format}: no damage"
        );
    }
    let chrome: Value = serde_json::from_str(&shown("chrome")?)?;
    let rest = &chrome["otherData"];
    ensure!(
        rest["lost_events"] == lost && rest["damaged_places"] == 1,
        "{rest}"
    );
    Ok(())
}

/// The stacks of a flame graph hold every ns from the first record to the last, the timer's interrupts among them.
pub(super) fn flamegraph_adds_up(stage: &Stage) -> Result<()> {
    let done = stage
        .xtask(&["trace", &stage.dir("first"), "--format", "flamegraph"])?
        .code(0)?;
    let mut sum = 0;
    for line in done.stdout.lines() {
        let (_, ns) = line.rsplit_once(' ').context("no number")?;
        sum += ns.parse::<u64>()?;
    }
    let trace = stage.first()?;
    let at = |record: Option<&Value>| record.and_then(|record| record["ts_ns"].as_u64());
    let (first, last) = (at(trace.first()), at(trace.last()));
    ensure!(
        Some(sum) == last.zip(first).map(|(last, first)| last - first),
        "{sum} ns in all, from {first:?} to {last:?}"
    );
    ensure!(
        done.stdout.contains("CPU 0;swapper/0;local_timer "),
        "no interrupts of the idle thread"
    );
    Ok(())
}

/// In Chrome's format slices end in the order in which they began, reversed, and lie in time one after the other; those
/// of interrupts lie in those of threads.
pub(super) fn chrome_slices_nest(stage: &Stage) -> Result<()> {
    let done = stage
        .xtask(&["trace", &stage.dir("first"), "--format", "chrome"])?
        .code(0)?;
    let trace = done.json()?;
    let events = trace["traceEvents"].as_array().context("no events")?;
    let (mut open, mut last, mut nr_irqs) = (Vec::new(), 0.0, 0);
    for event in events {
        let begins = match event["ph"].as_str() {
            Some("B") => true,
            Some("E") => false,
            _ => continue,
        };
        let ts = event["ts"].as_f64().context("no time")?;
        ensure!(ts >= last, "back in time: {event}");
        last = ts;
        if begins {
            let name = event["name"].as_str().context("no name")?;
            let is_irq = name == "local_timer";
            ensure!(open.len() == usize::from(is_irq), "{name} inside {open:?}");
            nr_irqs += u32::from(is_irq);
            open.push(name);
        } else {
            ensure!(open.pop().is_some(), "nothing is open: {event}");
        }
    }
    ensure!(open.is_empty(), "left open: {open:?}");
    ensure!(nr_irqs >= 300, "only {nr_irqs} interrupts");
    Ok(())
}

/// Interrupts are disabled and enabled in turn, by the kernel's own sections too. Besides, an interrupt disables them
/// itself, and a switch to a thread that an interrupt preempted enables them.
pub(super) fn irqs_off_in_turn(stage: &Stage) -> Result<()> {
    let events = "irq_disable,irq_enable,irq_handler_entry,sched_switch";
    stage
        .latency_run("sections", &format!("-d 20ms -e {events} --load lock"))?
        .code(0)?;
    let mut last = String::new();
    let mut nr_sections = 0;
    for record in stage.trace("sections")? {
        let event = record["event"].as_str().context("no event")?.to_owned();
        ensure!(
            event != last || !event.starts_with("preemptirq:"),
            "{event} twice: {record}"
        );
        nr_sections += u32::from(event == "preemptirq:irq_enable");
        last = event;
    }
    ensure!(nr_sections > 1000, "only {nr_sections} sections");
    Ok(())
}
