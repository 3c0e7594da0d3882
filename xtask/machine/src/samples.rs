//! Each activation's latencies, from the workload's own events.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::BufReader;
use std::path::Path;

use anyhow::Result;
use takt_decode::{Item, Record, TraceFile};
use takt_guest::trace::Decoder;

use crate::load::Facts;
use crate::record::Run;
use crate::record::StopRecord;
use crate::run::{folder, recorded};

/// Emitted by the thread; one for each activation.
pub const THREAD: &str = "timerlat:timerlat_thread";
/// Emitted in the timer's interrupt; timerlat only.
pub const IRQ: &str = "timerlat:timerlat_irq";
/// Emitted by a task's thread when it has come back from user space.
pub const USER: &str = "timerlat:timerlat_user";
/// What [`StopRecord::which`] says of the threshold where the return from user space was above it.
const USER_STOP: &str = "user";
/// What [`StopRecord::which`] says of the interrupt's threshold.
const IRQ_STOP: &str = "IRQ";
/// Emitted when a timer is due.
pub const EXPIRE: &str = "timer:timer_expire";

/// A trace and what is needed to read it.
pub struct Trace {
    /// The file.
    pub file: TraceFile<BufReader<File>>,
    /// What its records are read with.
    pub decoder: Decoder,
}

impl Trace {
    /// Opens the trace of a run folder.
    ///
    /// # Errors
    ///
    /// If it, or the image beside it, is missing or is not what it should be.
    pub fn open(dir: &Path, run: &Run) -> Result<Self> {
        let threads = &run.record.threads;
        let names = threads
            .iter()
            .map(|thread| (thread.tid, thread.name.as_str()));
        Self::open_with(dir, names)
    }

    /// The same of any guest; `names` are names of threads that the trace itself may not tell.
    ///
    /// # Errors
    ///
    /// As [`Trace::open`].
    pub fn open_with<'t>(
        dir: &Path,
        names: impl IntoIterator<Item = (u8, &'t str)>,
    ) -> Result<Self> {
        let elf = folder::image(dir)?;
        let file = folder::trace(dir)?;
        recorded::check_image(file.header().image, &elf)?;
        Facts::read(dir).check_tsc(file.header().tsc_hz)?;
        let decoder = Decoder::new(&elf, file.header().tsc_hz, names)?;
        Ok(Self { file, decoder })
    }
}

/// An activation. Times and latencies in cycles of the TSC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// On which CPU.
    pub cpu: u8,
    /// Of which measured thread.
    pub slot: u32,
    /// Its number there.
    pub seqnum: u32,
    /// The measured thread's id.
    pub tid: u8,
    /// When it was due, if the trace says so.
    pub deadline: Option<u64>,
    /// The timer that was due then.
    pub timer: Option<u64>,
    /// IRQ latency; cyclictest has none.
    pub irq: Option<u32>,
    /// Thread latency.
    pub thread: u32,
    /// The return from user space, if it is a task's thread and has come back.
    pub user: Option<Returned>,
    /// The time stamp of the thread's record; of that of its return, where the latency up to there is meant.
    pub recorded: u64,
    /// Whether that is meant.
    pub is_to_user: bool,
    /// Whether the interrupt found the CPU idle.
    pub is_from_idle: bool,
    /// Whether the run ended with the interrupt's sample: then `thread` is the IRQ latency, and `recorded` the time stamp of
    /// the interrupt's record.
    pub is_of_irq: bool,
}

/// A return from user space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Returned {
    /// Since the activation was due, in cycles.
    pub latency: u32,
    /// The time stamp of its record.
    pub recorded: u64,
}

impl Sample {
    /// The same up to the return from user space.
    pub fn to_user(self) -> Option<Self> {
        Some(Self {
            recorded: self.user?.recorded,
            is_to_user: true,
            ..self
        })
    }

    /// What is measured, in cycles.
    #[must_use]
    pub fn latency(&self) -> u32 {
        match self.user {
            Some(user) if self.is_to_user => user.latency,
            _ => self.thread,
        }
    }

    /// When it was due; if the trace does not say so, some instructions later.
    #[must_use]
    pub fn due(&self) -> u64 {
        self.deadline
            .unwrap_or_else(|| self.recorded.saturating_sub(self.thread.into()))
    }
}

