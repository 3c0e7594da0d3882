//! What happened around the worst activations, in a second reading of the trace.

use std::collections::{BTreeMap, VecDeque};

use anyhow::Result;
use takt_decode::{Irqs, Item, Names, Record};

use super::causes::{self, Piece};
use takt_machine::samples::Trace;
use takt_machine::samples::{EXPIRE, IRQ, Sample, THREAD};

/// Records that are shown before an activation is due and behind its sample.
const NR_AROUND: usize = 6;

/// What a record says, as far as it matters here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// An interrupt's handler begins.
    IrqEntry {
        /// Its vector.
        vector: u64,
    },
    /// It ends.
    IrqExit,
    /// A timer is due.
    Expire {
        /// Which.
        timer: u64,
    },
    /// A thread is woken.
    Waking {
        /// Which.
        tid: u64,
    },
    /// That is done.
    Woken {
        /// Which.
        tid: u64,
    },
    /// Another thread runs.
    Switch {
        /// Which.
        next: u8,
    },
    /// timerlat's sample of the IRQ latency.
    IrqSample,
    /// The workload's sample of the thread latency.
    ThreadSample,
    /// Anything else.
    Other,
}

/// A record.
#[derive(Clone, Debug)]
pub struct Event {
    /// Its number in the trace, from 0.
    pub number: u64,
    /// When, in cycles.
    pub ts: u64,
    /// The running thread.
    pub tid: u8,
    /// The depth of `preempt_disable` there.
    pub preempt_depth: u8,
    /// Whether a reschedule is due.
    pub needs_resched: bool,
    /// What it says.
    pub kind: Kind,
    /// Its name without its system.
    pub name: String,
    /// Its text, as ftrace prints it.
    pub message: String,
    /// ftrace's flags.
    pub flags: String,
}

/// Who had a CPU at some time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct State {
    /// The running thread.
    pub tid: u8,
    /// The interrupts' handlers on top of it, the innermost last.
    pub irqs: Vec<u64>,
}

impl State {
    /// What a record changes.
    pub fn see(&mut self, event: &Event) {
        match event.kind {
            Kind::IrqEntry { vector } => self.irqs.push(vector),
            Kind::IrqExit => drop(self.irqs.pop()),
            Kind::Switch { next } => {
                self.tid = next;
                self.irqs.clear();
            }
            _ => self.tid = event.tid,
        }
    }
}

/// One activation with what happened around it.
#[derive(Clone, Debug)]
pub struct Activation {
    /// Its latencies.
    pub sample: Sample,
    /// Who had the CPU when it was due.
    pub at_deadline: State,
    /// Who had it when the first of the records before began.
    pub at_first: State,
    /// The last records before it was due.
    pub before: Vec<Event>,
    /// Those up to the sample, and its own.
    pub during: Vec<Event>,
    /// The first behind it.
    pub after: Vec<Event>,
    /// What the thread latency consists of, without a gap; empty if the trace has not enough for that.
    pub pieces: Vec<Piece>,
    /// Names of the threads in it.
    pub comms: BTreeMap<u8, String>,
    /// Those of them that are idle threads.
    pub idle: Vec<u8>,
    /// Names of interrupts.
    pub irqs: Irqs,
    /// The TSC's frequency in Hz.
    pub tsc_hz: u64,
}

impl Activation {
    /// Cycles as nanoseconds.
    #[must_use]
    pub fn ns(&self, cycles: u64) -> u64 {
        takt_decode::TscClock::new(self.tsc_hz).ns(cycles)
    }

    /// A time as nanoseconds from when it was due.
    #[must_use]
    pub fn relative(&self, ts: u64) -> i64 {
        let due = self.sample.due();
        if ts >= due {
            self.ns(ts - due) as i64
        } else {
            -(self.ns(due - ts) as i64)
        }
    }

    /// An interrupt's name and vector.
    #[must_use]
    pub fn irq(&self, vector: u8) -> String {
        match self.irqs.name(vector) {
            Some(name) => format!("{name}:{vector}"),
            None => format!("irq {vector}"),
        }
    }

    /// A thread's name.
    #[must_use]
    pub fn comm(&self, tid: u8) -> String {
        match self.comms.get(&tid) {
            Some(name) => name.clone(),
            None => format!("thread {tid}"),
        }
    }

    /// All records of it, in the order of time.
    pub fn events(&self) -> impl Iterator<Item = &Event> {
        self.before.iter().chain(&self.during).chain(&self.after)
    }
}

/// What is known of a CPU while the trace is read.
#[derive(Default)]
struct Cpu {
    state: State,
    /// The last records, each with the state before it.
    last: VecDeque<(State, Event)>,
}

