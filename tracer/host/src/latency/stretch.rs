//! [`Stretch`]: the time that a latency tracer has kept, and how it is found in a trace.

use std::collections::BTreeMap;

use takt_decode::{Context, Record};
use takt_tracer::control::Kept;

use takt_guest::Elf;
use takt_guest::symbolize::Symbolizer;

/// What the latency tracers record at the end of a stretch that they keep.
pub(super) const LATENCY_MAX: &str = "tracer:latency_max";

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
    pub(super) has_begin: bool,
    /// Who ran when it began, where that was noted.
    pub(super) begin: Option<Begin>,
}

/// Who ran, and in what context: at the beginning of a stretch without interrupts or preemption, as its tracer has noted it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Begin {
    /// The running thread.
    pub tid: u8,
    /// Interrupts and preempt count.
    pub context: Context,
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
            begin: None,
        }
    }

    /// What counts as its beginning where times are shown, in cycles: so that its last record is where it was as long as it
    /// was, the tracer's own instructions are taken off its beginning.
    #[must_use]
    pub fn zero(&self) -> u64 {
        if self.is_wakeup {
            self.from
        } else {
            self.to.saturating_sub(self.cycles)
        }
    }

    /// Whether a record belongs to it.
    #[must_use]
    pub fn has(&self, record: &Record<'_>) -> bool {
        let is_its_cpu = self.is_wakeup || record.cpu == self.cpu;
        is_its_cpu && (self.from..=self.to).contains(&record.ts)
    }
}

/// Files of functions that are inlined wherever a section begins or ends: it is their callers that are of interest.
const TOOLS: &[&str] = &[
    "kernel/src/arch/",
    "kernel/src/lock.rs",
    "kernel/src/probe/",
    "kernel/src/section.rs",
    "kernel/src/section/",
    "kernel/src/preempt.rs",
    "kernel/src/trace/",
];

/// The source lines of a stretch's ends, `file:line`, where the image tells them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lines {
    /// Where it began.
    pub started_at: Option<String>,
    /// Where it ended.
    pub ended_at: Option<String>,
}

impl Lines {
    /// Those of `stretch`, by the debug information of the image that recorded it.
    #[must_use]
    pub fn of(stretch: &Stretch, elf: &Elf) -> Self {
        let names = Symbolizer::new(elf);
        Self {
            started_at: names.line(stretch.started_at, TOOLS),
            ended_at: names.line(stretch.ended_at, TOOLS),
        }
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
                let shortest = record.ts.saturating_sub(cycles);
                let noted = noted(record).filter(|_| !self.is_wakeup);
                let began = noted.map_or(shortest, |(low, _)| latest(shortest, low));
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
                    begin: noted.map(|(_, begin)| begin),
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

/// What the tracer has noted at the beginning: the lower half of the time, and who ran. A detector of latencies notes none.
fn noted(record: &Record<'_>) -> Option<(u32, Begin)> {
    let number = |name| record.number(name);
    let (low, tid) = (number("began")? as u32, number("begun_by")? as u8);
    let context = Context(number("context")? as u8);
    (low != 0 || tid != 0 || context.0 != 0).then_some((low, Begin { tid, context }))
}

/// The latest time with this lower half that is not after `limit`.
fn latest(limit: u64, low: u32) -> u64 {
    limit.saturating_sub(u64::from((limit as u32).wrapping_sub(low)))
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
