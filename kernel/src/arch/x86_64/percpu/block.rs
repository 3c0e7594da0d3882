//! [`PerCpu`]: what belongs to one CPU, and where its parts are behind `gs`.
//!
//! The preempt count is a byte of the context word. It says whether the CPU may switch, and whether it is to:
//!
//! | bits | what |
//! |---|---|
//! | 0 to 3 | how often preemption is disabled |
//! | 4 | an interrupt's handler runs |
//! | 5 | an NMI's handler runs |
//! | 6 | in records only: interrupts were on |
//! | 7 | no reschedule is due |
//!
//! So 0 is: a reschedule is due, and nothing forbids it.

use core::cell::{Cell, UnsafeCell};
use core::mem::{MaybeUninit, offset_of};
use core::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering::Relaxed};

use takt_tracer::ring::RingControl;
use x86_64::structures::gdt::GlobalDescriptorTable;
use x86_64::structures::tss::TaskStateSegment;

use crate::config::{TRACE_NR_SUBS, TRACE_SUB_SIZE};
use crate::cpu_sched::CpuSched;

/// A CPU's trace ring and its block. `gs` points to the beginning: what a record writes, which is most of what is written
/// `gs:`-relative, lies at the shortest displacements. The block's fields have a long one in any case.
#[repr(C, align(4096))]
pub(super) struct Memory {
    ring: RingMemory,
    block: PerCpu,
}

/// A part of a block that has its owner: [`init`](super::init) gives it its value.
#[repr(transparent)]
pub(crate) struct Owned<T>(UnsafeCell<MaybeUninit<T>>);

impl<T> Owned<T> {
    /// Where it is. Whoever reaches it says why nobody else does.
    #[inline(always)]
    pub(crate) const fn get(&self) -> *mut T {
        self.0.get().cast()
    }
}

/// What belongs to one CPU. Zeros are a block of one that does not run.
///
/// # Invariants
/// Words that other CPUs, interrupts or a host look at are atomics, and only the CPU itself changes them; its number and its APIC
/// id it never changes once it is online. What is in [`Owned`]
/// is the section's, or the boot code's. All other cells are the hooks' of that CPU, with interrupts off.
#[repr(C)]
pub(crate) struct PerCpu {
    /// Trace ring control words: first, since nothing else is reached by so many instructions.
    pub(crate) ring: RingControl,
    /// Address of this block, so that one load gives it.
    pub(super) this: AtomicPtr<PerCpu>,
    /// The context word: bits 16..23 preempt count, bits 24..31 running thread, rest zero.
    pub(super) context: AtomicU32,
    /// Number of the CPU, from 0.
    pub(crate) cpu: Cell<u32>,
    /// The address of the lock that it has, or had last. In half a word: the image lies below 4 GiB (`takt.ld`).
    pub(crate) held: AtomicU32,
    /// Task state segment. IST1 is the running thread's control block, before which its frame lies: in the cache line of the
    /// preempt count.
    pub(crate) tss: Owned<TaskStateSegment>,
    /// Where the interrupt stack begins (its highest address).
    pub(crate) irq_stack_top: AtomicUsize,
    /// Local APIC id.
    pub(crate) apic_id: Cell<u32>,
    /// The shadow stack on which a function was put last (see `trace::function::shadow`).
    #[cfg(feature = "function")]
    pub(crate) function_shadow: AtomicU32,
    /// Interrupts taken since boot; the host's sign of life.
    pub(crate) nr_irqs: AtomicU64,
    /// Unexpected vectors and spurious interrupts seen.
    pub(crate) nr_unexpected: AtomicU64,
    /// Non-maskable interrupts seen.
    pub(crate) nr_nmis: AtomicU64,
    /// The context that the last record of a function named (see `trace::function`).
    #[cfg(feature = "function")]
    pub(crate) function_context: AtomicU32,
    /// A bit for each context in which hooks of functions are running.
    #[cfg(feature = "function")]
    pub(crate) function_busy: AtomicU32,
    /// While a thread that has ended leaves its stack, where the flag is that says that the stack is in use.
    pub(crate) leaving: AtomicUsize,
    /// Run queue, timer queue and times.
    pub(crate) sched: Owned<CpuSched>,
    /// What hooks of tracers take on this CPU.
    #[cfg(feature = "latency-tracers")]
    pub(crate) hooks: crate::arch::hidden::Hooks,
    /// The stretch that a tracer of sections follows on this CPU.
    #[cfg(feature = "latency-tracers")]
    pub(crate) critical: crate::probe::state::Cpu,
    /// Its address: that far into the block each access would have a long displacement, of which the hooks have many.
    #[cfg(feature = "latency-tracers")]
    pub(super) critical_place: AtomicPtr<crate::probe::state::Cpu>,
    /// The thread whose wake-up a tracer follows on this CPU.
    #[cfg(feature = "latency-tracers")]
    pub(crate) followed: crate::probe::state::Followed,
    /// The address space that is in force, or null: then it is the kernel's own.
    #[cfg(feature = "tasks")]
    pub(crate) active: AtomicPtr<crate::arch::space::Space>,
    /// The one of those whose task's state the FPU has, or null: then it has nobody's that is not kept elsewhere.
    #[cfg(feature = "tasks")]
    pub(crate) live: AtomicPtr<crate::arch::space::Space>,
    /// A task's stack pointer, at the beginning of its call.
    #[cfg(feature = "tasks")]
    pub(crate) task_rsp: AtomicU64,
    /// Set while an exception is being reported, so that a second one is not reported forever.
    in_exception: AtomicU32,
    /// This CPU's descriptor table.
    pub(crate) gdt: Owned<GlobalDescriptorTable>,
}

