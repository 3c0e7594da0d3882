//! Per-CPU data behind `gs:`, the context word with the preempt count among it.
//!
//! Everything that a CPU owns lies in one [`PerCpu`] block, behind the memory of its trace ring. Fields that hot code reads
//! alone are reached by one `gs:`-relative instruction; code that needs several takes [`this`], one load.

use core::arch::asm;
use core::cell::{Cell, UnsafeCell};
use core::fmt;
use core::mem::{MaybeUninit, offset_of};
use core::ops::Deref;
use core::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering::Relaxed};

use takt_scheduler::ThreadId;
use takt_tracer::ring::RingControl;
use x86_64::structures::gdt::GlobalDescriptorTable;
use x86_64::structures::tss::TaskStateSegment;

use crate::config::{MAX_CPUS, TRACE_NR_SUBS, TRACE_SUB_SIZE};
use crate::cpu_sched::CpuSched;

/// A CPU's trace ring and its block. `gs` points to the beginning: what a record writes, which is most of what is written
/// `gs:`-relative, lies at the shortest displacements. The block's fields have a long one in any case.
#[repr(C, align(4096))]
struct Memory {
    ring: RingMemory,
    block: PerCpu,
}

/// A part of a block that has its owner: [`init`] gives it its value.
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
    this: AtomicPtr<PerCpu>,
    /// The context word: bits 16..23 preempt count, bits 24..31 running thread, rest zero.
    context: AtomicU32,
    /// Number of the CPU, from 0.
    pub(crate) cpu: Cell<u32>,
    /// A bit for each CPU that is to be kicked when this one gives up the kernel lock.
    pub(crate) kicks: AtomicU32,
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
    pub(crate) hooks: super::hidden::Hooks,
    /// The stretch that a tracer of sections follows on this CPU.
    #[cfg(feature = "latency-tracers")]
    pub(crate) critical: crate::probe::state::Cpu,
    /// Its address: that far into the block each access would have a long displacement, of which the hooks have many.
    #[cfg(feature = "latency-tracers")]
    critical_place: AtomicPtr<crate::probe::state::Cpu>,
    /// The thread whose wake-up a tracer follows on this CPU.
    #[cfg(feature = "latency-tracers")]
    pub(crate) followed: crate::probe::state::Followed,
    /// The address space that is in force, or null: then it is the kernel's own.
    #[cfg(feature = "tasks")]
    pub(crate) active: AtomicPtr<super::space::Space>,
    /// The one of those whose task's state the FPU and `fs` have, or null: then they have nobody's that is not kept elsewhere.
    #[cfg(feature = "tasks")]
    pub(crate) live: AtomicPtr<super::space::Space>,
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
const IST1: usize = 0x24;
/// The pointer to the running thread's control block.
pub(crate) const CURRENT: usize = behind_gs(offset_of!(PerCpu, tss) + IST1);
const _: () = assert!(
    CURRENT / 64 == CONTEXT / 64 && CURRENT.is_multiple_of(8),
    "a cache line"
);

// The running thread's control block is never null (see `current`).
core::arch::global_asm!(
    super::proof::entry!("{CURRENT}", "3", ""),
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

/// What `gs` begins at on a CPU.
#[cfg(feature = "tasks")]
pub(crate) fn gs_of(cpu: CpuRef) -> usize {
    core::ptr::from_ref(cpu.block()) as usize - RING_BEFORE
}

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

#[repr(transparent)]
struct Blocks(UnsafeCell<MaybeUninit<[Memory; MAX_CPUS]>>);

// SAFETY: each block is changed by its own CPU only, except the trace control words, which are atomics.
unsafe impl Sync for Blocks {}

// For a host that reads the RAM: how far apart the CPUs' memories are, and where in each are the ring's control words and
// the running thread's id. The ring is at its beginning. Symbols' values, so they cost nothing.
core::arch::global_asm!(
    ".global takt_percpu_size, takt_percpu_control, takt_percpu_tid",
    ".set takt_percpu_size, {}",
    ".set takt_percpu_control, {}",
    ".set takt_percpu_tid, {}",
    const size_of::<Memory>(), const CONTROL, const CURRENT_TID,
);

const _: () = assert!(RING == 0, "the host looks for it there");

/// Zeros, so that they lie in `.bss`; [`init`] gives a block its values.
#[unsafe(export_name = "takt_percpu")]
static BLOCKS: Blocks = Blocks(UnsafeCell::new(MaybeUninit::zeroed()));

/// The block of CPU `cpu`.
///
/// # Panics
/// If `cpu` is not below [`MAX_CPUS`].
pub(crate) fn of(cpu: usize) -> &'static PerCpu {
    assert!(cpu < MAX_CPUS, "CPU number out of range");
    let block = BLOCKS.0.get() as usize + cpu * size_of::<Memory>() + RING_BEFORE;
    // SAFETY: inside the table by the assertion above, and zeros are a block.
    unsafe { &*(block as *const PerCpu) }
}