/// A timer that expired: which, and when it was due.
type Expired = (u64, u64);

/// What the interrupt said of an activation whose thread has not run yet.
#[derive(Clone, Copy)]
struct Begun {
    seqnum: u64,
    latency: u64,
    expired: Option<Expired>,
    recorded: u64,
    is_from_idle: bool,
}

/// What the workload's events say.
#[derive(Debug, Default)]
pub struct Samples {
    /// One for each activation, in the order in which the threads ran.
    pub all: Vec<Sample>,
    /// Those whose interrupt came and whose thread did not run any more.
    pub unfinished: Vec<Sample>,
}

/// Reads all samples.
pub fn read(trace: &mut Trace) -> Result<Samples> {
    let threads = &trace.decoder.names.threads;
    let mut samples = Vec::new();
    // The last that expired on each CPU, and the last time that each timer did.
    let mut last = BTreeMap::<u8, Expired>::new();
    let mut own = BTreeMap::<(u8, u64), u64>::new();
    let mut begun = BTreeMap::<(u8, u64), Begun>::new();
    for item in trace.file.merge(&trace.decoder.table) {
        let Item::Record(record) = item? else {
            continue;
        };
        match record.event.name.as_str() {
            EXPIRE => {
                let (Some(timer), Some(at)) = (record.number("timer"), record.number("expires"))
                else {
                    continue;
                };
                last.insert(record.cpu, (timer, at));
                own.insert((record.cpu, timer), at);
            }
            IRQ => {
                if let Some((slot, seqnum, latency)) = fields(&record) {
                    let expired = last.get(&record.cpu).copied();
                    let what = Begun {
                        seqnum,
                        latency,
                        expired,
                        recorded: record.ts,
                        is_from_idle: threads.is_idle(record.tid),
                    };
                    begun.insert((record.cpu, slot), what);
                }
            }
            THREAD => {
                let Some((slot, seqnum, latency)) = fields(&record) else {
                    continue;
                };
                let begun = begun
                    .remove(&(record.cpu, slot))
                    .filter(|begun| begun.seqnum == seqnum);
                // cyclictest's threads sleep, and a sleeping thread's timer has its number.
                let sleep = || {
                    let timer = u64::from(record.tid);
                    own.get(&(record.cpu, timer)).map(|&at| (timer, at))
                };
                let expired = begun.map_or_else(sleep, |begun| begun.expired);
                // What was due cannot be later than what it led to.
                let expired = expired.filter(|&(_, at)| at + latency <= record.ts);
                samples.push(Sample {
                    cpu: record.cpu,
                    slot: slot as u32,
                    seqnum: seqnum as u32,
                    tid: record.tid,
                    deadline: expired.map(|(_, at)| at),
                    timer: expired.map(|(timer, _)| timer),
                    // An interrupt that seems to be before its deadline wraps around.
                    irq: begun.map(|begun| begun.latency as u32).map(|irq| {
                        if i64::from(irq) > latency as i64 {
                            0
                        } else {
                            irq
                        }
                    }),
                    thread: latency as u32,
                    user: None,
                    is_to_user: false,
                    recorded: record.ts,
                    is_from_idle: begun.is_some_and(|begun| begun.is_from_idle),
                    is_of_irq: false,
                });
            }
            USER => {
                let Some((slot, seqnum, latency)) = fields(&record) else {
                    continue;
                };
                let own = samples.iter_mut().rfind(|it| u64::from(it.slot) == slot);
                if let Some(own) = own.filter(|it| u64::from(it.seqnum) == seqnum) {
                    own.user = Some(Returned {
                        latency: latency as u32,
                        recorded: record.ts,
                    });
                }
            }
            _ => {}
        }
    }
    let unfinished = begun.into_iter().map(|((cpu, slot), begun)| {
        let expired = begun
            .expired
            .filter(|&(_, at)| at + begun.latency <= begun.recorded);
        Sample {
            cpu,
            slot: slot as u32,
            seqnum: begun.seqnum as u32,
            tid: 0,
            deadline: expired.map(|(_, at)| at),
            timer: expired.map(|(timer, _)| timer),
            irq: Some(begun.latency as u32),
            thread: begun.latency as u32,
            user: None,
            is_to_user: false,
            recorded: begun.recorded,
            is_from_idle: begun.is_from_idle,
            is_of_irq: true,
        }
    });
    Ok(Samples {
        all: samples,
        unfinished: unfinished.collect(),
    })
}

