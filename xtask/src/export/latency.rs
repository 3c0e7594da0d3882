//! The format of ftrace's latency tracers (`latency_trace`): times from the first event on, and a mark where it takes
//! long until the next one.
//!
//! Times are microseconds as in Linux, but with three decimals: under icount a nanosecond is an instruction, and whole
//! microseconds would all be 0. The header tells the latency from the first event to the last, so the lines go to a file
//! without a name first.
//!
//! Where a latency tracer has found a [`Stretch`], the trace is about that: the header tells its length and its ends, times
//! count from its beginning, which is the first line, and other records are left out.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufWriter, Seek, Write};
use std::path::Path;

use takt_tracer::control::Kept;
use takt_tracer::decode::{Item, Names, Record};

use super::{Export, Facts};

/// What the latency tracers record at the end of a stretch that they keep.
const LATENCY_MAX: &str = "tracer:latency_max";

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

/// A stretch of time that a latency tracer has kept, as the record `latency_max` at its end tells. Times in cycles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stretch {
    /// Where it was met.
    pub cpu: u8,
    /// The thread that ran at its end, or was woken.
    pub tid: u8,
    /// The first record that belongs to it is not before this.
    pub from: u64,
    /// The last is not behind this.
    pub to: u64,
    /// How long it was.
    pub cycles: u64,
    /// Where it began: an address.
    pub started_at: u64,
    /// Where it ended.
    pub ended_at: u64,
    /// It is about a thread that was woken, and what ran meanwhile, on whatever CPU.
    pub is_wakeup: bool,
    /// The wake-up itself is on record: the first one.
    has_begin: bool,
}

impl Stretch {
    /// One of which nothing is known but what the tracer has noted itself.
    #[must_use]
    pub fn without_records(kept: &Kept, is_wakeup: bool) -> Self {
        Self {
            cpu: kept.cpu as u8,
            tid: kept.tid,
            from: u64::MAX,
            to: 0,
            cycles: kept.cycles,
            started_at: kept.started_at.into(),
            ended_at: kept.ended_at.into(),
            is_wakeup,
            has_begin: false,
        }
    }

    /// Whether a record belongs to it.
    #[must_use]
    pub fn has(&self, record: &Record<'_>) -> bool {
        let is_its_cpu = self.is_wakeup || record.cpu == self.cpu;
        is_its_cpu && (self.from..=self.to).contains(&record.ts)
    }
}

/// Finds the last stretch of a trace.
#[derive(Debug, Default)]
pub struct Finder {
    is_wakeup: bool,
    /// What is looked for, if not the last.
    wanted: Option<Kept>,
    /// The wake-ups of threads that have not run since.
    wakeups: BTreeMap<u8, u64>,
    found: Option<Stretch>,
    /// Whom the switch will be to that ends it.
    awaited: Option<u8>,
}

impl Finder {
    /// For the records of this tracer.
    #[must_use]
    pub fn new(tracer: &str) -> Self {
        Self {
            is_wakeup: is_wakeup(tracer),
            ..Self::default()
        }
    }

    /// Looks for this one.
    #[must_use]
    pub fn only(mut self, kept: Kept) -> Self {
        self.wanted = Some(kept);
        self
    }

    fn is_wanted(&self, record: &Record<'_>) -> bool {
        self.wanted.is_none_or(|kept| {
            record.cpu == kept.cpu as u8
                && record.number("tid") == Some(kept.tid.into())
                && record.number("latency") == Some(kept.cycles)
                && record.number("started_at") == Some(kept.started_at.into())
                && record.number("ended_at") == Some(kept.ended_at.into())
        })
    }

