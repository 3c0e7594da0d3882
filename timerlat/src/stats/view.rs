//! [`StatusView`]: a [`Status`] in foreign memory, read field by field.
//!
//! The memory is the guest's RAM, and nothing in it is to be trusted: counts are limited to the
//! room that there is, unknown numbers are errors or `None`, never a panic.

use core::mem::{align_of, offset_of, size_of};
use std::{io, string::String, vec, vec::Vec};

use super::histogram::{self, Histogram, Scale};
use takt_tracer::named::Named;

use super::{
    CpuStatus, ExactHistogram, FrequencySource, LatencyStats, MAX_CPUS, MAX_SLOTS, MAX_THREADS,
    Measure, NAME_LEN, RunState, SlotStats, Status, StopReason, ThreadInfo, ThreadState,
    TraceCounters,
};

/// Memory that can be read at an address.
pub trait Memory {
    /// Fills `buf` with what lies at `address`.
    ///
    /// # Errors
    ///
    /// If some of it is outside of the memory or cannot be read.
    fn read_exact_at(&self, address: u64, buf: &mut [u8]) -> io::Result<()>;
}

/// What stands at the head of a [`Status`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields are those of Status")]
pub struct Head {
    pub version: u32,
    pub state: RunState,
    pub nr_cpus: u32,
    pub nr_slots: u32,
    pub tsc_hz: u64,
    pub lapic_hz: u64,
    pub tsc_source: FrequencySource,
    pub lapic_source: FrequencySource,
    pub invariant_tsc: bool,
    pub tsc_deadline: bool,
    pub has_user: bool,
    pub started_tsc: u64,
    pub ended_tsc: u64,
}

/// The threshold that ended the run: a [`StopReason`] read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields are those of StopReason")]
pub struct Stop {
    pub which: Measure,
    pub cpu: u32,
    pub slot: u32,
    pub value: u64,
    pub seq: u64,
}

/// A [`CpuStatus`] read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(
    missing_docs,
    reason = "the fields are those of CpuStatus and TraceCounters"
)]
pub struct Cpu {
    pub heartbeat: u64,
    pub unexpected_irqs: u64,
    pub entries: u64,
    pub bytes: u64,
    pub overrun: u64,
    pub commit_overrun: u64,
    pub dropped: u64,
}

/// The figures of a [`LatencyStats`], without its histogram.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields are those of LatencyStats")]
pub struct Figures {
    pub count: u64,
    pub cur: u64,
    pub min: u64,
    pub max: u64,
    pub sum: u64,
}

impl Figures {
    /// The mean, if there is a sample.
    #[must_use]
    pub fn avg(&self) -> Option<u64> {
        self.sum.checked_div(self.count)
    }
}

/// A [`SlotStats`] read, without its histograms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields are those of SlotStats")]
pub struct Slot {
    pub index: usize,
    pub cpu: u32,
    pub prio: u32,
    pub tid: u32,
    pub interval_ns: u64,
    pub missed: u64,
    pub negative: u64,
    pub irq: Figures,
    pub thread: Figures,
    /// If threads of tasks are measured.
    pub user: Option<Figures>,
}

/// A [`ThreadInfo`] read.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields are those of ThreadInfo")]
pub struct Thread {
    pub tid: u8,
    pub name: String,
    pub prio: u32,
    pub cpu: u32,
    pub state: ThreadState,
    pub runtime_cycles: u64,
    pub switches: u64,
}

/// A [`Status`] at an address of some [`Memory`].
#[derive(Debug)]
pub struct StatusView<M> {
    memory: M,
    base: u64,
}

impl<M: Memory> StatusView<M> {
    /// The status block at address `base` of `memory`.
    pub fn new(memory: M, base: u64) -> Self {
        Self { memory, base }
    }

    /// The head, or `None` while the guest has not set it up.
    ///
    /// # Errors
    ///
    /// If it cannot be read or is not of our version.
    pub fn head(&self) -> io::Result<Option<Head>> {
        if self.u64(offset_of!(Status, magic))? != Status::MAGIC {
            return Ok(None);
        }
        let version = self.u32(offset_of!(Status, version))?;
        if version != Status::VERSION {
            return Err(invalid(std::format!(
                "the image's status block has version {version}, this tool reads version {}",
                Status::VERSION
            )));
        }
        let state = self.u32(offset_of!(Status, state))?;
        let source = |raw| FrequencySource::from_raw(raw).unwrap_or_default();
        Ok(Some(Head {
            version,
            state: RunState::from_raw(state)
                .ok_or_else(|| invalid(std::format!("the guest is in unknown state {state}")))?,
            nr_cpus: self.u32(offset_of!(Status, nr_cpus))?.min(MAX_CPUS as u32),
            nr_slots: self
                .u32(offset_of!(Status, nr_slots))?
                .min(MAX_SLOTS as u32),
            tsc_hz: self.u64(offset_of!(Status, tsc_hz))?,
            lapic_hz: self.u64(offset_of!(Status, lapic_hz))?,
            tsc_source: source(self.u32(offset_of!(Status, tsc_source))?),
            lapic_source: source(self.u32(offset_of!(Status, lapic_source))?),
            invariant_tsc: self.u32(offset_of!(Status, invariant_tsc))? != 0,
            tsc_deadline: self.u32(offset_of!(Status, tsc_deadline))? != 0,
            has_user: self.has_user()?,
            started_tsc: self.u64(offset_of!(Status, started_tsc))?,
            ended_tsc: self.u64(offset_of!(Status, ended_tsc))?,
        }))
    }

