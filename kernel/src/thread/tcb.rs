//! Thread control blocks: what is in one ([`Tcb`]), the table of all, and [`TcbRef`], which says which of them it is.
//!
//! A block's content a section lends ([`Kernel::thread`](crate::section::Kernel::thread)); [`TcbRef`] reads what may be read at any
//! time. The table is static, and its addresses never change: an id is an index into [`BLOCKS`], and a block's address names its
//! thread as well. A trap frame lies before each block, so that one word says both which thread runs and where an interrupt puts its
//! registers.

use core::cell::UnsafeCell;
use core::mem::MaybeUninit;
use core::ptr::NonNull;

use takt_scheduler::{Priority, ThreadId};

use crate::arch::frame::TrapFrame;
use crate::arch::percpu::{self, CpuRef};
use crate::arch::proof;
use crate::config::{MAX_CPUS, MAX_THREADS};
use crate::cpu_sched::CpuSched;
use crate::lock::{self, Lock};
use crate::waiters::Waiters;

mod block;

pub(crate) use block::*;

/// One entry of the table. The frame's end is the control block's address.
#[repr(C)]
struct Slot {
    frame: TrapFrame,
    tcb: Tcb,
}

const _: () = assert!(core::mem::offset_of!(Slot, tcb) == size_of::<TrapFrame>());

#[repr(transparent)]
struct Table(UnsafeCell<MaybeUninit<[Slot; MAX_THREADS]>>);

// SAFETY: control blocks change inside kernel sections only, or by the thread's own CPU at a switch.
unsafe impl Sync for Table {}

/// Zeros, which are a free block: so they lie in `.bss`.
static TABLE: Table = Table(UnsafeCell::new(MaybeUninit::zeroed()));

// For a host that reads the RAM and wants the names of threads, or who has called whom in one: where what it needs stands in
// a block, or how far before it, and what is set in `handle` while it is in use. Symbols' values, so they cost nothing.
core::arch::global_asm!(
    ".global takt_tcb_name, takt_tcb_handle, takt_tcb_in_use, takt_tcb_prio, takt_max_threads",
    ".set takt_tcb_prio, {}",
    ".set takt_max_threads, {}",
    ".set takt_tcb_name, {}", ".set takt_tcb_handle, {}", ".set takt_tcb_in_use, {}",
    const core::mem::offset_of!(Tcb, prio), const MAX_THREADS, const core::mem::offset_of!(Tcb, name), const core::mem::offset_of!(Tcb, handle), const IN_USE,
);
core::arch::global_asm!(
    ".global takt_tcb_resume, takt_tcb_rsp, takt_tcb_stack_bottom, takt_tcb_stack_top, takt_trap_rip, takt_trap_rbp, takt_trap_rsp",
    ".set takt_tcb_resume, {}",
    ".set takt_tcb_rsp, {}",
    ".set takt_tcb_stack_bottom, {}",
    ".set takt_tcb_stack_top, {}",
    ".set takt_trap_rip, {}",
    ".set takt_trap_rbp, {}",
    ".set takt_trap_rsp, {}",
    const core::mem::offset_of!(Tcb, resume),
    const core::mem::offset_of!(Tcb, rsp),
    const core::mem::offset_of!(Tcb, stack_bottom),
    const core::mem::offset_of!(Tcb, stack_top),
    const size_of::<TrapFrame>() - core::mem::offset_of!(TrapFrame, rip),
    const size_of::<TrapFrame>() - core::mem::offset_of!(TrapFrame, rbp),
    const size_of::<TrapFrame>() - core::mem::offset_of!(TrapFrame, rsp),
);

/// The address of each block: one load, where the size of a block takes three instructions to multiply by.
#[unsafe(export_name = "takt_tcbs")]
static BLOCKS: [TcbRef; MAX_THREADS] = {
    let mut list = [TcbRef(NonNull::dangling()); MAX_THREADS];
    let mut id = 0;
    while id < MAX_THREADS {
        let slot = TABLE.0.get().cast::<Slot>().wrapping_add(id);
        let block = slot.wrapping_byte_add(core::mem::offset_of!(Slot, tcb));
        list[id] = TcbRef(NonNull::new(block.cast()).expect("a static is not at zero"));
        id += 1;
    }
    list
};

/// A thread's control block: always one of the table, whether a thread uses it or not. What is in it is lent by a section
/// ([`Kernel::thread`](crate::section::Kernel::thread)).
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(transparent)]
pub(crate) struct TcbRef(NonNull<Tcb>);

// SAFETY: an address, which never changes.
unsafe impl Sync for TcbRef {}