    /// The next record, in the order of time.
    pub fn see(&mut self, record: &Record<'_>) {
        let number = |name| record.number(name).unwrap_or(0);
        match record.event.name.as_str() {
            "sched:sched_wakeup" => {
                self.wakeups.insert(number("tid") as u8, record.ts);
            }
            "sched:sched_switch" => {
                let next = number("next") as u8;
                self.wakeups.remove(&next);
                if let Some(found) = &mut self.found
                    && found.cpu == record.cpu
                    && self.awaited.take() == Some(next)
                {
                    found.to = record.ts;
                }
            }
            LATENCY_MAX if self.is_wanted(record) => {
                let (tid, cycles) = (number("tid") as u8, number("latency"));
                let began = record.ts.saturating_sub(cycles);
                let wakeups = self.wakeups.get(&tid).filter(|ts| **ts <= began);
                let wakeup = wakeups.copied().filter(|_| self.is_wakeup);
                self.found = Some(Stretch {
                    cpu: record.cpu,
                    tid,
                    from: wakeup.unwrap_or(began),
                    to: record.ts,
                    cycles,
                    started_at: number("started_at"),
                    ended_at: number("ended_at"),
                    is_wakeup: self.is_wakeup,
                    has_begin: wakeup.is_some(),
                });
                self.awaited = self.is_wakeup.then_some(tid);
            }
            _ => {}
        }
    }

    /// The last stretch, if there was one.
    #[must_use]
    pub fn found(&self) -> Option<Stretch> {
        self.found
    }
}

/// The tracers whose output is the stretch of the last maximum.
#[must_use]
pub fn is_latency_tracer(name: &str) -> bool {
    ["irqsoff", "preemptoff", "preemptirqsoff"].contains(&name) || is_wakeup(name)
}

/// Whether a tracer follows threads that are woken.
#[must_use]
pub fn is_wakeup(name: &str) -> bool {
    ["wakeup", "wakeup_rt"].contains(&name)
}

/// The lines, and what the header will say.
pub struct Latency<'o> {
    out: &'o mut dyn Write,
    lines: BufWriter<File>,
    tracer: String,
    /// What it is about, if not about everything.
    stretch: Option<Stretch>,
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
    /// Losses and damage behind it.
    notes: String,
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

