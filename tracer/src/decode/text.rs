//! The text of ftrace: what `cat /sys/kernel/tracing/trace` would show.

use std::format;
use std::io::{self, Write};
use std::string::String;

use super::merge::Item;
use super::names::{Names, TscClock};
use super::record::{REST, Record, Value};

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
    match item {
        Item::Record(record) => {
            names.learn(record);
            let task = names.threads.task(record.tid);
            let pid = names.threads.pid(record.tid);
            let time = seconds(names.clock.ns(record.ts));
            let flags = record.context.flags();
            let switch = names.switch(record);
            let line = switch.unwrap_or_else(|| names.line(record));
            let cpu = record.cpu;
            writeln!(out, "{task:>16}-{pid:<7} [{cpu:03}] {flags} {time}: {line}")
        }
        Item::Lost {
            cpu,
            events,
            sub_buffers,
            ..
        } => {
            if *events > 0 {
                writeln!(out, "CPU:{cpu} [LOST {events} EVENTS]")?;
            }
            if *sub_buffers > 0 {
                writeln!(out, "CPU:{cpu} [LOST {sub_buffers} SUB-BUFFERS]")?;
            }
            Ok(())
        }
        Item::Damage(damage) => writeln!(out, "# damaged: {damage}"),
    }
}

/// A stack as ftrace shows it, in lines of their own. A function that is inlined in another has a line before it.
pub fn stack(record: &Record<'_>, callers: usize, names: &Names) -> String {
    let callers = record.values.get(callers).and_then(Value::elements);
    let mut out = String::from("<stack trace>\n");
    for caller in callers.unwrap_or_default() {
        for function in names.inlined(*caller).iter().chain([&names.frame(*caller)]) {
            out.push_str(&format!(" => {function}\n"));
        }
    }
    if record.is_cut {
        out.push_str(&format!(" => {REST}\n"));
    }
    out
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

/// Seconds with nine decimals.
fn seconds(ns: u64) -> String {
    format!("{:>5}.{:09}", ns / 1_000_000_000, ns % 1_000_000_000)
}