// SAFETY: see the invariants.
unsafe impl Sync for PerCpu {}

impl PerCpu {
    /// Its CPU's number.
    #[inline(always)]
    pub(crate) fn number(&self) -> u32 {
        self.cpu.get()
    }

    /// Preempt count and running thread.
    #[inline(always)]
    pub(crate) fn context(&self) -> u32 {
        self.context.load(Relaxed)
    }

    /// Counts an exception whose report begins on this CPU; says how many there are now.
    pub(crate) fn exception_begins(&self) -> u32 {
        increase(&self.in_exception)
    }
}

/// Adds one to a word that only this CPU changes; says what it is now.
#[inline(always)]
pub(crate) fn increase(word: &AtomicU32) -> u32 {
    let value = word.load(Relaxed) + 1;
    word.store(value, Relaxed);
    value
}

/// Adds one to a counter that only this CPU changes, and no NMI in between.
#[inline(always)]
pub(crate) fn count(counter: &AtomicU64) {
    counter.store(counter.load(Relaxed) + 1, Relaxed);
}

/// The running thread's control block, of which nothing is known here.
pub(crate) enum Running {}

/// The memory of a trace ring, aligned as the whole is at whose beginning it lies.
#[repr(C)]
struct RingMemory([u8; TRACE_SUB_SIZE * TRACE_NR_SUBS]);

/// How far the ring's memory begins before a [`PerCpu`].
pub(crate) const RING_BEFORE: usize = offset_of!(Memory, block);
/// Where the ring's memory begins behind `gs`.
pub(crate) const RING: usize = offset_of!(Memory, ring);

/// Where a field of [`PerCpu`] is behind `gs`, of its offset there.
pub(crate) const fn behind_gs(offset: usize) -> usize {
    offset_of!(Memory, block) + offset
}

const _: () = assert!(
    TRACE_SUB_SIZE <= 4096,
    "sub-buffers are aligned to their size"
);

/// Where the trace ring's control words are behind `gs`, as all of these.
pub(crate) const CONTROL: usize = behind_gs(offset_of!(PerCpu, ring));
/// The preempt-count byte.
pub(crate) const PREEMPT: usize = CONTEXT + 2;
/// The context word.
pub(crate) const CONTEXT: usize = behind_gs(offset_of!(PerCpu, context));
/// The running thread's id in the context word.
pub(crate) const CURRENT_TID: usize = CONTEXT + 3;
/// Where the pointer to the running thread's control block is in the task state segment. It is IST1, the end of the frame
/// before the block (Intel SDM vol. 3A, figure 8-11).
pub(super) const IST1: usize = 0x24;
/// The pointer to the running thread's control block.
pub(crate) const CURRENT: usize = behind_gs(offset_of!(PerCpu, tss) + IST1);
const _: () = assert!(
    CURRENT / 64 == CONTEXT / 64 && CURRENT.is_multiple_of(8),
    "a cache line"
);

// The running thread's control block is never null (see `percpu::current`).
core::arch::global_asm!(
    crate::arch::proof::entry!("{CURRENT}", "3", ""),
    CURRENT = const CURRENT,
);

const _: () = assert!(CURRENT.is_multiple_of(8), "one access to memory");
/// The address space that is in force.
#[cfg(feature = "tasks")]
pub(crate) const ACTIVE: usize = behind_gs(offset_of!(PerCpu, active));
/// The one whose state the FPU has.
#[cfg(feature = "tasks")]
pub(crate) const LIVE: usize = behind_gs(offset_of!(PerCpu, live));
/// A task's stack pointer.
#[cfg(feature = "tasks")]
pub(crate) const TASK_RSP: usize = behind_gs(offset_of!(PerCpu, task_rsp));
/// How far apart the CPUs' memories are.
#[cfg(feature = "tasks")]
pub(crate) const SIZE: usize = size_of::<Memory>();

/// The interrupt stack's top.
pub(crate) const IRQ_STACK_TOP: usize = behind_gs(offset_of!(PerCpu, irq_stack_top));

/// In a record's context: interrupts were enabled.
pub(crate) const IRQS_ON: u32 = 1 << 22;
/// The depth field of the preempt count.
pub(crate) const DEPTH: u8 = 0xf;
/// One in the hardirq field of the preempt count.
pub(crate) const HARDIRQ: u8 = 1 << 4;
/// One in the NMI field of the preempt count.
pub(crate) const NMI: u8 = 1 << 5;
/// need_resched, inverted: clear when a reschedule is due.
pub(crate) const NO_RESCHED: u8 = 1 << 7;
