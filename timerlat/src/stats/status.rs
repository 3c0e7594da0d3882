//! [`Status`]: the state of a run, as it lies in the guest's RAM.
//!
//! Neighbours: the image holds it as `static TAKT_STATUS`, the workload fills it, the host tool
//! reads it through `view::StatusView`. It is a binary interface: whoever changes the layout
//! raises [`Status::VERSION`].

use core::mem::{offset_of, size_of};
use core::ops::Range;
use core::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering::Relaxed};

use super::histogram::LINEAR_BITS;
use super::{LatencyStats, MAX_CPUS, MAX_SLOTS, MAX_THREADS, Measure, NAME_LEN, RunState};

/// Why a threshold ended the run.
#[repr(C)]
pub struct StopReason {
    /// A [`Measure`].
    pub which: AtomicU32,
    /// The CPU it happened on.
    pub cpu: AtomicU32,
    /// The slot it happened in.
    pub slot: AtomicU32,
    /// Keeps what follows aligned.
    pub reserved: AtomicU32,
    /// The latency, in nanoseconds.
    pub value: AtomicU64,
    /// The number of the activation, as in its trace events.
    pub seq: AtomicU64,
}

impl StopReason {
    const fn new() -> Self {
        Self {
            which: AtomicU32::new(0),
            cpu: AtomicU32::new(0),
            slot: AtomicU32::new(0),
            reserved: AtomicU32::new(0),
            value: AtomicU64::new(0),
            seq: AtomicU64::new(0),
        }
    }

    /// Notes the culprit. `which` is written last.
    pub fn set(&self, which: Measure, cpu: u32, slot: u32, value: u64, seq: u64) {
        self.cpu.store(cpu, Relaxed);
        self.slot.store(slot, Relaxed);
        self.value.store(value, Relaxed);
        self.seq.store(seq, Relaxed);
        self.which.store(which as u32, Relaxed);
    }
}

/// Counters of one CPU's trace ring, copied here when they are wanted.
#[repr(C)]
pub struct TraceCounters {
    /// Events recorded.
    pub entries: AtomicU64,
    /// Their bytes, sub-buffer headers and padding included.
    pub bytes: AtomicU64,
    /// Events overwritten before they were read.
    pub overrun: AtomicU64,
    /// Events lost because an interrupted writer still held the sub-buffer.
    pub commit_overrun: AtomicU64,
    /// Events refused because the ring was full.
    pub dropped: AtomicU64,
}

impl TraceCounters {
    const fn new() -> Self {
        Self {
            entries: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            overrun: AtomicU64::new(0),
            commit_overrun: AtomicU64::new(0),
            dropped: AtomicU64::new(0),
        }
    }
}

/// What belongs to one CPU. A cache line (or two) of its own, so that CPUs do not slow each other.
#[repr(C, align(128))]
pub struct CpuStatus {
    /// Counts up with every timer interrupt, also while nothing is measured: a sign of life.
    pub heartbeat: AtomicU64,
    /// Interrupts that nobody had asked for, and those that the local APIC withdrew (spurious vector).
    pub unexpected_irqs: AtomicU64,
    /// The counters of the CPU's trace ring.
    pub trace: TraceCounters,
}

impl CpuStatus {
    const fn new() -> Self {
        Self {
            heartbeat: AtomicU64::new(0),
            unexpected_irqs: AtomicU64::new(0),
            trace: TraceCounters::new(),
        }
    }
}

/// One measured thread: a CPU's in timerlat (slot = CPU), the n-th in cyclictest (slot = n).
#[repr(C, align(64))]
pub struct SlotStats {
    /// 1 if the slot is in use.
    pub active: AtomicU32,
    /// The CPU that it is measured on.
    pub cpu: AtomicU32,
    /// The thread's priority.
    pub prio: AtomicU32,
    /// The thread's id.
    pub tid: AtomicU32,
    /// Time between two activations, in nanoseconds.
    pub interval_ns: AtomicU64,
    /// Activations that came too late to be run and were skipped.
    pub missed: AtomicU64,
    /// Impossible (negative) differences of time. They are not in the statistics; they taint.
    pub negative: AtomicU64,
    /// From the timer's expiry to the interrupt handler.
    pub irq: LatencyStats,
    /// From the timer's expiry to the thread.
    pub thread: LatencyStats,
}

