//! The report as text, for stdout.

use std::fmt::Write;
use std::path::Path;

use console::style;
use takt_timerlat::config::Workload;
use takt_timerlat::stats::ExactHistogram;

use super::Buckets;
use super::hist::{self, Canvas};
use crate::analysis::bound::Kept;
use crate::analysis::{self, Analysis};
use takt_base::term::printable;
use takt_base::units::format_ns;
use takt_base::{input, paths};
use takt_machine::gaps;
use takt_machine::hardware::MachineRecord;
use takt_machine::judge::slot_name;
use takt_machine::qemu::Accel;
use takt_machine::record::{Distributions, Figures, Run, RunRecord, SlotRecord, Verdict};
use takt_machine::run::folder::CMDLINE;
use takt_machine::said::{Detail, result};

/// The row of a latency without the time in which other CPUs ran.
const WITHOUT_TURNS: &str = "   without turns";

/// What is left out of the report.
#[derive(Clone, Copy, Debug, Default)]
pub struct Parts {
    /// Without the IRQ latency.
    pub no_irq: bool,
    /// Without the thread latency.
    pub no_thread: bool,
    /// Without what is measured and on what.
    pub no_header: bool,
    /// Without the table of both latencies.
    pub no_summary: bool,
    /// Histograms without which latencies a bucket counts.
    pub no_index: bool,
    /// Histograms: with the buckets that are empty.
    pub with_zeros: bool,
}

/// How the report looks.
#[derive(Clone, Copy, Debug)]
pub struct Format {
    /// How much is said.
    pub detail: Detail,
    /// How histograms are cut.
    pub buckets: Buckets,
    /// What the terminal can show.
    pub canvas: Canvas,
    /// What is left out.
    pub parts: Parts,
    /// Only what the latency that hit a threshold consists of, and the verdict.
    pub is_analysis_only: bool,
    /// Whether the cause of such a latency was looked for.
    pub has_cause: bool,
}

/// The report on a run in `dir`, with what is known of the latency that hit a threshold, and what is proved.
#[must_use]
pub fn write(
    run: &Run,
    dir: &Path,
    analysis: Option<&Analysis>,
    bound: Option<&Kept>,
    format: Format,
) -> String {
    let mut out = String::new();
    // Writing to a String does not fail.
    let _ = write_into(&mut out, run, dir, (analysis, bound), format);
    out
}

fn write_into(
    out: &mut String,
    run: &Run,
    dir: &Path,
    (analysis, bound): (Option<&Analysis>, Option<&Kept>),
    format: Format,
) -> std::fmt::Result {
    let record = &run.record;
    if !format.is_analysis_only {
        figures(out, run, dir, format)?;
    }
    if let Some(Analysis::Whole(whole)) = analysis {
        write!(out, "\n{}", analysis::text::write(whole))?;
    }
    bound.map_or(Ok(()), |it| write!(out, "\n{}", it.text()))?;
    verdict(out, record, analysis, format.has_cause)
}

/// All that is not about one latency.
fn figures(out: &mut String, run: &Run, dir: &Path, format: Format) -> std::fmt::Result {
    let record = &run.record;
    if format.detail >= Detail::Normal && !format.parts.no_header {
        header(out, record)?;
    }
    if format.detail >= Detail::Verbose {
        machine(out, record, dir)?;
    }
    if !format.parts.no_summary {
        if record.config.workload != Workload::None {
            summary(out, run, format)?;
        }
        let gaps = gaps::lines(record);
        gaps.iter().try_for_each(|line| writeln!(out, "{line}"))?;
        if !gaps.is_empty() {
            writeln!(out)?;
        }
        record.machine.iter().try_for_each(|it| hardware(out, it))?;
    }
    if format.detail >= Detail::Normal {
        histograms(out, run, format)?;
        trace(out, record)?;
        writeln!(out, "{:<12} {}", "run folder", paths::shown(dir))?;
    }
    Ok(())
}

