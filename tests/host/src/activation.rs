//! One activation in the trace: what happens in which order, and whether the times add up to what is reported.

use anyhow::{Context, Result, ensure};
use serde_json::Value;

/// What an activation consists of, in this order.
const STEPS: [&str; 8] = [
    "irq:irq_handler_entry",
    "timer:timer_expire",
    "timerlat:timerlat_irq",
    "sched:sched_waking",
    "sched:sched_wakeup",
    "irq:irq_handler_exit",
    "sched:sched_switch",
    "timerlat:timerlat_thread",
];

/// How long after it took the time the thread's record may be written, in ns.
const RECORDING: u64 = 100;

/// Checks every activation of a trace.
pub(super) fn adds_up(trace: &[Value]) -> Result<()> {
    let mut nr = 0;
    for (at, record) in trace
        .iter()
        .enumerate()
        .filter(|(_, record)| record["event"] == STEPS[2])
    {
        let steps = at
            .checked_sub(2)
            .and_then(|from| trace.get(from..from + STEPS.len()));
        let steps = steps.context("the trace begins or ends within an activation")?;
        nr += 1;
        activation(steps).with_context(|| format!("activation {nr}: {record}"))?;
    }
    ensure!(nr > 100, "only {nr} activations in the trace");
    Ok(())
}

fn activation(steps: &[Value]) -> Result<()> {
    let names: Vec<_> = steps
        .iter()
        .map(|step| step["event"].as_str().unwrap_or_default())
        .collect();
    ensure!(names == STEPS, "its events are {names:?}");
    let field = |step: usize, name: &str| {
        steps[step]["fields"][name]
            .as_u64()
            .with_context(|| format!("{} has no field {name}", STEPS[step]))
    };
    let at = |step: usize| {
        steps[step]["ts_ns"]
            .as_u64()
            .context("a record without a time")
    };
    let times = (0..STEPS.len()).map(at).collect::<Result<Vec<_>>>()?;
    ensure!(
        times.is_sorted_by(|one, next| one < next),
        "the times do not ascend: {times:?}"
    );
    let due = field(1, "expires")?;
    let (irq, thread) = (field(2, "timer_latency")?, field(7, "timer_latency")?);
    ensure!(
        field(2, "seqnum")? == field(7, "seqnum")?,
        "the samples belong to different activations"
    );
    // The IRQ latency is taken by the entry's third instruction, before the first record.
    ensure!(
        due + irq <= at(0)?,
        "the interrupt's record is earlier than its latency says"
    );
    // The thread takes the time when it runs: after the switch and before its record.
    ensure!(
        at(6)? < due + thread,
        "the thread took the time before it ran"
    );
    let recorded = at(7)?
        .checked_sub(due + thread)
        .context("the thread's record is earlier than its latency says")?;
    ensure!(
        recorded <= RECORDING,
        "{recorded} ns between the thread's reading of the clock and its record"
    );
    ensure!(
        field(3, "tid")? == field(4, "tid")? && field(4, "tid")? == field(6, "next")?,
        "another thread runs than was woken"
    );
    for (step, flags) in [(0, "d.h."), (5, "dNh."), (7, "....")] {
        ensure!(
            steps[step]["flags"] == flags,
            "{} has flags {}",
            STEPS[step],
            steps[step]["flags"]
        );
    }
    Ok(())
}
