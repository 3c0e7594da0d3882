//! Per-CPU data behind `gs:`: what is in a CPU's block ([`PerCpu`]), [`CpuRef`], which says whose it is, and access to single words
//! of this CPU's.
//!
//! Everything that a CPU owns lies in one [`PerCpu`] block, behind the memory of its trace ring. Fields that hot code reads
//! alone are reached by one `gs:`-relative instruction; code that needs several takes [`this`], one load.

use core::arch::asm;
use core::cell::UnsafeCell;
use core::fmt;
use core::mem::{MaybeUninit, offset_of};
use core::ops::Deref;
use core::sync::atomic::Ordering::Relaxed;

use takt_scheduler::ThreadId;
use x86_64::structures::gdt::GlobalDescriptorTable;
use x86_64::structures::tss::TaskStateSegment;

use super::proof;
use crate::config::MAX_CPUS;

mod block;

pub(crate) use block::*;

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

/// What `gs` begins at on a CPU.
#[cfg(feature = "tasks")]
pub(crate) fn gs_of(cpu: CpuRef) -> usize {
    core::ptr::from_ref(cpu.block()) as usize - RING_BEFORE
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
        asm!(proof::told!("inc byte ptr gs:[{preempt}]", "17"), "test byte ptr gs:[{preempt}], {depth}", "jz {full}", preempt = const PREEMPT,
             depth = const DEPTH, full = label { full() }, options(nostack));
    }
}

/// Lowers it and runs `slow` if that made a due reschedule possible: one `dec` and one branch.
#[inline(always)]
pub(crate) fn preempt_dec(slow: extern "C" fn()) {
    // SAFETY: one `dec` of this CPU's own byte, so atomic towards interrupts; the label is inside this function.
    unsafe {
        asm!(proof::told!("dec byte ptr gs:[{}]", "18"), "jz {slow}", const PREEMPT, slow = label { slow() }, options(nostack));
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