impl SlotStats {
    const fn new() -> Self {
        Self {
            active: AtomicU32::new(0),
            cpu: AtomicU32::new(0),
            prio: AtomicU32::new(0),
            tid: AtomicU32::new(0),
            interval_ns: AtomicU64::new(0),
            missed: AtomicU64::new(0),
            negative: AtomicU64::new(0),
            irq: LatencyStats::new(),
            thread: LatencyStats::new(),
        }
    }

    /// Takes the slot into use. `active` is written last.
    pub fn open(&self, cpu: u32, tid: u32, prio: u32, interval_ns: u64) {
        self.cpu.store(cpu, Relaxed);
        self.tid.store(tid, Relaxed);
        self.prio.store(prio, Relaxed);
        self.interval_ns.store(interval_ns, Relaxed);
        self.active.store(1, Relaxed);
    }
}

/// A thread of the guest, as the host's reports name it.
#[repr(C)]
pub struct ThreadInfo {
    /// The name, UTF-8, padded with zeros.
    pub name: [AtomicU8; NAME_LEN],
    /// The priority.
    pub prio: AtomicU32,
    /// The CPU it belongs to.
    pub cpu: AtomicU32,
    /// A [`ThreadState`](super::ThreadState).
    pub state: AtomicU32,
    /// Keeps what follows aligned.
    pub reserved: AtomicU32,
    /// Time it ran, in TSC cycles.
    pub runtime_cycles: AtomicU64,
    /// How often it was switched to.
    pub switches: AtomicU64,
}

impl ThreadInfo {
    const fn new() -> Self {
        Self {
            name: [const { AtomicU8::new(0) }; NAME_LEN],
            prio: AtomicU32::new(0),
            cpu: AtomicU32::new(0),
            state: AtomicU32::new(0),
            reserved: AtomicU32::new(0),
            runtime_cycles: AtomicU64::new(0),
            switches: AtomicU64::new(0),
        }
    }

    /// Sets the name; what does not fit is cut off.
    pub fn set_name(&self, name: &str) {
        let bytes = name.bytes().chain(core::iter::repeat(0));
        for (cell, byte) in self.name.iter().zip(bytes) {
            cell.store(byte, Relaxed);
        }
    }
}

/// The state of a run and all of its results. See the module's documentation.
#[repr(C)]
pub struct Status {
    /// [`Status::MAGIC`] once the guest has come so far as to set it.
    pub magic: AtomicU64,
    /// [`Status::VERSION`].
    pub version: AtomicU32,
    /// A [`RunState`].
    pub state: AtomicU32,
    /// CPUs that run.
    pub nr_cpus: AtomicU32,
    /// [`MAX_CPUS`] of the guest.
    pub max_cpus: AtomicU32,
    /// Slots in use.
    pub nr_slots: AtomicU32,
    /// [`MAX_SLOTS`] of the guest.
    pub max_slots: AtomicU32,
    /// TSC frequency in Hz.
    pub tsc_hz: AtomicU64,
    /// Frequency in Hz at which the local APIC timer counts; 0 in TSC-deadline mode.
    pub lapic_hz: AtomicU64,
    /// Where `tsc_hz` is from, a [`FrequencySource`](super::FrequencySource).
    pub tsc_source: AtomicU32,
    /// Where `lapic_hz` is from, a [`FrequencySource`](super::FrequencySource).
    pub lapic_source: AtomicU32,
    /// 1 if CPUID says that the TSC is invariant.
    pub invariant_tsc: AtomicU32,
    /// 1 if deadlines are set in TSC-deadline mode, 0 if in one-shot mode.
    pub tsc_deadline: AtomicU32,
    /// TSC when the measurement began (after the warm-up).
    pub started_tsc: AtomicU64,
    /// TSC when it ended; 0 while it has not.
    pub ended_tsc: AtomicU64,
    /// Binary logarithm of [`LINEAR`](super::histogram::LINEAR) of the histograms, on which the slots' layout depends.
    pub histogram_bits: AtomicU32,
    /// 1 if threads of tasks are measured: then `user` is there.
    pub has_user: AtomicU32,
    /// The threshold that ended the run.
    pub stop: StopReason,
    /// What belongs to each CPU.
    pub cpus: [CpuStatus; MAX_CPUS],
    /// The threads by id.
    pub threads: [ThreadInfo; MAX_THREADS],
    /// The measured threads.
    pub slots: [SlotStats; MAX_SLOTS],
    /// From the timer's expiry to the end of the thread's work in user space, by slot.
    #[cfg(any(feature = "tasks", feature = "std", test))]
    pub user: [LatencyStats; MAX_SLOTS],
}