    /// The threshold that ended the run, if one did.
    ///
    /// # Errors
    ///
    /// If it cannot be read.
    pub fn stop(&self) -> io::Result<Option<Stop>> {
        let base = offset_of!(Status, stop);
        let which = self.u32(base + offset_of!(StopReason, which))?;
        let Some(which @ (Measure::Irq | Measure::Thread | Measure::User)) =
            Measure::from_raw(which)
        else {
            return Ok(None);
        };
        Ok(Some(Stop {
            which,
            cpu: self.u32(base + offset_of!(StopReason, cpu))?,
            slot: self.u32(base + offset_of!(StopReason, slot))?,
            value: self.u64(base + offset_of!(StopReason, value))?,
            seq: self.u64(base + offset_of!(StopReason, seq))?,
        }))
    }

    /// Counters of one CPU; zeros if there is no such CPU.
    ///
    /// # Errors
    ///
    /// If they cannot be read.
    pub fn cpu(&self, cpu: usize) -> io::Result<Cpu> {
        if cpu >= MAX_CPUS {
            return Ok(Cpu::default());
        }
        let base = offset_of!(Status, cpus) + cpu * size_of::<CpuStatus>();
        let trace = base + offset_of!(CpuStatus, trace);
        Ok(Cpu {
            heartbeat: self.u64(base + offset_of!(CpuStatus, heartbeat))?,
            unexpected_irqs: self.u64(base + offset_of!(CpuStatus, unexpected_irqs))?,
            entries: self.u64(trace + offset_of!(TraceCounters, entries))?,
            bytes: self.u64(trace + offset_of!(TraceCounters, bytes))?,
            overrun: self.u64(trace + offset_of!(TraceCounters, overrun))?,
            commit_overrun: self.u64(trace + offset_of!(TraceCounters, commit_overrun))?,
            dropped: self.u64(trace + offset_of!(TraceCounters, dropped))?,
        })
    }

    /// Whether threads of tasks are measured.
    fn has_user(&self) -> io::Result<bool> {
        Ok(self.u32(offset_of!(Status, has_user))? != 0)
    }

    /// Which buckets the histograms have. The image says that first of all; of one that has not come so far no slot is in
    /// use, whatever the scale.
    fn scale(&self) -> io::Result<Scale> {
        match self.u32(offset_of!(Status, histogram_bits))? {
            0 => Ok(Scale::OWN),
            bits => Scale::new(bits).ok_or_else(|| {
                invalid(std::format!(
                    "the image's histograms are exact to {bits} bits"
                ))
            }),
        }
    }

    /// The slots in use.
    ///
    /// # Errors
    ///
    /// If they cannot be read.
    pub fn slots(&self) -> io::Result<Vec<Slot>> {
        let (scale, has_user) = (self.scale()?, self.has_user()?);
        let mut slots = Vec::new();
        for index in 0..MAX_SLOTS {
            let base = slot_offset(scale, index);
            if self.u32(base + offset_of!(SlotStats, active))? == 0 {
                continue;
            }
            slots.push(Slot {
                index,
                cpu: self.u32(base + offset_of!(SlotStats, cpu))?,
                prio: self.u32(base + offset_of!(SlotStats, prio))?,
                tid: self.u32(base + offset_of!(SlotStats, tid))?,
                interval_ns: self.u64(base + offset_of!(SlotStats, interval_ns))?,
                missed: self.u64(base + offset_of!(SlotStats, missed))?,
                negative: self.u64(base + offset_of!(SlotStats, negative))?,
                irq: self.figures(scale, index, Measure::Irq)?,
                thread: self.figures(scale, index, Measure::Thread)?,
                user: has_user
                    .then(|| self.figures(scale, index, Measure::User))
                    .transpose()?,
            });
        }
        Ok(slots)
    }

    /// The figures of one kind of latency of one slot.
    fn figures(&self, scale: Scale, slot: usize, which: Measure) -> io::Result<Figures> {
        let base = latency_offset(scale, slot, which);
        Ok(Figures {
            count: self.u64(base + offset_of!(LatencyStats, count))?,
            cur: self.u64(base + offset_of!(LatencyStats, cur))?,
            min: self.u64(base + offset_of!(LatencyStats, min))?,
            max: self.u64(base + offset_of!(LatencyStats, max))?,
            sum: self.u64(base + offset_of!(LatencyStats, sum))?,
        })
    }