/// Reads what happened around these activations.
pub(super) fn read(trace: &mut Trace, worst: &[Sample]) -> Result<Vec<Activation>> {
    let mut found: Vec<Option<Activation>> = worst.iter().map(|_| None).collect();
    let mut cpus = BTreeMap::<u8, Cpu>::new();
    let names = &mut trace.decoder.names;
    let tsc_hz = trace.file.header().tsc_hz;
    let mut number = 0;
    for item in trace.file.merge(&trace.decoder.table) {
        let record = match item? {
            Item::Record(record) => record,
            // Nobody knows who has the CPU then.
            Item::Lost { cpu, .. } => {
                cpus.remove(&cpu);
                continue;
            }
            Item::Damage(_) => continue,
        };
        names.learn(&record);
        let cpu = cpus.entry(record.cpu).or_insert_with(|| Cpu {
            state: State {
                tid: record.tid,
                irqs: Vec::new(),
            },
            last: VecDeque::new(),
        });
        let mut event = None;
        let make = |record: &Record<'_>, names: &Names| make(number, record, names);
        for (sample, slot) in worst.iter().zip(&mut found) {
            if sample.cpu != record.cpu || record.ts < sample.due() {
                continue;
            }
            if slot.as_ref().is_some_and(|it| it.after.len() >= NR_AROUND) {
                continue;
            }
            let event = event.get_or_insert_with(|| make(&record, names));
            slot.get_or_insert_with(|| begin(*sample, cpu, tsc_hz))
                .take(event.clone());
        }
        let event = event.unwrap_or_else(|| make_light(number, &record));
        let before = cpu.state.clone();
        cpu.state.see(&event);
        if cpu.last.len() >= NR_AROUND {
            cpu.last.pop_front();
        }
        // Its text is made where it is likely to be wanted: most are not.
        let event = if is_near(worst, &record) {
            make(&record, names)
        } else {
            event
        };
        cpu.last.push_back((before, event));
        number += 1;
    }
    let mut found: Vec<_> = found.into_iter().flatten().collect();
    tell(trace, &mut found)?;
    let names = &trace.decoder.names;
    Ok(found.into_iter().map(|it| finish(it, names)).collect())
}

/// Makes the texts that were not made: those of records that came long before the activation, with nothing in between.
fn tell(trace: &mut Trace, found: &mut [Activation]) -> Result<()> {
    let mut untold: BTreeMap<u64, Vec<&mut Event>> = BTreeMap::new();
    for event in found.iter_mut().flat_map(|it| &mut it.before) {
        if event.name.is_empty() {
            untold.entry(event.number).or_default().push(event);
        }
    }
    let mut number = 0;
    for item in trace.file.merge(&trace.decoder.table) {
        if untold.is_empty() {
            break;
        }
        let Item::Record(record) = item? else {
            continue;
        };
        for event in untold.remove(&number).into_iter().flatten() {
            *event = make(number, &record, &trace.decoder.names);
        }
        number += 1;
    }
    Ok(())
}

/// Whether one of the activations begins soon after this record, or the next records may be few.
fn is_near(worst: &[Sample], record: &Record<'_>) -> bool {
    /// In cycles.
    const NEAR: u64 = 1_000_000;
    worst.iter().any(|sample| {
        sample.cpu == record.cpu && record.ts <= sample.due() && sample.due() - record.ts <= NEAR
    })
}

fn begin(sample: Sample, cpu: &Cpu, tsc_hz: u64) -> Activation {
    Activation {
        sample,
        at_deadline: cpu.state.clone(),
        at_first: cpu
            .last
            .front()
            .map_or_else(|| cpu.state.clone(), |(state, _)| state.clone()),
        before: cpu.last.iter().map(|(_, event)| event.clone()).collect(),
        during: Vec::new(),
        after: Vec::new(),
        pieces: Vec::new(),
        comms: BTreeMap::new(),
        irqs: Irqs::default(),
        idle: Vec::new(),
        tsc_hz,
    }
}

impl Activation {
    fn take(&mut self, event: Event) {
        if event.ts <= self.sample.recorded {
            self.during.push(event);
        } else {
            self.after.push(event);
        }
    }
}

fn finish(mut it: Activation, names: &Names) -> Activation {
    let mut tids: Vec<u8> = it.events().map(|event| event.tid).collect();
    tids.extend([it.at_first.tid, it.at_deadline.tid]);
    tids.extend(it.events().filter_map(|event| match event.kind {
        Kind::Switch { next } => Some(next),
        _ => None,
    }));
    for tid in tids {
        it.comms.insert(tid, names.threads.comm(tid).to_owned());
    }
    it.irqs = names.irqs.clone();
    it.idle = it
        .comms
        .keys()
        .copied()
        .filter(|&tid| names.threads.is_idle(tid))
        .collect();
    it.pieces = causes::partition(&it);
    it
}

fn make(number: u64, record: &Record<'_>, names: &Names) -> Event {
    Event {
        name: record.event.event().to_owned(),
        message: names.message(record),
        flags: record.context.flags(),
        ..make_light(number, record)
    }
}

fn make_light(nr: u64, record: &Record<'_>) -> Event {
    let number = |name| record.number(name).unwrap_or_default();
    let kind = match record.event.name.as_str() {
        "irq:irq_handler_entry" => Kind::IrqEntry {
            vector: number("vector"),
        },
        "irq:irq_handler_exit" => Kind::IrqExit,
        EXPIRE => Kind::Expire {
            timer: number("timer"),
        },
        "sched:sched_waking" => Kind::Waking { tid: number("tid") },
        "sched:sched_wakeup" => Kind::Woken { tid: number("tid") },
        "sched:sched_switch" => Kind::Switch {
            next: number("next") as u8,
        },
        IRQ => Kind::IrqSample,
        THREAD => Kind::ThreadSample,
        _ => Kind::Other,
    };
    Event {
        number: nr,
        ts: record.ts,
        tid: record.tid,
        preempt_depth: record.context.depth(),
        needs_resched: record.context.is_need_resched(),
        kind,
        name: String::new(),
        message: String::new(),
        flags: String::new(),
    }
}
