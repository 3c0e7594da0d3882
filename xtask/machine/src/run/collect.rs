//! Reads the results out of the guest's memory when a run is over.

use std::io;

use takt_timerlat::stats::view::{Cpu, Head, Slot, Stop, Thread};
use takt_timerlat::stats::{Measure, StatusView};

use crate::record::{
    Clocks, CpuRecord, Distributions, SlotRecord, StopRecord, ThreadRecord, TraceRecord,
};
use takt_guest::Ram;

/// Everything that the status block says.
#[derive(Debug, Default)]
pub struct Results {
    /// `None` if the guest never came so far.
    pub head: Option<Head>,
    /// The threshold that ended the run.
    pub stop: Option<Stop>,
    /// The measured threads.
    pub slots: Vec<Slot>,
    /// Their distributions.
    pub distributions: Vec<Distributions>,
    /// The CPUs.
    pub cpus: Vec<Cpu>,
    /// All threads.
    pub threads: Vec<Thread>,
}

impl Results {
    /// Reads them.
    ///
    /// # Errors
    ///
    /// If the memory cannot be read or holds something else.
    pub fn read(status: &StatusView<&Ram>) -> io::Result<Self> {
        let Some(head) = status.head()? else {
            return Ok(Self::default());
        };
        let slots = status.slots()?;
        let distributions = slots
            .iter()
            .map(|slot| {
                Ok(Distributions {
                    irq: status.distribution(slot.index, Measure::Irq)?,
                    thread: status.distribution(slot.index, Measure::Thread)?,
                    user: match slot.user {
                        Some(_) => status.distribution(slot.index, Measure::User)?,
                        None => Default::default(),
                    },
                })
            })
            .collect::<io::Result<_>>()?;
        Ok(Self {
            stop: status.stop()?,
            slots,
            distributions,
            cpus: (0..head.nr_cpus as usize)
                .map(|cpu| status.cpu(cpu))
                .collect::<io::Result<_>>()?,
            threads: status.threads()?,
            head: Some(head),
        })
    }

    /// How long was measured, in ns of the guest's time; `None` if that was not noted.
    #[must_use]
    pub fn measured_ns(&self) -> Option<u64> {
        let head = self.head.as_ref()?;
        let cycles = head.ended_tsc.checked_sub(head.started_tsc)?;
        let ns = u128::from(cycles) * 1_000_000_000;
        u64::try_from(ns.checked_div(head.tsc_hz.into())?).ok()
    }

    /// The counters of all trace rings together.
    #[must_use]
    pub fn trace(&self) -> TraceRecord {
        self.cpus
            .iter()
            .fold(TraceRecord::default(), |all, cpu| TraceRecord {
                events: all.events.saturating_add(cpu.entries),
                bytes: all.bytes.saturating_add(cpu.bytes),
                overrun: all.overrun.saturating_add(cpu.overrun),
                commit_overrun: all.commit_overrun.saturating_add(cpu.commit_overrun),
                dropped: all.dropped.saturating_add(cpu.dropped),
            })
    }

    /// The guest's clocks.
    #[must_use]
    pub fn clocks(&self) -> Clocks {
        self.head
            .as_ref()
            .map_or_else(Clocks::default, |head| Clocks {
                tsc_hz: head.tsc_hz,
                tsc_source: head.tsc_source.name().into(),
                is_tsc_invariant: head.invariant_tsc,
                lapic_hz: head.lapic_hz,
                lapic_source: head.lapic_source.name().into(),
                has_tsc_deadline: head.tsc_deadline,
            })
    }

    /// The measured threads with the figures of their distributions.
    #[must_use]
    pub fn slot_records(&self) -> Vec<SlotRecord> {
        let record = |(slot, distributions): (&Slot, &Distributions)| SlotRecord {
            slot: slot.index,
            cpu: slot.cpu,
            tid: slot.tid,
            priority: slot.prio,
            interval_ns: slot.interval_ns,
            missed: slot.missed,
            negative: slot.negative,
            last_ns: (slot.irq.count == 0 && slot.thread.count != 0).then_some(slot.thread.cur),
            irq: (&distributions.irq).into(),
            thread: (&distributions.thread).into(),
            user: slot.user.map(|_| (&distributions.user).into()),
        };
        self.slots
            .iter()
            .zip(&self.distributions)
            .map(record)
            .collect()
    }

    /// The threshold that ended the run.
    #[must_use]
    pub fn stop_record(&self) -> Option<StopRecord> {
        self.stop.map(|stop| StopRecord {
            which: stop.which.name().into(),
            cpu: stop.cpu,
            slot: stop.slot,
            value_ns: stop.value,
            seq: stop.seq,
        })
    }

    /// Odd interrupts, of each CPU.
    #[must_use]
    pub fn cpu_records(&self) -> Vec<CpuRecord> {
        let record = |(cpu, counters): (usize, &Cpu)| CpuRecord {
            cpu,
            unexpected_irqs: counters.unexpected_irqs,
        };
        self.cpus.iter().enumerate().map(record).collect()
    }

    /// All threads.
    #[must_use]
    pub fn thread_records(&self) -> Vec<ThreadRecord> {
        let counts = self.threads.iter().any(|thread| thread.switches != 0);
        let record = |thread: &Thread| ThreadRecord {
            tid: thread.tid,
            name: thread.name.clone(),
            priority: thread.prio,
            cpu: thread.cpu,
            runtime_cycles: counts.then_some(thread.runtime_cycles),
            switches: counts.then_some(thread.switches),
        };
        self.threads.iter().map(record).collect()
    }
}