    /// The whole distribution of one kind of latency of one slot.
    ///
    /// # Errors
    ///
    /// If it cannot be read.
    pub fn distribution(&self, slot: usize, which: Measure) -> io::Result<ExactHistogram> {
        let slot = slot.min(MAX_SLOTS - 1);
        let scale = self.scale()?;
        let figures = self.figures(scale, slot, which)?;
        let base = latency_offset(scale, slot, which) + offset_of!(LatencyStats, hist);
        let mut raw = vec![0; (scale.nr_buckets() + 1) * 4];
        self.read(base + offset_of!(Histogram, linear), &mut raw)?;
        let (counters, _) = raw.as_chunks::<4>();
        let counters = counters.iter().map(|counter| u32::from_le_bytes(*counter));
        let overflow = counters.clone().next_back().unwrap_or_default();
        let buckets = counters.take(scale.nr_buckets()).enumerate();
        let buckets = buckets
            .filter(|(_, count)| *count != 0)
            .map(|(index, count)| (scale.bucket_high(index), count.into()));
        let limits = (figures.min, figures.max.max(figures.min));
        Ok(
            ExactHistogram::from_parts(buckets, overflow.into(), limits, figures.sum)
                .with_scale(scale),
        )
    }

    /// The threads that there are or were.
    ///
    /// # Errors
    ///
    /// If they cannot be read.
    pub fn threads(&self) -> io::Result<Vec<Thread>> {
        let mut threads = Vec::new();
        for tid in 0..MAX_THREADS {
            let base = offset_of!(Status, threads) + tid * size_of::<ThreadInfo>();
            let state = self.u32(base + offset_of!(ThreadInfo, state))?;
            let Some(state) = ThreadState::from_raw(state).filter(|s| *s != ThreadState::Unused)
            else {
                continue;
            };
            let mut name = [0; NAME_LEN];
            self.read(base + offset_of!(ThreadInfo, name), &mut name)?;
            let len = name.iter().position(|&byte| byte == 0).unwrap_or(NAME_LEN);
            threads.push(Thread {
                tid: tid as u8,
                name: String::from_utf8_lossy(&name[..len]).into_owned(),
                prio: self.u32(base + offset_of!(ThreadInfo, prio))?,
                cpu: self.u32(base + offset_of!(ThreadInfo, cpu))?,
                state,
                runtime_cycles: self.u64(base + offset_of!(ThreadInfo, runtime_cycles))?,
                switches: self.u64(base + offset_of!(ThreadInfo, switches))?,
            });
        }
        Ok(threads)
    }

    fn read(&self, offset: usize, buf: &mut [u8]) -> io::Result<()> {
        self.memory.read_exact_at(self.base + offset as u64, buf)
    }

    fn u32(&self, offset: usize) -> io::Result<u32> {
        let mut bytes = [0; 4];
        self.read(offset, &mut bytes)?;
        Ok(u32::from_le_bytes(bytes))
    }

    fn u64(&self, offset: usize) -> io::Result<u64> {
        let mut bytes = [0; 8];
        self.read(offset, &mut bytes)?;
        Ok(u64::from_le_bytes(bytes))
    }
}

/// Bytes of a [`LatencyStats`] whose histogram is of that scale: the buckets lie behind each other, and two words behind
/// them.
const fn latency_size(scale: Scale) -> usize {
    offset_of!(LatencyStats, hist) + (scale.nr_buckets() + 2) * 4
}

/// Bytes of a [`SlotStats`] with such histograms.
const fn slot_size(scale: Scale) -> usize {
    let end = offset_of!(SlotStats, irq) + 2 * latency_size(scale);
    end.next_multiple_of(align_of::<SlotStats>())
}

// As the image has it, of which the scale is its own.
const _: () = {
    assert!(size_of::<LatencyStats>() == latency_size(Scale::OWN));
    assert!(size_of::<SlotStats>() == slot_size(Scale::OWN));
    assert!(
        offset_of!(Status, user) == offset_of!(Status, slots) + MAX_SLOTS * slot_size(Scale::OWN)
    );
    assert!(offset_of!(Histogram, linear) == 0);
    assert!(offset_of!(Histogram, log) == histogram::LINEAR * 4);
    assert!(offset_of!(Histogram, overflow) == Scale::OWN.nr_buckets() * 4);
};

/// Offset of a slot in [`Status`].
fn slot_offset(scale: Scale, slot: usize) -> usize {
    offset_of!(Status, slots) + slot * slot_size(scale)
}

/// Offset of the [`LatencyStats`] of one kind of a slot in [`Status`].
fn latency_offset(scale: Scale, slot: usize, which: Measure) -> usize {
    let irq = slot_offset(scale, slot) + offset_of!(SlotStats, irq);
    match which {
        Measure::User => slot_offset(scale, MAX_SLOTS) + slot * latency_size(scale),
        Measure::Thread => irq + latency_size(scale),
        Measure::Irq | Measure::None => irq,
    }
}

fn invalid(message: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, message)
}

#[cfg(test)]
mod tests;
