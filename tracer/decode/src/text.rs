//! The text of ftrace: what `cat /sys/kernel/tracing/trace` would show.

use std::io::{self, Write};

use super::merge::Item;
use super::names::{Names, TscClock};
use super::put;
use super::record::{REST, Record, Value};
use super::template::Fill;

/// The column legend: the four flags of mainline kernels and old parsers.
const LEGEND: &str = "\
#
#                                _-----=> irqs-off
#                               / _----=> need-resched
#                              | / _---=> hardirq/softirq
#                              || / _--=> preempt-depth
#                              ||| /     delay
#           TASK-PID     CPU#  ||||   TIMESTAMP  FUNCTION
#              | |         |   ||||      |         |
";

/// The legend of the tracer `timerlat`.
const TIMERLAT: &str = "\
#
#                                _-----=> irqs-off
#                               / _----=> need-resched
#                              | / _---=> hardirq/softirq
#                              || / _--=> preempt-depth
#                              ||| /
#                              ||||              ACTIVATION
#           TASK-PID     CPU#  ||||   TIMESTAMP     ID            CONTEXT                LATENCY
#              | |         |   ||||      |          |                  |                       |
";

/// The legend of the tracer `osnoise`.
const OSNOISE: &str = "\
#
#                                _-----=> irqs-off
#                               / _----=> need-resched
#                              | / _---=> hardirq/softirq
#                              || / _--=> preempt-depth                               MAX
#                              ||| /                                                SINGLE      Interference counters:
#                              ||||                RUNTIME      NOISE  %% OF CPU  NOISE    +-----------------------------+
#           TASK-PID     CPU#  ||||   TIMESTAMP    IN US       IN US  AVAILABLE  IN US     HW    NMI    IRQ   SIRQ THREAD
#              | |         |   ||||      |           |             |    |            |      |      |      |      |      |
";

/// Writes the header of a trace that this tracer has made: `entries` are in it, `written` were recorded altogether.
///
/// # Errors
/// Those of `out`.
pub fn write_header(
    mut out: impl Write,
    tracer: &str,
    entries: u64,
    written: u64,
    nr_cpus: u32,
) -> io::Result<()> {
    let own = match tracer {
        "timerlat" => Some(TIMERLAT),
        "osnoise" => Some(OSNOISE),
        _ => None,
    };
    if let Some(legend) = own {
        // As Linux has it, without the numbers of entries.
        write!(out, "# tracer: {tracer}\n{legend}")?;
        return Ok(());
    }
    writeln!(out, "# tracer: {tracer}\n#")?;
    writeln!(
        out,
        "# entries-in-buffer/entries-written: {entries}/{written}   #P:{nr_cpus}"
    )?;
    out.write_all(LEGEND.as_bytes())
}

/// Writes the line of an item, and learns thread names on the way. The time has 9 decimals, because a nanosecond may
/// be an instruction.
///
/// # Errors
/// Those of `out`.
pub fn write_item(mut out: impl Write, item: &Item<'_>, names: &mut Names) -> io::Result<()> {
    let mut line = core::mem::take(&mut names.line);
    line.clear();
    put_item(&mut line, item, names);
    let written = out.write_all(line.as_bytes());
    names.line = line;
    written
}

/// Puts what [`write_item`] writes behind `out`.
fn put_item(out: &mut String, item: &Item<'_>, names: &mut Names) {
    match item {
        Item::Record(record) => {
            names.learn(record);
            put_head(out, record, names);
            match names.switch(record) {
                Some(line) => out.push_str(&line),
                None => names.put_line(out, record),
            }
            out.push('\n');
        }
        Item::Lost {
            cpu,
            events,
            sub_buffers,
            ..
        } => {
            if *events > 0 {
                out.push_str(&format!("CPU:{cpu} [LOST {events} EVENTS]\n"));
            }
            if *sub_buffers > 0 {
                out.push_str(&format!("CPU:{cpu} [LOST {sub_buffers} SUB-BUFFERS]\n"));
            }
        }
        Item::Damage(damage) => out.push_str(&format!("# damaged: {damage}\n")),
    }
}

/// The columns before a line: `TASK-PID [CPU] FLAGS TIME: `.
fn put_head(out: &mut String, record: &Record<'_>, names: &Names) {
    let room = &mut put::Room::default();
    put::filled(out, names.threads.task(record.tid), 16, Fill::Spaces);
    out.push('-');
    let pid = names.threads.pid(record.tid);
    put::filled(out, put::digits(room, pid.into(), 1), 7, Fill::Behind);
    out.push_str(" [");
    out.push_str(put::digits(room, record.cpu.into(), 3));
    out.push_str("] ");
    record.context.put_columns(out);
    out.push(' ');
    let ns = names.clock.ns(record.ts);
    let (seconds, rest) = (ns / 1_000_000_000, ns % 1_000_000_000);
    put::filled(out, put::digits(room, seconds, 1), 5, Fill::Spaces);
    out.push('.');
    out.push_str(put::digits(room, rest, 9));
    out.push_str(": ");
}

/// A stack as ftrace shows it, in lines of their own. A function that is inlined in another has a line before it.
pub fn stack(record: &Record<'_>, callers: usize, names: &Names) -> String {
    put::alone(|out| put_stack(out, record, callers, names))
}

/// Puts the [`stack`] behind `out`.
pub(super) fn put_stack(out: &mut String, record: &Record<'_>, callers: usize, names: &Names) {
    let callers = record.values.get(callers).and_then(Value::elements);
    out.push_str("<stack trace>\n");
    for caller in callers.unwrap_or_default() {
        for function in names.inlined(*caller) {
            out.push_str(&format!(" => {function}\n"));
        }
        out.push_str(" => ");
        names.put_frame(out, *caller);
        out.push('\n');
    }
    if record.is_cut {
        out.push_str(&format!(" => {REST}\n"));
    }
}

/// What the tracer `osnoise` has sampled, in its columns. Times are microseconds, those of noise with
/// decimals where a nanosecond counts.
pub(super) fn osnoise(record: &Record<'_>, clock: TscClock) -> Option<String> {
    let ns = |name| record.number(name).map(|cycles| clock.ns(cycles));
    let (runtime, noise, longest) = (ns("runtime")?, ns("noise")?, ns("max_sample")?);
    // In thousandths of a per cent of a thousandth: five decimals of a per cent.
    let share = u128::from(runtime.saturating_sub(noise)) * 10_000_000 / u128::from(runtime.max(1));
    let mut line = format!(
        "{:>7} {:>10} {:>3}.{:05} {:>7}",
        runtime / 1000,
        micros(noise),
        share / 100_000,
        share % 100_000,
        micros(longest)
    );
    for name in [
        "hw_count",
        "nmi_count",
        "irq_count",
        "softirq_count",
        "thread_count",
    ] {
        line += &format!(" {:>6}", record.number(name)?);
    }
    Some(line)
}

fn micros(ns: u64) -> String {
    match ns % 1000 {
        0 => format!("{}", ns / 1000),
        rest => format!("{}.{rest:03}", ns / 1000),
    }
}
