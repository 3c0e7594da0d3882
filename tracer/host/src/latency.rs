//! The format of ftrace's latency tracers (`latency_trace`): times from the first event on, and a mark where it takes
//! long until the next one.
//!
//! Times are microseconds as in Linux, but with three decimals: under icount a nanosecond is an instruction, and whole
//! microseconds would all be 0. The header tells the latency from the first event to the last, so the lines go to a file
//! without a name first.
//!
//! Where a latency tracer has found a [`Stretch`], the trace is about that: the header tells its length and its ends, times
//! count from its beginning, which is the first line, and other records are left out. The latency is without the tracer's own
//! instructions; those are taken off the beginning, so that the last record stands at the latency.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufWriter, Seek, Write};
use std::path::Path;

use takt_decode::{Context, Item, Names, Record, put_decimal, write_item};

use super::{Export, Facts};

mod stretch;

pub use stretch::{Begin, Finder, Lines, Stretch, is_latency_tracer, is_wakeup};

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

/// Between which instructions a stretch without interrupts or preemption is measured, so that its length is not taken for
/// that of another tool.
const ENDS_OF_SECTION: &str = "\
#  => measured:   from the instruction behind cli (preemption: inc) to the one before sti (dec); an interrupt from its time
#                 stamp to its return. A sweep counts on to the instruction behind sti.
#
";
/// The same of a wake-up.
const ENDS_OF_WAKEUP: &str = "\
#  => measured:   from the trace point sched_wakeup to that of sched_switch
#
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
pub struct Latency<'o> {
    out: &'o mut dyn Write,
    lines: BufWriter<File>,
    tracer: String,
    /// What it is about, if not about everything.
    stretch: Option<Stretch>,
    /// The source lines of its ends.
    places: Lines,
    /// Whose time it is.
    clock: Option<String>,
    is_verbose: bool,
    /// Events in the file and lost.
    total: u64,
    nr_cpus: u32,
    entries: u64,
    /// The times of the first and of the last event, in ns, and the CPU of the first.
    first: Option<(u64, u8)>,
    last: u64,
    /// The event whose mark is not known yet.
    waiting: Option<Waiting>,
    /// The memory of the texts of one that was written.
    spare: (String, String),
    /// Losses and damage behind it.
    notes: Vec<u8>,
    /// The thread that runs at the end, and the priorities that switches and wake-ups have told.
    task: Option<u8>,
    prios: BTreeMap<u8, u64>,
}

impl std::fmt::Debug for Latency<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Latency").finish_non_exhaustive()
    }
}

/// A line but for what the next one tells.
struct Waiting {
    /// Who, where and in which context.
    head: String,
    /// Since the beginning, in ns.
    ns: u64,
    what: String,
}

/// What ftrace's option `verbose` shows of a context as one number.
fn bits(context: Context) -> u8 {
    u8::from(context.is_irqs_off())
        | u8::from(context.is_need_resched()) << 2
        | u8::from(context.is_hardirq()) << 3
        | u8::from(context.is_nmi()) << 6
}

impl<'o> Latency<'o> {
    /// With a nameless file in `spool` until the header is known.
    ///
    /// # Errors
    ///
    /// If there is no room for the file.
    pub fn new(out: &'o mut dyn Write, spool: &Path) -> io::Result<Self> {
        Ok(Self {
            out,
            lines: BufWriter::with_capacity(1 << 16, tempfile::tempfile_in(spool)?),
            tracer: "nop".into(),
            stretch: None,
            places: Lines::default(),
            clock: None,
            is_verbose: false,
            total: 0,
            nr_cpus: 0,
            entries: 0,
            first: None,
            last: 0,
            waiting: None,
            spare: Default::default(),
            notes: Vec::new(),
            task: None,
            prios: BTreeMap::new(),
        })
    }

    /// Of this tracer; of what it is given only a stretch is shown, if there is one.
    #[must_use]
    pub fn of(mut self, tracer: &str, stretch: Option<Stretch>) -> Self {
        tracer.clone_into(&mut self.tracer);
        self.task = stretch.map(|stretch| stretch.tid);
        self.stretch = stretch;
        self
    }

    /// With the source lines of the stretch's ends behind their functions.
    #[must_use]
    pub fn places(mut self, places: Lines) -> Self {
        self.places = places;
        self
    }

