//! The table of response times.

use std::fmt::{self, Write};

use super::{Costs, Response, Set};

/// The table.
#[must_use]
pub fn text(set: &Set, costs: Costs, found: &[Response]) -> String {
    let mut out = String::new();
    // Writing to a String does not fail.
    let _ = write_into(&mut out, set, costs, found);
    out
}

fn write_into(out: &mut String, set: &Set, costs: Costs, found: &[Response]) -> fmt::Result {
    let Costs {
        activation,
        interrupt,
        section,
    } = costs;
    writeln!(
        out,
        "Worst response times on one CPU, in ns, of which an instruction takes one\n"
    )?;
    writeln!(
        out,
        "{:<16} {:>4} {:>11} {:>11} {:>10} {:>9} {:>11}",
        "thread", "prio", "period", "deadline", "wcet", "blocked", "response"
    )?;
    for it in found {
        let of = &it.thread;
        let worst = it.worst.map_or_else(|| "none".into(), |it| it.to_string());
        let says = if it.holds() { "" } else { "  MISSED" };
        writeln!(
            out,
            "{:<16} {:>4} {:>11} {:>11} {:>10} {:>9} {worst:>11}{says}",
            of.name, of.priority, of.period, of.deadline, of.wcet, it.blocked
        )?;
    }
    for it in &set.interrupts {
        writeln!(
            out,
            "{:<16} {:>4} {:>11} {:>11} {:>10}",
            it.name, "irq", it.period, "", it.wcet
        )?;
    }
    writeln!(
        out,
        "\nproved: {activation} for an activation, {interrupt} for a device's interrupt beside its handler, {section} for a section"
    )
}