fn header(out: &mut String, record: &RunRecord) -> std::fmt::Result {
    let config = &record.config;
    let cpus: Vec<_> = config.cpus.iter().map(ToString::to_string).collect();
    writeln!(out, "{}", style(format!("Takt {}", config.workload)).bold())?;
    let mut line = |name: &str, text: String| writeln!(out, "{name:<12} {text}");
    line(
        "accelerator",
        format!("{} ({})", record.accel.accel.name(), record.accel.why),
    )?;
    line("clock", record.accel.accel.clock().into())?;
    line("1 ns means", record.accel.accel.ns_means().into())?;
    if config.smp > 1 && record.accel.accel == Accel::TcgIcount {
        let why = "they take turns: while one computes, time passes for the others";
        line("", format!("({why})"))?;
    }
    if config.workload != Workload::None {
        line("period", format_ns(config.period_ns))?;
    }
    line("duration", duration(record))?;
    line(
        "CPUs",
        format!(
            "{} of {}, priority FIFO {}",
            cpus.join(","),
            config.smp,
            config.priority
        ),
    )?;
    if let (Some(threads), Some(distance)) = (config.threads, config.distance_ns) {
        line(
            "threads",
            format!("{threads}, each {} longer", format_ns(distance)),
        )?;
    }
    line("load", config.load.to_string())?;
    let thresholds = [
        ("IRQ", config.irq_threshold_ns),
        ("thread", config.thread_threshold_ns),
    ];
    for (name, ns) in thresholds {
        if let Some(ns) = ns {
            line("stop above", format!("{} ({name} latency)", format_ns(ns)))?;
        }
    }
    writeln!(out)
}

fn duration(record: &RunRecord) -> String {
    let asked = record.config.duration();
    let warm_up = match record.config.warm_up_ns {
        0 => String::new(),
        ns => format!(" after a warm-up of {}", format_ns(ns)),
    };
    let took = record.timing.run_s;
    let measured = match record.timing.measured_ns {
        0 => "ended".into(),
        ns => format!("measured {:.3} s of the guest's time", ns as f64 / 1e9),
    };
    format!("{asked}{warm_up}; {measured} in {took:.1} s")
}

fn machine(out: &mut String, record: &RunRecord, dir: &Path) -> std::fmt::Result {
    let (clocks, host) = (&record.clocks, &record.host);
    let mut line = |name: &str, text: String| writeln!(out, "{name:<12} {text}");
    let invariant = if clocks.is_tsc_invariant {
        "invariant"
    } else {
        "not invariant"
    };
    line(
        "TSC",
        format!("{} Hz ({}), {invariant}", clocks.tsc_hz, clocks.tsc_source),
    )?;
    let deadline = if clocks.has_tsc_deadline {
        "TSC deadline"
    } else {
        "one-shot"
    };
    line(
        "timer",
        format!(
            "{deadline}, {} Hz ({})",
            clocks.lapic_hz, clocks.lapic_source
        ),
    )?;
    line("host", format!("{}, {}", host.cpu, host.kernel))?;
    line("QEMU", format!("{}; {}", host.qemu, host.qemu_exit))?;
    line("revision", record.git.clone())?;
    line("kernel args", record.kernel_cmdline.clone())?;
    // To be repeated in the run folder.
    if let Ok(command) = input::read_to_string(dir.join(CMDLINE)) {
        line("command", command.trim_end().into())?;
    }
    line("built in", format!("{:.1} s", record.timing.build_s))?;
    for cpu in &record.cpus {
        // The kernel counts both with one instruction.
        line(
            &format!("CPU {} IRQs", cpu.cpu),
            format!("{} spurious or unexpected", cpu.unexpected_irqs),
        )?;
    }
    writeln!(
        out,
        "\n{:>4} {:<16} {:>4} {:>4} {:>16} {:>12}",
        "TID", "NAME", "CPU", "PRIO", "RUNTIME (cycles)", "SWITCHES"
    )?;
    for t in &record.threads {
        writeln!(
            out,
            "{:>4} {:<16} {:>4} {:>4} {:>16} {:>12}",
            t.tid,
            printable(t.name.as_bytes()),
            t.cpu,
            t.priority,
            counted(t.runtime_cycles),
            counted(t.switches)
        )?;
    }
    writeln!(out)
}