/// Prepares the block of CPU `cpu` and points `gs:` to the memory that it is part of.
///
/// # Safety
/// `idle` is the control block of its idle thread. Once on each CPU, by that CPU, before anything else of the kernel runs on it.
#[expect(
    clippy::multiple_unsafe_ops_per_block,
    reason = "the fields of one block"
)]
#[unsafe(link_section = ".text.notrace.init")]
pub(crate) unsafe fn init(cpu: usize, idle: *mut Running) {
    let block = of(cpu);
    let address = core::ptr::from_ref(block);
    block.this.store(address.cast_mut(), Relaxed);
    block.cpu.set(cpu as u32);
    // Preemption stays disabled until the CPU's idle thread stands.
    let context = (cpu as u32) << 24 | (u32::from(NO_RESCHED) | 1) << 16;
    block.context.store(context, Relaxed);
    #[cfg(feature = "latency-tracers")]
    block
        .critical_place
        .store((&raw const block.critical).cast_mut(), Relaxed);
    #[cfg(feature = "function")]
    block.function_context.store(u32::MAX, Relaxed);
    // SAFETY: the block is this CPU's own, and nothing else of this CPU runs yet. The fields that are not written are
    // right as zeros.
    unsafe {
        (*block.sched.get()).reset();
        block.tss.get().write(TaskStateSegment::new());
        // The boot context counts as the idle thread from the start.
        block
            .tss
            .get()
            .byte_add(IST1)
            .cast::<*mut Running>()
            .write(idle);
        block.gdt.get().write(GlobalDescriptorTable::empty());
    }
    let base = address as usize - RING_BEFORE;
    // SAFETY: the base is the address of a static.
    unsafe { x86_64::registers::model_specific::Msr::new(0xc000_0101).write(base as u64) };
}

/// A CPU by its block: always one of the table. What the kernel schedules there is lent by a section
/// ([`Kernel::cpu`](crate::section::Kernel::cpu)).
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(crate) struct CpuRef(&'static PerCpu);

impl CpuRef {
    /// The calling CPU. One instruction.
    ///
    /// # Context
    /// Any.
    #[inline(always)]
    pub(crate) fn this() -> Self {
        Self(this())
    }

    /// The CPU of that number.
    ///
    /// # Panics
    /// As [`of`].
    #[inline(always)]
    pub(crate) fn of(cpu: usize) -> Self {
        Self(of(cpu))
    }

    /// Which thread it runs by its last decision, at a moment. Asked of another CPU, a moment later it may be otherwise.
    #[inline(always)]
    pub(crate) fn running(self) -> ThreadId {
        // SAFETY: an aligned byte of its block, which is never read in halves.
        unsafe { (*self.sched.get()).rq.current() }
    }

    /// Its block.
    #[inline(always)]
    pub(crate) fn block(self) -> &'static PerCpu {
        self.0
    }
}

impl Deref for CpuRef {
    type Target = PerCpu;

    #[inline(always)]
    fn deref(&self) -> &PerCpu {
        self.0
    }
}

impl PartialEq for CpuRef {
    #[inline(always)]
    fn eq(&self, other: &Self) -> bool {
        core::ptr::eq(self.0, other.0)
    }
}

impl fmt::Debug for CpuRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CPU {}", self.number())
    }
}

/// This CPU's block. One instruction.
///
/// # Context
/// Any. Threads do not migrate, so the pointer stays right across preemption.
#[inline(always)]
pub(crate) fn this() -> &'static PerCpu {
    let block: *const PerCpu;
    // SAFETY: holds the block's own address once `init` ran; the value never changes.
    unsafe {
        asm!("mov {}, gs:[{}]", out(reg) block, const behind_gs(offset_of!(PerCpu, this)),
             options(nostack, preserves_flags, pure, readonly))
    };
    // SAFETY: a block of the table.
    unsafe { &*block }
}

/// What a tracer of sections follows on this CPU. One instruction.
///
/// # Context
/// As [`this`]. What it holds belongs to this CPU, with interrupts off.
#[cfg(feature = "latency-tracers")]
#[inline(always)]
pub(crate) fn critical() -> *const crate::probe::state::Cpu {
    let place: *const crate::probe::state::Cpu;
    // SAFETY: reads the address of a part of the block itself, which `init` put there and which never changes.
    unsafe {
        asm!("mov {}, gs:[{}]", out(reg) place, const behind_gs(offset_of!(PerCpu, critical_place)),
             options(nostack, preserves_flags, pure, readonly));
    };
    place
}

/// This CPU's number.
#[inline(always)]
pub(crate) fn cpu() -> usize {
    let cpu: u32;
    // SAFETY: reads a field of this CPU's block that never changes.
    unsafe {
        asm!("mov {:e}, gs:[{}]", out(reg) cpu, const behind_gs(offset_of!(PerCpu, cpu)),
             options(nostack, preserves_flags, pure, readonly));
    }
    cpu as usize
}

/// The running thread's control block.
#[inline(always)]
pub(crate) fn current() -> *mut Running {
    let tcb: *mut Running;
    // SAFETY: reads a pointer that is valid while this thread runs. Not `pure`: it differs from thread to thread.
    unsafe {
        asm!("mov {}, gs:[{}]", out(reg) tcb, const CURRENT, options(nostack, preserves_flags, readonly));
    }
    tcb
}