impl Status {
    /// First eight bytes of a status block in use.
    pub const MAGIC: u64 = u64::from_le_bytes(*b"TAKTSTA1");
    /// Version of the layout.
    pub const VERSION: u32 = 3;
    /// Name of the symbol under which the image holds it.
    pub const SYMBOL: &'static str = "TAKT_STATUS";

    /// A status block at rest. All zeros, so a static one lies in `.bss`.
    #[must_use]
    #[expect(clippy::new_without_default, reason = "4 MiB: meant for a static only")]
    pub const fn new() -> Self {
        Self {
            magic: AtomicU64::new(0),
            version: AtomicU32::new(0),
            state: AtomicU32::new(0),
            nr_cpus: AtomicU32::new(0),
            max_cpus: AtomicU32::new(0),
            nr_slots: AtomicU32::new(0),
            max_slots: AtomicU32::new(0),
            tsc_hz: AtomicU64::new(0),
            lapic_hz: AtomicU64::new(0),
            tsc_source: AtomicU32::new(0),
            lapic_source: AtomicU32::new(0),
            invariant_tsc: AtomicU32::new(0),
            tsc_deadline: AtomicU32::new(0),
            started_tsc: AtomicU64::new(0),
            ended_tsc: AtomicU64::new(0),
            histogram_bits: AtomicU32::new(0),
            has_user: AtomicU32::new(0),
            stop: StopReason::new(),
            cpus: [const { CpuStatus::new() }; MAX_CPUS],
            threads: [const { ThreadInfo::new() }; MAX_THREADS],
            slots: [const { SlotStats::new() }; MAX_SLOTS],
            #[cfg(any(feature = "tasks", feature = "std", test))]
            user: [const { LatencyStats::new() }; MAX_SLOTS],
        }
    }

    /// Marks the block as in use, in state [`RunState::Booting`]. The magic is written last.
    pub fn init(&self) {
        self.version.store(Self::VERSION, Relaxed);
        self.max_cpus.store(MAX_CPUS as u32, Relaxed);
        self.max_slots.store(MAX_SLOTS as u32, Relaxed);
        self.histogram_bits.store(LINEAR_BITS, Relaxed);
        self.set_state(RunState::Booting);
        self.magic.store(Self::MAGIC, Relaxed);
    }

    /// Says how far the run has come.
    pub fn set_state(&self, state: RunState) {
        self.state.store(state as u32, Relaxed);
    }

    /// A sign of life of `cpu`; each CPU gives its own.
    #[inline]
    pub fn beat(&self, cpu: usize) {
        if let Some(cpu) = self.cpus.get(cpu) {
            let beats = cpu.heartbeat.load(Relaxed);
            cpu.heartbeat.store(beats.wrapping_add(1), Relaxed);
        }
    }

    /// Where the figures are, without histograms and without what is not in use: offsets in bytes, whole words of 8.
    pub fn figures(&self) -> impl Iterator<Item = Range<usize>> {
        let used = self.slots.iter().enumerate();
        let used = used.filter(|(_, slot)| slot.active.load(Relaxed) != 0);
        let parts = used.flat_map(|(index, _)| {
            let slot = offset_of!(Self, slots) + index * size_of::<SlotStats>();
            let irq = slot + offset_of!(SlotStats, irq);
            let thread = slot + offset_of!(SlotStats, thread);
            let len = offset_of!(LatencyStats, hist);
            [slot..irq, irq..irq + len, thread..thread + len]
        });
        core::iter::once(0..offset_of!(Self, cpus)).chain(parts)
    }

    /// The statistics of measured thread `slot`, if there is room for it.
    #[inline]
    #[must_use]
    pub fn slot(&self, slot: usize) -> Option<&SlotStats> {
        self.slots.get(slot)
    }
}
