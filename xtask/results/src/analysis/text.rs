//! The analysis in the terminal, in the shape of rtla's.

use std::fmt::{self, Write};

use super::causes::Cause;
use super::rows::{Breakdown, Group, Row};
use takt_base::term::printable;

/// Columns of a row up to its time.
const NAME: usize = 44;
const TIME: usize = 14;

/// The analysis as text.
#[must_use]
pub fn write(it: &Breakdown) -> String {
    let mut out = String::new();
    // Writing to a String does not fail.
    let _ = write_into(&mut out, it);
    // Threads and interrupts have names of the guest's.
    printable(out.as_bytes())
}

fn write_into(out: &mut String, it: &Breakdown) -> fmt::Result {
    writeln!(out, "## CPU {} hit stop tracing, analyzing it ##", it.cpu)?;
    for group in Group::ALL {
        match it.row(group) {
            Some(row) => show(out, it, row)?,
            // That nothing is left unexplained is worth a row.
            None if group == Group::Unexplained => line(out, it, group.name(), 0)?,
            None => {}
        }
        if group == Group::IrqHandlerDelay
            && let Some(ns) = it.irq_ns
            && !it.is_of_irq
        {
            // Part of the rows above and below, so it has no share.
            writeln!(out, "  {:<NAME$}{:>TIME$}", "IRQ latency:", micros(ns))?;
        }
        if group == Group::Switch
            && let Some(ns) = it.thread_ns
        {
            writeln!(out, "  {:<NAME$}{:>TIME$}", "Thread latency:", micros(ns))?;
        }
    }
    writeln!(out, "{}", "-".repeat(NAME + TIME + 14))?;
    let whole = match it.thread_ns {
        Some(_) => "User latency",
        None if it.is_of_irq => "IRQ latency",
        None => "Thread latency",
    };
    line(out, it, whole, it.latency_ns)?;
    let others = it.ns(Group::OtherCpus);
    if others > 0 {
        let own = it.latency_ns - others;
        line(out, it, "  without other CPUs' turns", own)?;
    }
    if let Some(idle) = it.from_idle {
        let ns = micros(idle.ns);
        writeln!(
            out,
            "\nMax timerlat IRQ latency from idle: {ns} in cpu {}",
            idle.cpu
        )?;
    }
    for note in &it.notes {
        writeln!(out, "{note}")?;
    }
    writeln!(out)
}

fn show(out: &mut String, it: &Breakdown, row: &Row) -> fmt::Result {
    let name = match row.parts.as_slice() {
        [part] if part.cause == Cause::ExitFromIdle => "IRQ handler delay (exit from idle)",
        _ => row.group.name(),
    };
    line(out, it, name, row.ns)?;
    for part in &row.parts {
        let who = match (row.group, part.who.as_str()) {
            (Group::IrqDuration | Group::Switch, _) => part.cause.to_string(),
            (_, "") => continue,
            (_, who) => who.to_owned(),
        };
        let (name, place) = who.split_once(", ").unwrap_or((&who, ""));
        writeln!(out, "{name:>NAME$}  {:>TIME$}", micros(part.ns))?;
        if !place.is_empty() {
            writeln!(out, "    in {place}")?;
        }
    }
    for section in &row.sections {
        writeln!(out, "    {section}")?;
    }
    let (group, owner) = it.stack_owner();
    if row.group == group && !it.stack.is_empty() {
        writeln!(out, "    {owner} stack trace")?;
        for frame in &it.stack {
            writeln!(out, "                -> {frame}")?;
        }
    }
    Ok(())
}

fn line(out: &mut String, it: &Breakdown, name: &str, ns: u64) -> fmt::Result {
    let share = format!("({:.2} %)", it.percent(ns));
    writeln!(
        out,
        "  {:<NAME$}{:>TIME$}  {share:>10}",
        format!("{name}:"),
        micros(ns)
    )
}

/// As rtla, in µs, but to the nanosecond.
fn micros(ns: u64) -> String {
    format!("{}.{:03} us", ns / 1000, ns % 1000)
}