/// A count, where the image counts that.
fn counted(count: Option<u64>) -> String {
    count.map_or_else(|| "-".to_owned(), |count| count.to_string())
}

/// A row for each latency of each measured thread, 79 columns wide.
fn summary(out: &mut String, run: &Run, format: Format) -> std::fmt::Result {
    let workload = run.record.config.workload;
    let columns = ["count", "min", "avg", "p50", "p99", "p99.9", "max"];
    let head: Vec<_> = columns.iter().map(|name| format!(" {name:>8}")).collect();
    writeln!(
        out,
        "{}",
        style(format!("{:<16}{}", "latency in ns", head.join(""))).bold()
    )?;
    for (slot, distributions) in run.record.slots.iter().zip(&run.distributions) {
        let name = slot_name(workload, slot);
        // cyclictest measures threads only.
        let has_irq = (workload == Workload::Timerlat || distributions.irq.count() != 0)
            && !format.parts.no_irq;
        let own = run
            .record
            .without_turns
            .iter()
            .find(|it| it.cpu == slot.cpu);
        if has_irq {
            row(out, &format!("{name:<9}IRQ"), (&distributions.irq).into())?;
            own.map_or(Ok(()), |own| row(out, WITHOUT_TURNS, own.irq))?;
        }
        let name = if has_irq { "" } else { &name };
        if !format.parts.no_thread {
            let figures = (&distributions.thread).into();
            row(out, &format!("{name:<9}thread"), figures)?;
            own.map_or(Ok(()), |own| row(out, WITHOUT_TURNS, own.thread))?;
        }
        if slot.user.is_some() {
            row(out, &format!("{:<9}user", ""), (&distributions.user).into())?;
        }
        writeln!(
            out,
            "{:<9}{:<7} {:>8}{}",
            "",
            "missed",
            slot.missed,
            interval(workload, slot)
        )?;
    }
    if run.record.slots.is_empty() {
        writeln!(out, "{:<16} {:>8}", "(nothing)", 0)?;
    }
    for (name, distribution) in shown(&run.over_all(), format.parts) {
        if let Some(hint) = hist::hint(distribution, format.buckets) {
            writeln!(out, "{:<12} {name}: {hint}", "hint")?;
        }
    }
    writeln!(out)
}

/// What a machine says of itself that bears on its latencies.
fn hardware(out: &mut String, machine: &MachineRecord) -> std::fmt::Result {
    for (name, text) in machine.lines() {
        writeln!(out, "{name:<12} {}", printable(text.as_bytes()))?;
    }
    writeln!(out)
}

fn interval(workload: Workload, slot: &SlotRecord) -> String {
    match workload {
        Workload::Timerlat | Workload::None => String::new(),
        Workload::Cyclictest => format!(
            "   priority {}, every {}",
            slot.priority,
            format_ns(slot.interval_ns)
        ),
    }
}

fn row(out: &mut String, name: &str, all: Figures) -> std::fmt::Result {
    let cell = |value: Option<u64>| value.map_or_else(|| "-".into(), |ns| ns.to_string());
    let avg = all
        .avg
        .map_or_else(|| "-".into(), |avg| format!("{avg:.1}"));
    writeln!(
        out,
        "{name:<16} {:>8} {:>8} {avg:>8} {:>8} {:>8} {:>8} {:>8}",
        all.count,
        cell(all.min),
        cell(all.p50),
        cell(all.p99),
        cell(all.p999),
        cell(all.max),
    )
}