impl<'o> Latency<'o> {
    /// With a nameless file in `spool` until the header is known.
    ///
    /// # Errors
    ///
    /// If there is no room for the file.
    pub fn new(out: &'o mut dyn Write, spool: &Path) -> io::Result<Self> {
        Ok(Self {
            out,
            lines: BufWriter::new(tempfile::tempfile_in(spool)?),
            tracer: "nop".into(),
            stretch: None,
            is_verbose: false,
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

    /// Of this tracer; of what it is given only a stretch is shown, if there is one.
    #[must_use]
    pub fn of(mut self, tracer: &str, stretch: Option<Stretch>) -> Self {
        tracer.clone_into(&mut self.tracer);
        self.task = stretch.map(|stretch| stretch.tid);
        self.stretch = stretch;
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
                writeln!(
                    self.lines,
                    "{head} {:>8}us{}: {what}",
                    micros(ns),
                    mark(delay)
                )?;
            }
        }
        self.lines.write_all(self.notes.as_bytes())?;
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

    fn head(&self, record: &Record<'_>, names: &Names) -> String {
        let (task, pid) = (
            names.threads.task(record.tid),
            names.threads.pid(record.tid),
        );
        let context = record.context;
        if self.is_verbose {
            let flags = u8::from(context.is_irqs_off())
                | u8::from(context.is_need_resched()) << 2
                | u8::from(context.is_hardirq()) << 3
                | u8::from(context.is_nmi()) << 6;
            return format!(
                "{task:>16} {pid:>7} {:>3} {flags} {:08x} {:08x}",
                record.cpu,
                context.depth(),
                self.entries,
            );
        }
        let task: String = task.chars().take(8).collect();
        format!("{task:>8}-{pid:<5} {:3}{}", record.cpu, context.flags())
    }

    /// The line for the beginning of a stretch: who had the CPU then, as far as the first record behind it tells.
    fn write_begin(&mut self, stretch: &Stretch, record: &Record<'_>, names: &Names) {
        self.waiting = Some(Waiting {
            head: self.head(record, names),
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
        // A wake-up begins and ends at the same places always.
        let places = match &self.stretch {
            Some(stretch) if !stretch.is_wakeup => format!(
                "#  => started at: {}\n#  => ended at:   {}\n#\n",
                names.symbol(stretch.started_at),
                names.symbol(stretch.ended_at)
            ),
            _ => String::new(),
        };
        format!(
            "# tracer: {tracer}\n#\n# {tracer} latency trace v{VERSION} on takt-{}\n\
             # --------------------------------------------------------------------\n\
             # latency: {} us, #{}/{}, CPU#{cpu} | (M:preempt VP:0, KP:0, SP:0 HP:0 #P:{})\n\
             #    -----------------\n\
             #    | task: {}-{} (uid:0 nice:0 policy:{policy} rt_prio:{rt_prio})\n\
             #    -----------------\n{places}{}",
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
        self.follow(record);
        if self.stretch.is_some_and(|stretch| !stretch.has(record)) {
            return Ok(());
        }
        let ns = names.clock.ns(record.ts);
        if let Some(stretch) = self.stretch
            && self.first.is_none()
        {
            self.last = names.clock.ns(stretch.from);
            self.first = Some((self.last, record.cpu));
            if !stretch.has_begin {
                self.write_begin(&stretch, record, names);
            }
        }
        self.write_waiting(ns.saturating_sub(self.last))?;
        let (first, _) = *self.first.get_or_insert((ns, record.cpu));
        self.last = ns;
        self.waiting = Some(Waiting {
            head: self.head(record, names),
            ns: ns.saturating_sub(first),
            what: names.line(record),
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

/// Milliseconds with all of the nanoseconds.
fn millis(ns: u64) -> String {
    format!("{}.{:06}ms", ns / 1_000_000, ns % 1_000_000)
}

#[cfg(test)]
mod tests {
    use super::*;
    use takt_tracer::decode::{Context, EventTable, Threads, Value};

    /// The descriptions of the events, as an image has them.
    fn table() -> EventTable {
        let texts = [
            (
                2u64,
                "event sched:sched_wakeup\nclass w\nlayout core8\nfield tid 8 tid\nfield prio 8 prio\nprint pid={tid:pid}\n",
            ),
            (
                4,
                "event sched:sched_switch\nclass s\nlayout core8\nfield next 8 tid\nfield next_prio 8 prio\nprint next={next:pid}\n",
            ),
            (
                6,
                "event tracer:latency_max\nclass l\nlayout core8\nfield tid 8 tid\nfield started_at 32 sym\nfield ended_at 32 sym\nfield latency 64 cycles\nprint latency={latency}\n",
            ),
            (
                8,
                "event app:step\nclass n\nlayout core8\nfield n 8 u\nprint n={n}\n",
            ),
        ];
        let mut section = Vec::new();
        for (id, text) in texts {
            section.extend(id.to_le_bytes());
            section.extend((text.len() as u64).to_le_bytes());
            section.extend(text.as_bytes());
            section.resize(section.len().next_multiple_of(8), 0);
        }
        EventTable::parse(&section).unwrap()
    }

    /// A record: CPU, time, running thread, event, values.
    type Line<'a> = (u8, u64, u8, &'a str, &'a [u64]);

    const WAKEUP: &str = "sched:sched_wakeup";
    const SWITCH: &str = "sched:sched_switch";
    const STEP: &str = "app:step";

    /// The stretch that is found for a tracer, and how it is shown.
    fn written(tracer: &str, lines: &[Line<'_>], is_verbose: bool) -> (Stretch, Vec<String>) {
        let table = table();
        let record = |(cpu, ts, tid, event, values): &Line<'_>| Record {
            cpu: *cpu,
            ts: *ts,
            context: Context(0x80),
            tid: *tid,
            event: table.by_name(event).unwrap(),
            values: values.iter().map(|value| Value::Number(*value)).collect(),
        };
        let records: Vec<_> = lines.iter().map(record).collect();
        let mut finder = Finder::new(tracer);
        records.iter().for_each(|record| finder.see(record));
        let stretch = finder.found().unwrap();
        let mut names = Names::new(1_000_000_000, Threads::new(2))
            .with_symbols(|address| Some(format!("f{address}")));
        names.threads.name(7, "seven");
        names.threads.name(8, "eight");
        let mut out = Vec::new();
        let spool = std::env::temp_dir();
        let mut latency = Latency::new(&mut out, &spool)
            .unwrap()
            .of(tracer, Some(stretch))
            .verbose(is_verbose);
        let facts = Facts {
            in_file: 9,
            lost: 0,
            nr_cpus: 2,
        };
        latency.begin(facts).unwrap();
        for record in records {
            latency.item(&Item::Record(record), &mut names).unwrap();
        }
        latency.end(&names).unwrap();
        drop(latency);
        let text = String::from_utf8(out).unwrap();
        (stretch, text.lines().map(str::to_owned).collect())
    }

    #[test]
    fn a_stretch_without_interrupts() {
        let lines = [
            (0, 100, 7, LATENCY_MAX, &[7, 1, 2, 50][..]),
            (0, 900, 0, SWITCH, &[7, 4]),
            (0, 1_000, 7, STEP, &[1]),
            (1, 1_500, 8, STEP, &[2]),
            (0, 30_000, 7, STEP, &[3]),
            (0, 31_000, 7, LATENCY_MAX, &[7, 3, 4, 30_500]),
            (0, 31_100, 7, STEP, &[4]),
        ];
        let (stretch, text) = written("irqsoff", &lines, false);
        assert_eq!((stretch.from, stretch.to), (500, 31_000));
        assert_eq!(
            text[..11],
            [
                "# tracer: irqsoff",
                "#",
                concat!(
                    "# irqsoff latency trace v1.1.5 on takt-",
                    env!("CARGO_PKG_VERSION")
                ),
                "# --------------------------------------------------------------------",
                "# latency: 30.500 us, #5/9, CPU#0 | (M:preempt VP:0, KP:0, SP:0 HP:0 #P:2)",
                "#    -----------------",
                "#    | task: seven-7 (uid:0 nice:0 policy:1 rt_prio:95)",
                "#    -----------------",
                "#  => started at: f3",
                "#  => ended at:   f4",
                "#",
            ]
        );
        assert_eq!(
            text[20..],
            [
                "  <idle>-0       0d...    0.000us : f3",
                "  <idle>-0       0d...    0.400us : sched_switch: next=7",
                "   seven-7       0d...    0.500us+: step: n=1",
                "   seven-7       0d...   29.500us : step: n=3",
                "   seven-7       0d...   30.500us : latency_max: latency=30500",
            ]
        );
    }

    #[test]
    fn a_stretch_from_the_wakeup_to_the_switch() {
        let lines = [
            (0, 100, 7, WAKEUP, &[8, 4][..]),
            (0, 200, 7, SWITCH, &[8, 4]),
            (0, 1_000, 7, WAKEUP, &[8, 4]),
            (1, 1_500, 0, STEP, &[2]),
            (0, 2_300, 7, LATENCY_MAX, &[8, 3, 4, 1_200]),
            (0, 2_400, 7, SWITCH, &[8, 4]),
            (0, 2_500, 8, STEP, &[3]),
        ];
        let (stretch, text) = written("wakeup", &lines, true);
        assert_eq!((stretch.from, stretch.to, stretch.tid), (1_000, 2_400, 8));
        assert_eq!(
            text[6],
            "#    | task: eight-8 (uid:0 nice:0 policy:1 rt_prio:95)"
        );
        assert_eq!(
            text[8..],
            [
                "#",
                "           seven       7   0 1 00000000 00000000 [00000000] 0.000000ms (+0.000500ms): sched_wakeup: pid=8",
                "          <idle>       0   1 1 00000000 00000001 [00000000] 0.000500ms (+0.000800ms): step: n=2",
                "           seven       7   0 1 00000000 00000002 [00000001] 0.001300ms (+0.000100ms): latency_max: latency=1200",
                "           seven       7   0 1 00000000 00000003 [00000001] 0.001400ms (+0.000000ms): sched_switch: next=8",
            ]
        );
    }

    #[test]
    fn the_one_that_is_looked_for() {
        let table = table();
        let kept = Kept {
            cycles: 50,
            started_at: 1,
            ended_at: 2,
            cpu: 0,
            tid: 7,
        };
        let mut finder = Finder::new("irqsoff").only(kept);
        for (ts, cycles) in [(100, 40), (200, 50), (300, 60)] {
            finder.see(&Record {
                cpu: 0,
                ts,
                context: Context(0x80),
                tid: 7,
                event: table.by_name(LATENCY_MAX).unwrap(),
                values: [7, 1, 2, cycles].map(Value::Number).to_vec(),
            });
        }
        assert_eq!(finder.found().unwrap().to, 200);
        assert!(Stretch::without_records(&kept, false).from > 0);
    }

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