/// Gives fields that may be read outside a section, as they are.
macro_rules! readable {
    ($($(#[$doc:meta])* $field:ident: $type:ty),* $(,)?) => {$(
        $(#[$doc])*
        #[inline(always)]
        pub(crate) fn $field(self) -> $type {
            // SAFETY: a block of the table, and an aligned field of at most a word, which is never read in halves.
            unsafe { (*self.0.as_ptr()).$field }
        }
    )*};
}

impl TcbRef {
    /// Whether the thread runs on its CPU, at a moment. Asked of another CPU's, a moment later it may be otherwise.
    #[inline(always)]
    pub(crate) fn runs(self) -> bool {
        self.cpu().running() == self.tid()
    }

    /// The CPU that schedules the thread; none if the block was never a thread's.
    pub(crate) fn cpu_if_any(self) -> Option<CpuRef> {
        (self.handle() > u32::from(u8::MAX)).then(|| self.cpu())
    }

    /// The control block of a thread id.
    #[inline(always)]
    pub(crate) fn of(tid: ThreadId) -> Self {
        // Masked to the table's size, which is a power of two.
        BLOCKS[tid.index() & (MAX_THREADS - 1)]
    }

    /// The running thread's.
    #[inline(always)]
    pub(crate) fn current() -> Self {
        // SAFETY: a CPU runs a thread of the table from the beginning.
        Self(unsafe { NonNull::new_unchecked(percpu::current().cast()) })
    }

    /// The control block at an address.
    ///
    /// # Safety
    /// [`as_ptr`](Self::as_ptr) gave it.
    #[inline(always)]
    pub(crate) unsafe fn of_address(address: usize) -> Self {
        // SAFETY: the caller's duty.
        Self(unsafe { NonNull::new_unchecked(address as *mut Tcb) })
    }

    /// Its address.
    #[inline(always)]
    pub(crate) const fn as_ptr(self) -> *mut Tcb {
        self.0.as_ptr()
    }

    readable! {
        /// Its number.
        tid: ThreadId,
        /// The thread's CPU.
        cpu: CpuRef,
        /// The thread's handle. The running thread's own does not change.
        handle: u32,
        /// Where a switch to it goes on.
        resume: usize,
        /// Its effective priority.
        prio: Priority,
        /// Its own priority.
        base: Priority,
        /// Its state.
        state: u8,
        /// Whether it must not wait, as the running thread asks of itself.
        atomic: u8,
        /// The queue that it waits in.
        wait_queue: *const Waiters,
        /// The priority that it stands there with.
        wait_prio: Priority,
        /// What it waits for, or did last.
        wait: Wait,
        /// How its wait ended, as it asks itself when it runs again.
        woken: Woken,
        /// What the waker left, as it asks itself when it runs again.
        exchange: usize,
        /// Where its stack begins, which does not change while it lives.
        stack_top: usize,
        /// Where its stack ends, likewise.
        stack_bottom: usize,
    }

    /// The address space of its task, or null. The running thread's own does not change.
    #[cfg(feature = "tasks")]
    #[inline(always)]
    pub(crate) fn space(self) -> *const crate::arch::space::Space {
        // SAFETY: a block of the table.
        unsafe { (*self.0.as_ptr()).space }
    }

    /// Where its registers lie while it is interrupted.
    #[inline(always)]
    pub(crate) fn frame(self) -> *const TrapFrame {
        self.0.as_ptr().cast::<TrapFrame>().wrapping_sub(1)
    }

    /// The instruction that it was interrupted before, as the interrupt's handler asks.
    #[inline(always)]
    pub(crate) fn interrupted_ip(self) -> usize {
        // SAFETY: a trap frame lies right before every control block.
        unsafe { (*self.frame()).rip as usize }
    }

    /// The lock of what it waits for. Its own CPU knows that, which alone begins its waits: of another CPU's it is some lock.
    #[inline(always)]
    pub(crate) fn lock(self) -> &'static Lock {
        match self.wait() {
            Wait::Queue => lock::of(self.wait_queue()),
            Wait::Second => lock::of(self.wait_queue().wrapping_sub(1)),
            _ => &lock::CHAINS,
        }
    }

    /// Whether it stands in its wait queue with a priority that is not its own any more. Outside a section that may be over.
    #[inline(always)]
    pub(crate) fn is_misplaced(self) -> bool {
        !self.wait_queue().is_null() && self.wait_prio() != self.prio()
    }
}

impl CpuSched {
    /// Has the links name all control blocks; no thread is queued.
    pub(crate) fn name_threads(&mut self) {
        // In half a word: the image lies below 4 GiB (`takt.ld`).
        self.links
            .reset(|tid| TcbRef::of(tid).as_ptr().addr() as u32);
    }

    /// The control block of a thread that the CPU goes on with, which lies beside its links.
    #[inline(always)]
    pub(crate) fn thread(&self, tid: ThreadId) -> TcbRef {
        let address = proof::not_null!(self.links.word(tid) as usize);
        // SAFETY: as `name_threads` has put it there, before a CPU has threads.
        unsafe { TcbRef::of_address(address) }
    }
}

/// Gives every block what is the same in all its uses.
///
/// # Safety
/// Once, on the boot CPU, before there are threads.
pub(crate) unsafe fn init() {
    for id in 0..MAX_THREADS {
        let block = TcbRef::of(ThreadId::new(id as u8)).as_ptr();
        // SAFETY: no one else looks at the table yet. Zeros are a valid block but for this field.
        unsafe { (*block).cpu = CpuRef::of(0) };
        // SAFETY: no one else looks at it yet, and now it is valid.
        let t = unsafe { &mut *block };
        t.tid = ThreadId::new(id as u8);
        t.set_cpu(CpuRef::of(0));
        // The boot CPU's idle thread is one from the start, since the boot context may hold a mutex.
        let idle = if id == 0 { IN_USE } else { 0 };
        t.handle = id as u32 | idle;
        t.preempt = percpu::NO_RESCHED;
        if id >= MAX_CPUS {
            t.prepare();
        }
    }
}

/// Makes `next` the running thread in the per-CPU block: id, control block and IST1 in it. No reschedule is due
/// afterwards, and as before nothing forbids one: a CPU switches only then.
#[inline(always)]
pub(crate) fn set_current(next: TcbRef) {
    // SAFETY: this CPU's own fields, with interrupts off. An NMI between leaves the count as it found it.
    unsafe {
        core::arch::asm!(
            "movzx {half:e}, word ptr [{next} + {from}]",
            "mov word ptr gs:[{preempt}], {half:x}",
            "mov gs:[{current}], {next}",
            from = const core::mem::offset_of!(Tcb, preempt),
            preempt = const percpu::PREEMPT,
            current = const percpu::CURRENT,
            half = out(reg) _,
            next = in(reg) next.as_ptr(),
            options(nostack, preserves_flags),
        );
    }
}