    /// With a word about the clock that the latencies are measured by.
    #[must_use]
    pub fn clock(mut self, clock: String) -> Self {
        self.clock = Some(clock);
        self
    }

    /// With lines as ftrace's option `verbose` has them.
    #[must_use]
    pub fn verbose(mut self, is_verbose: bool) -> Self {
        self.is_verbose = is_verbose;
        self
    }

    /// Gives a thread a priority, as ftrace counts.
    pub fn prio(&mut self, tid: u8, prio: u64) {
        self.prios.insert(tid, prio);
    }

    /// Writes the event that waits, now that it is known how long it takes until the next one.
    fn write_waiting(&mut self, delay: u64) -> io::Result<()> {
        if let Some(Waiting { head, ns, what }) = self.waiting.take() {
            if self.is_verbose {
                writeln!(
                    self.lines,
                    "{head} [{:08x}] {} (+{}): {what}",
                    ns / 1000,
                    millis(ns),
                    millis(delay)
                )?;
            } else {
                // What is done for each record of a long trace, in the memory of the one before.
                let mut line = head;
                line.push(' ');
                put_micros(&mut line, ns);
                line.push_str("us");
                line.push(mark(delay));
                line.push_str(": ");
                line.push_str(&what);
                line.push('\n');
                self.lines.write_all(line.as_bytes())?;
                self.spare = (line, what);
            }
        }
        self.lines.write_all(&self.notes)?;
        self.notes.clear();
        Ok(())
    }

    fn follow(&mut self, record: &Record<'_>) {
        let number = |name| record.number(name);
        match record.event.name.as_str() {
            "sched:sched_switch" => {
                let next = number("next").unwrap_or(0) as u8;
                self.prios
                    .extend(number("next_prio").map(|prio| (next, prio)));
                self.task = Some(next);
            }
            "sched:sched_wakeup" => {
                let tid = number("tid").unwrap_or(0) as u8;
                self.prios.extend(number("prio").map(|prio| (tid, prio)));
                self.task = Some(record.tid);
            }
            _ => self.task = Some(record.tid),
        }
        if let Some(stretch) = &self.stretch {
            self.task = Some(stretch.tid);
        }
    }

    fn head(&mut self, cpu: u8, who: Begin, names: &Names) -> String {
        let Begin { tid, context } = who;
        let (task, pid) = (names.threads.task(tid), names.threads.pid(tid));
        if self.is_verbose {
            return format!(
                "{task:>16} {pid:>7} {cpu:>3} {} {:08x} {:08x}",
                bits(context),
                context.depth(),
                self.entries,
            );
        }
        let mut head = std::mem::take(&mut self.spare.0);
        head.clear();
        let end = task.char_indices().nth(8).map_or(task.len(), |(at, _)| at);
        let task = &task[..end];
        push_right(&mut head, task, 8);
        head.push('-');
        let begin = head.len();
        put_decimal(&mut head, pid);
        while head.len() < begin + 6 {
            head.push(' ');
        }
        let number = &mut String::new();
        put_decimal(number, cpu);
        push_right(&mut head, number, 3);
        context.put_columns(&mut head);
        head
    }

    /// The line for the beginning of a stretch: who had the CPU then, as far as the first record behind it tells where
    /// that was not noted.
    fn write_begin(&mut self, stretch: &Stretch, record: &Record<'_>, names: &Names) {
        let begin = stretch.begin.unwrap_or_else(|| of_record(record));
        self.waiting = Some(Waiting {
            head: self.head(stretch.cpu, begin, names),
            ns: 0,
            what: names.symbol(stretch.started_at),
        });
        self.entries += 1;
    }