/// The running thread's id.
#[inline(always)]
pub(crate) fn current_tid() -> u8 {
    let tid: u32;
    // SAFETY: reads one byte of this CPU's block.
    unsafe {
        asm!("movzx {:e}, byte ptr gs:[{}]", out(reg) tid, const CURRENT_TID,
             options(nostack, preserves_flags, readonly));
    }
    tid as u8
}

/// The preempt-count byte.
#[inline(always)]
pub(crate) fn preempt_byte() -> u8 {
    let count: u32;
    // SAFETY: reads one byte of this CPU's block.
    unsafe {
        asm!("movzx {:e}, byte ptr gs:[{}]", out(reg) count, const PREEMPT,
             options(nostack, preserves_flags, readonly));
    }
    count as u8
}

/// Whether neither the preempt count nor a hardirq or NMI keeps this CPU from switching: one test and one branch.
#[inline(always)]
pub(crate) fn is_preemptible() -> bool {
    // SAFETY: reads one byte of this CPU's block; the label is inside this function.
    unsafe {
        asm!("test byte ptr gs:[{}], {}", "jnz {}", const PREEMPT, const !NO_RESCHED as i8, label { return false },
             options(nostack, readonly));
    }
    true
}

/// Whether nothing keeps this CPU from switching and no reschedule is due: one compare and one branch.
#[inline(always)]
pub(crate) fn is_calm() -> bool {
    // SAFETY: reads one byte of this CPU's block; the label is inside this function.
    unsafe {
        asm!("cmp byte ptr gs:[{}], {}", "jne {}", const PREEMPT, const NO_RESCHED as i8, label { return false },
             options(nostack, readonly));
    }
    true
}

/// Preempt count and running thread, as in the upper half of a record's word, but for whether interrupts are on.
#[cfg(feature = "latency-tracers")]
#[inline(always)]
pub(crate) fn context() -> u32 {
    let context: u32;
    // SAFETY: reads half of this CPU's context word.
    unsafe {
        asm!("movzx {:e}, word ptr gs:[{}]", out(reg) context, const PREEMPT,
             options(nostack, preserves_flags, readonly));
    };
    context
}

/// How often preemption is disabled.
#[inline(always)]
pub(crate) fn depth() -> u8 {
    preempt_byte() & DEPTH
}

/// Whether this is a thread that has disabled preemption once.
#[cfg(feature = "latency-tracers")]
#[inline(always)]
pub(crate) fn is_outermost() -> bool {
    preempt_byte() & !NO_RESCHED == 1
}

/// Whether a reschedule is due and nothing forbids it: one compare.
#[inline(always)]
pub(crate) fn resched_now() -> bool {
    preempt_byte() == 0
}

/// Says that a reschedule is due on this CPU.
#[inline(always)]
pub(crate) fn set_need_resched() {
    // SAFETY: one instruction on this CPU's own byte, so atomic towards interrupts.
    unsafe {
        asm!("and byte ptr gs:[{}], {}", const PREEMPT, const !NO_RESCHED as i8, options(nostack))
    };
}

/// Says that no reschedule is due on this CPU.
#[inline(always)]
pub(crate) fn clear_need_resched() {
    // SAFETY: one instruction on this CPU's own byte, so atomic towards interrupts.
    unsafe {
        asm!("or byte ptr gs:[{}], {}", const PREEMPT, const NO_RESCHED as i8, options(nostack))
    };
}

/// Raises the depth of preemption being disabled and runs `full` if that is more than the field can hold, which then
/// is zero and has carried into the next.
#[inline(always)]
pub(crate) fn preempt_inc(full: fn()) {
    // SAFETY: one `inc` of this CPU's own byte, so atomic towards interrupts; the label is inside this function.
    unsafe {
        asm!("inc byte ptr gs:[{preempt}]", "test byte ptr gs:[{preempt}], {depth}", "jz {full}", preempt = const PREEMPT,
             depth = const DEPTH, full = label { full() }, options(nostack));
    }
}

/// Lowers it and runs `slow` if that made a due reschedule possible: one `dec` and one branch.
#[inline(always)]
pub(crate) fn preempt_dec(slow: extern "C" fn()) {
    // SAFETY: one `dec` of this CPU's own byte, so atomic towards interrupts; the label is inside this function.
    unsafe {
        asm!("dec byte ptr gs:[{}]", "jz {slow}", const PREEMPT, slow = label { slow() }, options(nostack));
    }
}

/// Ends a hardirq: says whether a reschedule is due and allowed now. One `sub` and one branch.
#[inline(always)]
pub(crate) fn hardirq_exit() -> bool {
    // SAFETY: one instruction on this CPU's own byte; the label is inside this function.
    unsafe {
        asm!("sub byte ptr gs:[{}], {}", "jz {}", const PREEMPT, const HARDIRQ, label { return true },
             options(nostack));
    }
    false
}
