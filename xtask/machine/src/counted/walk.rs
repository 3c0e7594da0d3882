//! [`walk`]: the activations of a run, what they recorded and what they executed together.
//!
//! The thread's n-th reading of the clock on a CPU is that of the record with number n: nothing else has to be matched. The
//! guest's time is the count and the time that was skipped in halts. How much that is tell the two records' own time
//! stamps: they are readings of the clock, and the log has the counts of both.

use std::collections::BTreeMap;
use std::io::{BufReader, Read, Seek};
use std::ops::Range;
use std::path::Path;

use anyhow::{Context, Result, bail};
use takt_decode::{Item, Record, TraceFile};

use super::activations::{Activation, Activations};
use super::log::Log;
use super::marks::Marks;
use super::turns::Turns;
use crate::run::{RunConfig, folder, recorded};
use takt_base::input;
use takt_guest::{Elf, events};

/// Emitted in the timer's interrupt.
pub const IRQ: &str = "timerlat:timerlat_irq";
/// Emitted by the thread.
pub const THREAD: &str = "timerlat:timerlat_thread";

/// Bytes of the log that are read at once.
const BUFFER: usize = 1 << 20;

/// The record of a latency.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Recorded {
    /// What the guest has measured, in ns, as the record has it: less than 0 wraps around.
    pub latency: u32,
    /// The record's own time stamp, in ns.
    pub recorded: u64,
}

/// An activation of which everything is known.
#[derive(Clone, Debug)]
pub struct Walked {
    /// Its CPU.
    pub cpu: u8,
    /// What was executed.
    pub executed: Activation,
    /// What the interrupt said.
    pub irq: Recorded,
    /// What the thread said; `None` if tracing had ended by then, as it does when an IRQ latency hits a threshold.
    pub thread: Option<Recorded>,
    /// The time that was skipped in halts so far, in ns: the guest's time less the count. `None` if two records say
    /// different things, though no halt can lie between them.
    pub skipped: Option<u64>,
}

impl Walked {
    fn new(cpu: u8, executed: Activation, irq: Recorded, thread: Option<Recorded>) -> Self {
        Self {
            cpu,
            skipped: skipped(&executed, irq.recorded, thread.map(|it| it.recorded)),
            executed,
            irq,
            thread,
        }
    }

    /// Of the time between two moments, how much other CPUs ran on it: in ns, each an instruction. No halt of all CPUs may
    /// lie between them and this activation, and they must not be later than its thread's reading of the clock. `None` if
    /// that is not known.
    #[must_use]
    pub fn others(&self, turns: &Turns, time: Range<u64>) -> Option<u64> {
        let skipped = self.skipped?;
        let counts = time.start.checked_sub(skipped)?..time.end.checked_sub(skipped)?;
        turns.others(self.cpu.into(), counts)
    }
}

/// Reads a run's trace and the log beside it, and shows each activation to `visit`, with the turns up to it. Says how many
/// activations were executed of which the trace has not the records.
///
/// # Errors
///
/// If one cannot be read, or they are not of the same run.
pub fn walk(
    dir: &Path,
    elf: &Elf,
    config: &RunConfig,
    visit: impl FnMut(&Walked, &Turns) -> Result<()>,
) -> Result<u64> {
    let trace = folder::trace(dir)?;
    recorded::check_image(trace.header().image, elf)?;
    let path = dir.join(folder::COUNTED);
    let log = input::open(&path).with_context(|| format!("cannot open {}", path.display()))?;
    let log = Log::new(BufReader::with_capacity(BUFFER, log))?;
    let activations = Activations::new(log, Marks::of(elf)?, config.smp);
    join(trace, elf, activations, visit)
}

fn join(
    mut trace: TraceFile<impl Read + Seek>,
    elf: &Elf,
    mut activations: Activations<impl Read>,
    mut visit: impl FnMut(&Walked, &Turns) -> Result<()>,
) -> Result<u64> {
    let table = events::table(elf)?;
    let mut unrecorded = 0;
    // What the interrupt said of an activation whose thread has not run yet.
    let mut begun = BTreeMap::new();
    for item in trace.merge(&table) {
        let Item::Record(record) = item? else {
            continue;
        };
        let Some((number, sample)) = sample(&record) else {
            continue;
        };
        let cpu = record.cpu;
        if record.event.name == IRQ {
            begun.insert(cpu, (number, sample));
            continue;
        }
        let irq = begun.remove(&cpu).filter(|(begun, _)| *begun == number);
        let executed = loop {
            match activations.next_of(cpu.into())? {
                Some(executed) if executed.number == number => break executed,
                Some(executed) if executed.number < number => unrecorded += 1,
                _ => bail!(
                    "the trace has activation {number} on CPU {cpu}, and the log of executed instructions has it not"
                ),
            }
        };
        let Some((_, irq)) = irq else {
            unrecorded += 1;
            continue;
        };
        let walked = Walked::new(cpu, executed, irq, Some(sample));
        visit(&walked, &activations.turns)?;
    }
    for cpu in 0..=u8::MAX {
        while let Some(executed) = activations.next_of(cpu.into())? {
            match begun.get(&cpu) {
                Some(&(number, irq)) if number == executed.number => {
                    visit(&Walked::new(cpu, executed, irq, None), &activations.turns)?;
                }
                _ => unrecorded += 1,
            }
        }
    }
    Ok(unrecorded)
}

/// Number and content of a sample's record; `None` if it is another event's.
fn sample(record: &Record<'_>) -> Option<(u64, Recorded)> {
    [IRQ, THREAD]
        .contains(&record.event.name.as_str())
        .then_some(())?;
    let sample = Recorded {
        latency: record.number("timer_latency")? as u32,
        recorded: record.ts,
    };
    Some((record.number("seqnum")?, sample))
}

/// The time that was skipped in halts, such that the records' time stamps are of readings that were executed there. The
/// interrupt's alone is taken for that of the first reading.
fn skipped(executed: &Activation, irq: u64, thread: Option<u64>) -> Option<u64> {
    let Some(thread) = thread else {
        return irq.checked_sub(*executed.in_interrupt.first()?);
    };
    let candidates = executed.in_interrupt.iter();
    candidates
        .filter_map(|at| irq.checked_sub(*at))
        .find(|skipped| {
            let at = thread.checked_sub(*skipped);
            at.is_some_and(|at| executed.behind_sample.contains(&at))
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_records_tell_the_same_time_that_was_skipped() {
        let executed = Activation {
            in_interrupt: vec![100, 140],
            behind_sample: vec![300, 320],
            ..Activation::default()
        };
        // The second reading in the interrupt and the first behind the sample, 1000 ns skipped.
        assert_eq!(skipped(&executed, 1140, Some(1300)), Some(1000));
        assert_eq!(skipped(&executed, 1140, Some(1301)), None);
        assert_eq!(skipped(&executed, 1141, Some(1300)), None);
        // Time cannot have been skipped backwards.
        assert_eq!(skipped(&executed, 99, Some(299)), None);
        assert_eq!(skipped(&executed, 1100, None), Some(1000));
        assert_eq!(skipped(&executed, 99, None), None);
    }
}