/// The latencies that are not left out.
fn shown(
    all: &Distributions,
    parts: Parts,
) -> impl Iterator<Item = (&'static str, &ExactHistogram)> {
    let irq = (!parts.no_irq).then_some(("IRQ latency", &all.irq));
    let thread = (!parts.no_thread).then_some(("Thread latency", &all.thread));
    let user = (all.user.count() != 0).then_some(("User latency", &all.user));
    irq.into_iter().chain(thread).chain(user)
}

/// One for each latency, all measured threads together.
fn histograms(out: &mut String, run: &Run, format: Format) -> std::fmt::Result {
    let all = run.over_all();
    let whose = match run.distributions.len() {
        0 => return Ok(()),
        1 => String::new(),
        _ => ", all together".into(),
    };
    for (name, distribution) in shown(&all, format.parts) {
        if distribution.count() == 0 && run.record.config.workload == Workload::Cyclictest {
            continue;
        }
        writeln!(out, "{}", style(format!("{name}{whose} (ns)")).bold())?;
        writeln!(
            out,
            "{}",
            hist::draw(distribution, format.buckets, format.canvas, format.parts)
        )?;
    }
    Ok(())
}

fn trace(out: &mut String, record: &RunRecord) -> std::fmt::Result {
    let trace = &record.trace;
    let per_event = match trace.events {
        0 => String::new(),
        events => format!(" ({:.1} an event)", trace.bytes as f64 / events as f64),
    };
    let lost = match trace.lost() {
        0 if record.result == Verdict::Error => "up to the end of the guest".into(),
        0 => "complete".into(),
        _ => format!(
            "overrun {}, commit overrun {}, dropped {}",
            trace.overrun, trace.commit_overrun, trace.dropped
        ),
    };
    writeln!(
        out,
        "{:<12} {} events, {} bytes{per_event}, {lost}",
        "trace", trace.events, trace.bytes
    )
}

/// What stopped a run, what is wrong with it and the verdict.
#[must_use]
pub fn ending(record: &RunRecord, analysis: Option<&Analysis>) -> String {
    let mut out = String::new();
    // Writing to a String does not fail.
    let _ = verdict(&mut out, record, analysis, true);
    out
}

fn verdict(
    out: &mut String,
    record: &RunRecord,
    analysis: Option<&Analysis>,
    has_cause: bool,
) -> std::fmt::Result {
    if record.is_interrupted {
        writeln!(
            out,
            "{:<12} by the user: measured {:.3} s of {}",
            "interrupted",
            record.timing.measured_ns as f64 / 1e9,
            record.config.duration()
        )?;
    }
    if record.is_edited {
        writeln!(
            out,
            "{:<12} run.json or hist.csv was changed after the run: what they say may not be what was measured",
            "edited"
        )?;
    }
    if let Some(it) = record.verified {
        let (verified, all) = (it.verified, it.activations);
        let rest = match (all.saturating_sub(verified), &record.error) {
            (1.., None) => {
                "; of the others there is no record, since tracing ended at the threshold"
            }
            _ => "",
        };
        writeln!(
            out,
            "{:<12} {verified} of {all} activations, both latencies, by the count of executed instructions{rest}",
            "verified"
        )?;
    }
    if record.hits != 0 {
        writeln!(
            out,
            "{:<12} {} latencies above a threshold, behind which the measurement went on",
            "hits", record.hits
        )?;
    }
    if let Some(stop) = &record.stop {
        let (which, value, cpu, seq) = (&stop.which, stop.value_ns, stop.cpu, stop.seq);
        writeln!(
            out,
            "{:<12} {which} latency of {value} ns on CPU {cpu}, activation {seq}",
            "stopped by"
        )?;
        let cause = analysis.and_then(|it| it.breakdown().cause());
        let cause = cause.unwrap_or_else(|| "not known: the trace does not tell".into());
        if has_cause {
            writeln!(out, "{:<12} {}", "cause", printable(cause.as_bytes()))?;
        }
    }
    result(
        out,
        &record.taint,
        record.error.as_deref(),
        record.result,
        "",
    )
}