    fn header(&self, names: &Names) -> String {
        let (first, cpu) = self.first.unwrap_or_default();
        let task = self.task.unwrap_or_default();
        // ftrace's priority 0 is FIFO 99; from 100 on it is none of a real-time thread.
        let prio = self.prios.get(&task).filter(|prio| **prio < 100);
        let (policy, rt_prio) = prio.map_or((0, 0), |prio| (1, 99 - prio));
        let latency = match &self.stretch {
            Some(stretch) => names.clock.ns(stretch.cycles),
            None => self.last.saturating_sub(first),
        };
        let cpu = self.stretch.map_or(cpu, |stretch| stretch.cpu);
        // A wake-up's are told by what was woken and what ran.
        let place = |address, line: &Option<String>| match line {
            Some(line) => format!("{} ({line})", names.symbol(address)),
            None => names.symbol(address),
        };
        let places = match &self.stretch {
            Some(stretch) if !stretch.is_wakeup => format!(
                "#  => started at: {}\n#  => ended at:   {}\n{ENDS_OF_SECTION}",
                place(stretch.started_at, &self.places.started_at),
                place(stretch.ended_at, &self.places.ended_at)
            ),
            Some(_) => ENDS_OF_WAKEUP.into(),
            None => String::new(),
        };
        let clock = self.clock.as_ref();
        let clock = clock.map_or_else(String::new, |clock| format!("#  => clock: {clock}\n"));
        format!(
            "# tracer: {tracer}\n#\n# {tracer} latency trace v{VERSION} on takt-{}\n\
             # --------------------------------------------------------------------\n\
             # latency: {} us, #{}/{}, CPU#{cpu} | (M:preempt VP:0, KP:0, SP:0 HP:0 #P:{})\n\
             #    -----------------\n\
             #    | task: {}-{} (uid:0 nice:0 policy:{policy} rt_prio:{rt_prio})\n\
             #    -----------------\n{clock}{places}{}",
            env!("CARGO_PKG_VERSION"),
            micros(latency),
            self.entries,
            self.total.max(self.entries),
            self.nr_cpus,
            names.threads.comm(task),
            names.threads.pid(task),
            if self.is_verbose { "#\n" } else { LEGEND },
            tracer = self.tracer,
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
            // What is lost outside of the stretch matters to nobody.
            Item::Lost { ts, .. }
                if self
                    .stretch
                    .is_some_and(|stretch| !(stretch.from..=stretch.to).contains(ts)) =>
            {
                return Ok(());
            }
            Item::Lost { .. } | Item::Damage(_) => return write_item(&mut self.notes, item, names),
        };
        names.learn(record);
        self.follow(record);
        if self.stretch.is_some_and(|stretch| !stretch.has(record)) {
            return Ok(());
        }
        let ns = names.clock.ns(record.ts);
        if let Some(stretch) = self.stretch
            && self.first.is_none()
        {
            self.last = names.clock.ns(stretch.zero());
            self.first = Some((self.last, record.cpu));
            if !stretch.has_begin {
                self.write_begin(&stretch, record, names);
            }
        }
        self.write_waiting(ns.saturating_sub(self.last))?;
        let (first, _) = *self.first.get_or_insert((ns, record.cpu));
        self.last = ns.max(first);
        let mut what = std::mem::take(&mut self.spare.1);
        what.clear();
        names.put_line(&mut what, record);
        self.waiting = Some(Waiting {
            head: self.head(record.cpu, of_record(record), names),
            ns: ns.saturating_sub(first),
            what,
        });
        self.entries += 1;
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

/// Who ran at a record.
fn of_record(record: &Record<'_>) -> Begin {
    Begin {
        tid: record.tid,
        context: record.context,
    }
}

fn mark(delay: u64) -> char {
    let mut marks = MARKS.iter();
    marks
        .find(|(ns, _)| delay > *ns)
        .map_or(' ', |(_, mark)| *mark)
}

/// Microseconds with three decimals, eight characters at least.
fn put_micros(out: &mut String, ns: u64) {
    let (whole, rest) = (ns / 1000, ns % 1000);
    let nr_digits = whole.checked_ilog10().map_or(1, |log| log as usize + 1);
    for _ in nr_digits..4 {
        out.push(' ');
    }
    put_decimal(out, whole);
    out.push('.');
    for digit in [rest / 100, rest / 10 % 10, rest % 10] {
        put_decimal(out, digit);
    }
}

/// A text with spaces before it, so many characters at least.
fn push_right(out: &mut String, text: &str, width: usize) {
    for _ in text.chars().count()..width {
        out.push(' ');
    }
    out.push_str(text);
}

/// Microseconds with three decimals.
fn micros(ns: u64) -> String {
    format!("{}.{:03}", ns / 1000, ns % 1000)
}

/// Milliseconds with all of the nanoseconds.
fn millis(ns: u64) -> String {
    format!("{}.{:06}ms", ns / 1_000_000, ns % 1_000_000)
}

#[cfg(test)]
mod tests;
