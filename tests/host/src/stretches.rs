//! Stretches that the latency tracers have kept: how they are shown, and that they begin as they were recorded.

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::Stage;

/// `trace --format latency` of a run with a latency tracer is about the last stretch that it has kept.
pub(super) fn of_a_maximum(stage: &Stage) -> Result<()> {
    for (tracer, is_wakeup) in [("irqsoff", false), ("wakeup", true)] {
        stage
            .latency_run(tracer, &format!("-d 100ms --tracer {tracer}"))?
            .code(0)?;
        let show = |more: &[&str]| {
            let dir = stage.dir(tracer);
            let words = [&["trace", &dir, "--format", "latency"], more].concat();
            Ok::<_, anyhow::Error>(stage.xtask(&words)?.code(0)?.stdout)
        };
        let text = show(&[])?;
        let count = |what: &str| text.matches(what).count();
        let mut lines = text.lines().filter(|line| !line.starts_with('#'));
        let first = lines.next().unwrap_or_default();
        ensure!(
            text.starts_with(&format!(
                "# tracer: {tracer}\n#\n# {tracer} latency trace v1.1.5 "
            )) && count(": latency_max: ") == 1
                && first.contains(" 0.000us")
                && (!is_wakeup || count(" 0.000us") == 1)
                && count("=> started at: ") == usize::from(!is_wakeup),
            "{text}"
        );
        // The event at its end tells the same length.
        let length = |mark: &str| {
            let rest = text.split_once(mark).map(|(_, rest)| rest);
            let number = rest.and_then(|rest| rest.split_whitespace().next());
            number.and_then(|number| number.replace('.', "").parse::<u64>().ok())
        };
        ensure!(
            length("# latency: ").is_some() && length("# latency: ") == length(" latency="),
            "two lengths in\n{text}"
        );
        // Whoever says from when on gets all of it from there.
        let all = show(&["--from", "0", "--to", "10s"])?;
        let more = show(&["--from", "1ns"])?;
        ensure!(
            all.lines().count() > text.lines().count()
                || more.lines().count() > text.lines().count(),
            "--from is not heeded:\n{more}"
        );
    }
    Ok(())
}

/// Every stretch begins in the thread and with the flags that the record of its beginning has: before it that of the place
/// where interrupts or preemption were disabled, or right behind it the interrupt's. Many end in another thread.
pub(super) fn begin_as_recorded(stage: &Stage) -> Result<()> {
    let mut nr_across = 0;
    for tracer in ["irqsoff", "preemptoff", "preemptirqsoff"] {
        let name = format!("begins-{tracer}");
        let events = "preemptirq,irq,sched_switch,latency_max";
        let flags =
            format!("-d 5ms --load mix --append tracing_thresh=1 --tracer {tracer} -e {events}");
        stage.latency_run(&name, &flags)?.code(0)?;
        let trace = stage.trace(&name)?;
        let records: Vec<_> = trace.iter().collect();
        let mut nr = 0;
        for (index, record) in records.iter().enumerate() {
            if record["event"] != "tracer:latency_max" {
                continue;
            }
            nr += 1;
            nr_across += u32::from(record["pid"] != record["fields"]["begun_by"]);
            let begun = begun(&records[..=index]);
            begun.with_context(|| format!("{tracer}: the stretch before {record}"))?;
        }
        ensure!(nr >= 100, "{tracer}: {nr} stretches");
    }
    ensure!(
        nr_across >= 100,
        "{nr_across} stretches end in another thread"
    );
    Ok(())
}

/// Looks at the beginning of the stretch whose record is the last one.
fn begun(records: &[&Value]) -> Result<()> {
    let number = |value: &Value| value.as_u64().unwrap_or(0);
    let (maximum, before) = records.split_last().context("no record")?;
    let fields = &maximum["fields"];
    // The run is shorter than the lower half of a time stamp.
    let began = number(&fields["began"]);
    let context = takt_decode::Context(number(&fields["context"]) as u8);
    let is_alike = |record: &Value| {
        record["flags"] == context.flags().as_str() && record["pid"] == fields["begun_by"]
    };
    let behind = before.partition_point(|record| number(&record["ts_ns"]) <= began);
    // An interrupt may have come in between.
    let last = before.iter().take(behind).rev().find(|record| {
        let event = record["event"].as_str().unwrap_or_default();
        event.ends_with("_disable") && record["pid"] == fields["begun_by"]
    });
    let first = before.get(behind).copied().unwrap_or(maximum);
    let is_disabled =
        last.is_some_and(|last| last["fields"]["caller"] == fields["started_at"] && is_alike(last));
    let is_interrupt = first["event"] == "irq:irq_handler_entry" && is_alike(first);
    ensure!(
        is_disabled || is_interrupt,
        "{} by {} between {last:?} and {first}",
        context.flags(),
        fields["begun_by"]
    );
    Ok(())
}