/// Slot and latency, in cycles, of the record of a thread's activation.
pub fn of_thread(record: &Record<'_>) -> Option<(u32, u64)> {
    let (slot, _, latency) = fields(record).filter(|_| record.event.name == THREAD)?;
    Some((slot as u32, u64::from(latency as u32)))
}

/// Slot, number and latency of a sample's record.
fn fields(record: &Record<'_>) -> Option<(u64, u64, u64)> {
    let number = |name| record.number(name);
    Some((number("slot")?, number("seqnum")?, number("timer_latency")?))
}

/// The sample that hit a threshold.
pub fn of_stop(stop: &StopRecord, all: &[Sample], unfinished: &[Sample]) -> Option<Sample> {
    let is_it = |sample: &&Sample| {
        sample.slot == stop.slot && u64::from(sample.seqnum) == stop.seq % (1 << 32)
    };
    let found = match stop.which.as_str() {
        IRQ_STOP => unfinished.iter().find(is_it),
        _ => all.iter().rfind(is_it),
    };
    found.copied()
}

/// Whether it was the return from user space that hit it.
pub fn is_of_user(stop: &StopRecord) -> bool {
    stop.which == USER_STOP
}

/// The measured activations of a run, in the order in which the threads ran.
///
/// # Errors
///
/// If its trace cannot be read.
pub fn measured(dir: &Path, run: &Run) -> Result<Vec<Sample>> {
    let mut samples = read(&mut Trace::open(dir, run)?)?.all;
    drop_warm_up(&mut samples, run);
    Ok(samples)
}

/// Removes the activations before those that the run has counted: its warm-up.
pub fn drop_warm_up(samples: &mut Vec<Sample>, run: &Run) {
    let mut surplus = BTreeMap::<u32, usize>::new();
    for sample in samples.iter() {
        *surplus.entry(sample.slot).or_default() += 1;
    }
    for (slot, nr) in &mut surplus {
        let counted = run
            .record
            .slots
            .iter()
            .find(|record| record.slot == *slot as usize)
            .map_or(0, |record| record.thread.count);
        *nr = nr.saturating_sub(usize::try_from(counted).unwrap_or(usize::MAX));
    }
    samples.retain(|sample| match surplus.get_mut(&sample.slot) {
        Some(nr) if *nr > 0 => {
            *nr -= 1;
            false
        }
        _ => true,
    });
}

/// The worst by thread latency, the worst first; of equal ones the earlier first.
#[must_use]
pub fn worst(samples: &[Sample], nr: usize) -> Vec<Sample> {
    let mut sorted: Vec<_> = samples.iter().collect();
    sorted.sort_by_key(|sample| (std::cmp::Reverse(sample.thread), sample.due(), sample.slot));
    sorted.into_iter().take(nr).copied().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(seqnum: u32, thread: u32) -> Sample {
        Sample {
            cpu: 0,
            slot: 0,
            seqnum,
            tid: 9,
            deadline: Some(u64::from(seqnum) * 1000),
            timer: Some(256),
            irq: Some(4),
            thread,
            user: None,
            is_to_user: false,
            recorded: u64::from(seqnum) * 1000 + u64::from(thread) + 12,
            is_from_idle: true,
            is_of_irq: false,
        }
    }

    #[test]
    fn the_worst_come_first_and_of_equals_the_earlier() {
        let samples = [sample(1, 500), sample(2, 900), sample(3, 900), sample(4, 7)];
        let numbers: Vec<_> = worst(&samples, 3).iter().map(|it| it.seqnum).collect();
        assert_eq!(numbers, [2, 3, 1]);
    }

    #[test]
    fn without_a_deadline_the_record_says_roughly_when() {
        let unknown = Sample {
            deadline: None,
            ..sample(5, 300)
        };
        assert_eq!(unknown.due(), 5012);
    }
}
