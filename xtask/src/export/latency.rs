//! The format of ftrace's latency tracers (`latency_trace`): times from the first event on, and a mark where it takes
//! long until the next one.
//!
//! Times are microseconds as in Linux, but with three decimals: under icount a nanosecond is an instruction, and whole
//! microseconds would all be 0. The header tells the latency from the first event to the last, so the lines go to a file
//! without a name first.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufWriter, Seek, Write};

use takt_tracer::decode::{Item, Names, Record, Role, stack};

use super::{Export, Facts, Origin};

/// The version of the format.
const VERSION: &str = "1.1.5";

const LEGEND: &str = "\
#
#                  _------=> CPU#
#                 / _-----=> irqs-off
#                | / _----=> need-resched
#                || / _---=> hardirq/softirq
#                ||| / _--=> preempt-depth
#                |||| /         delay
#  cmd     pid   ||||| time      |   caller
#     \\   /      |||||  \\        |   /
";

/// What is longer than so many ns has a mark.
const MARKS: [(u64, char); 6] = [
    (1_000_000_000, '$'),
    (100_000_000, '@'),
    (10_000_000, '*'),
    (1_000_000, '#'),
    (100_000, '!'),
    (10_000, '+'),
];

/// The lines, and what the header will say.
pub(super) struct Latency<'o> {
    out: &'o mut dyn Write,
    lines: BufWriter<File>,
    /// Events in the file and lost.
    total: u64,
    nr_cpus: u32,
    entries: u64,
    /// The times of the first and of the last event, in ns, and the CPU of the first.
    first: Option<(u64, u8)>,
    last: u64,
    /// The event whose mark is not known yet: what stands before it and behind it.
    waiting: Option<(String, String)>,
    /// Losses and damage behind it.
    notes: String,
    /// The thread that runs at the end, and the priorities that switches have told.
    task: Option<u8>,
    prios: BTreeMap<u8, u64>,
}

impl<'o> Latency<'o> {
    pub(super) fn new(out: &'o mut dyn Write, origin: &Origin<'_>) -> io::Result<Self> {
        Ok(Self {
            out,
            lines: BufWriter::new(tempfile::tempfile_in(origin.spool)?),
            total: 0,
            nr_cpus: 0,
            entries: 0,
            first: None,
            last: 0,
            waiting: None,
            notes: String::new(),
            task: None,
            prios: BTreeMap::new(),
        })
    }

    /// Writes the event that waits, now that it is known how long it takes until the next one.
    fn write_waiting(&mut self, delay: u64) -> io::Result<()> {
        if let Some((before, behind)) = self.waiting.take() {
            writeln!(self.lines, "{before}{}{behind}", mark(delay))?;
        }
        self.lines.write_all(self.notes.as_bytes())?;
        self.notes.clear();
        Ok(())
    }

    fn follow(&mut self, record: &Record<'_>) {
        self.task = Some(record.tid);
        if record.event.name == "sched:sched_switch" {
            let next = record.number("next").unwrap_or(0) as u8;
            self.task = Some(next);
            if let Some(prio) = record.number("next_prio") {
                self.prios.insert(next, prio);
            }
        }
    }

    fn header(&self, names: &Names) -> String {
        let (first, cpu) = self.first.unwrap_or_default();
        let task = self.task.unwrap_or_default();
        // ftrace's priority 0 is FIFO 99; from 100 on it is none of a real-time thread.
        let prio = self.prios.get(&task).filter(|prio| **prio < 100);
        let (policy, rt_prio) = prio.map_or((0, 0), |prio| (1, 99 - prio));
        format!(
            "# tracer: nop\n#\n# nop latency trace v{VERSION} on takt-{}\n\
             # --------------------------------------------------------------------\n\
             # latency: {} us, #{}/{}, CPU#{cpu} | (M:preempt VP:0, KP:0, SP:0 HP:0 #P:{})\n\
             #    -----------------\n\
             #    | task: {}-{} (uid:0 nice:0 policy:{policy} rt_prio:{rt_prio})\n\
             #    -----------------\n{LEGEND}",
            env!("CARGO_PKG_VERSION"),
            micros(self.last.saturating_sub(first)),
            self.entries,
            self.total,
            self.nr_cpus,
            names.threads.comm(task),
            names.threads.pid(task),
        )
    }
}

impl Export for Latency<'_> {
    fn begin(&mut self, facts: Facts) -> io::Result<()> {
        self.total = facts.in_file + facts.lost;
        self.nr_cpus = facts.nr_cpus;
        Ok(())
    }

    fn item(&mut self, item: &Item<'_>, names: &mut Names) -> io::Result<()> {
        let record = match item {
            Item::Record(record) => record,
            Item::Lost {
                cpu,
                events,
                sub_buffers,
                ..
            } => {
                for (count, what) in [(events, "EVENTS"), (sub_buffers, "SUB-BUFFERS")] {
                    if *count > 0 {
                        self.notes
                            .push_str(&format!("CPU:{cpu} [LOST {count} {what}]\n"));
                    }
                }
                return Ok(());
            }
            Item::Damage(damage) => {
                self.notes.push_str(&format!("# damaged: {damage}\n"));
                return Ok(());
            }
        };
        names.threads.learn(record);
        let ns = names.clock.ns(record.ts);
        self.write_waiting(ns.saturating_sub(self.last))?;
        let (first, _) = *self.first.get_or_insert((ns, record.cpu));
        self.last = ns;
        self.entries += 1;
        self.follow(record);
        let task: String = names.threads.task(record.tid).chars().take(8).collect();
        self.waiting = Some((
            format!(
                "{task:>8}-{:<5} {:3}{} {:>8}us",
                names.threads.pid(record.tid),
                record.cpu,
                record.context.flags(),
                micros(ns.saturating_sub(first)),
            ),
            match record.event.role {
                Role::Stack { callers } => {
                    format!(": {}", stack(record, callers, names).trim_end())
                }
                _ => format!(": {}: {}", record.event.event(), names.message(record)),
            },
        ));
        Ok(())
    }

    fn end(&mut self, names: &Names) -> io::Result<()> {
        self.write_waiting(0)?;
        self.out.write_all(self.header(names).as_bytes())?;
        self.lines.flush()?;
        let lines = self.lines.get_mut();
        lines.rewind()?;
        io::copy(lines, &mut self.out)?;
        Ok(())
    }
}

fn mark(delay: u64) -> char {
    let mut marks = MARKS.iter();
    marks
        .find(|(ns, _)| delay > *ns)
        .map_or(' ', |(_, mark)| *mark)
}

/// Microseconds with three decimals.
fn micros(ns: u64) -> String {
    format!("{}.{:03}", ns / 1000, ns % 1000)
}

#[cfg(test)]
mod tests {
    use super::{mark, micros};

    #[test]
    fn marks_are_ftraces() {
        let marks = [
            0,
            10_000,
            10_001,
            100_001,
            1_000_001,
            10_000_001,
            100_000_001,
            1_000_000_001,
        ];
        assert_eq!(marks.map(mark).iter().collect::<String>(), "  +!#*@$");
        assert_eq!(
            (micros(0), micros(12_034)),
            ("0.000".into(), "12.034".into())
        );
    }
}
