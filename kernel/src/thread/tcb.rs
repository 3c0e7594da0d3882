//! Thread control blocks: what is in one ([`Tcb`]), the table of all, and [`TcbRef`], which says which of them it is.
//!
//! A block's content a section lends ([`Kernel::thread`](crate::section::Kernel::thread)); [`TcbRef`] reads what may be read at any
//! time. The table is static, and its addresses never change: an id is an index into [`BLOCKS`], and a block's address names its
//! thread as well. A trap frame lies before each block, so that one word says both which thread runs and where an interrupt puts its
//! registers.

use core::cell::UnsafeCell;
use core::mem::{MaybeUninit, offset_of};
use core::ptr::NonNull;
use core::sync::atomic::{AtomicPtr, AtomicU8, AtomicU32, Ordering::Relaxed};

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

const _: () = assert!(offset_of!(Slot, tcb) == size_of::<TrapFrame>());

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
    const offset_of!(Tcb, prio), const MAX_THREADS, const offset_of!(Tcb, name), const offset_of!(Tcb, handle), const IN_USE,
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
    const offset_of!(Tcb, resume),
    const offset_of!(Tcb, rsp),
    const offset_of!(Tcb, stack_bottom),
    const offset_of!(Tcb, stack_top),
    const size_of::<TrapFrame>() - offset_of!(TrapFrame, rip),
    const size_of::<TrapFrame>() - offset_of!(TrapFrame, rbp),
    const size_of::<TrapFrame>() - offset_of!(TrapFrame, rsp),
);

/// The address of each block: one load, where the size of a block takes three instructions to multiply by.
#[unsafe(export_name = "takt_tcbs")]
static BLOCKS: [TcbRef; MAX_THREADS] = {
    let mut list = [TcbRef(NonNull::dangling()); MAX_THREADS];
    let mut id = 0;
    while id < MAX_THREADS {
        let slot = TABLE.0.get().cast::<Slot>().wrapping_add(id);
        let block = slot.wrapping_byte_add(offset_of!(Slot, tcb));
        list[id] = TcbRef(NonNull::new(block.cast()).expect("a static is not at zero"));
        id += 1;
    }
    list
};

/// A thread's control block: always one of the table, whether a thread uses it or not. What is in it is lent by a section
/// ([`Kernel::thread`](crate::section::Kernel::thread)).
///
/// # Who writes and who reads
/// With several CPUs a block belongs to the CPU that schedules its thread, and what others write of it they write with a lock. That
/// is the lock of all threads, or of what the thread waits for: [`lock`](Self::lock).
///
/// | field | written by | read without the lock by |
/// |---|---|---|
/// | `tid`, `stack_top`, `stack_bottom`, `space` | whoever creates the thread, before it runs | its own CPU |
/// | `base`, `atomic`, `resume`, `round_robin`, `quantum` | its own CPU | its own CPU |
/// | `exchange`, `exchange2` | whoever ends the wait | the thread, which has had the lock since then |
/// | `cpu`, `handle` | whoever creates a thread or joins it, with the lock of all threads | anybody with an old handle |
/// | `prio`, `wait_prio` | its own CPU | tracers and walks along chains, whose thread may have ended meanwhile |
/// | `wait_queue` | its own CPU, and whoever ends the wait: with a store of its own, as the last | its own CPU |
/// | `woken` | its own CPU, and whoever ends the wait | its own CPU, before it waits |
/// | `state`, `wait` | its own CPU; `state` by whoever releases a thread that does not run | whoever notifies it or releases it; tracers |
///
/// What is read of the last five rows may be old by the time that it is used: whoever acts upon it looks again, on the thread's CPU or
/// with the lock.
///
/// By Rust's rules a read beside a write is a data race unless both are atomic. The writes are plain ones, of an aligned field of a
/// word at most. The reads are atomic, where that takes no instruction more on a path that is measured. Plain, and one instruction
/// each as well, are: `woken` in a section on the thread's own CPU, before it waits or has a time-out, and when that has come;
/// [`unpark`](crate::thread::Thread::unpark)'s of `handle`, and of `state` with `wait`; and what [`is_misplaced`](Self::is_misplaced)
/// looks at. An atomic load is no operand of a comparison, so it would take one instruction more in each of these places.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(transparent)]
pub(crate) struct TcbRef(NonNull<Tcb>);

// SAFETY: an address, which never changes.
unsafe impl Sync for TcbRef {}

/// Gives fields that may be read outside a section by the thread's CPU, or by others with the lock.
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

/// Gives fields that others may be about to write: each is read at once, and ordered by nothing else.
macro_rules! shared {
    ($($(#[$doc:meta])* $name:ident = $field:ident: $type:ty as $atomic:ty),* $(,)?) => {$(
        $(#[$doc])*
        #[inline(always)]
        pub(crate) fn $name(self) -> $type {
            const { assert!(size_of::<$type>() == size_of::<$atomic>()) };
            let field = self.0.as_ptr().wrapping_byte_add(offset_of!(Tcb, $field));
            // SAFETY: an aligned field of a block of the table, and nobody writes half of it.
            let value = unsafe { <$atomic>::from_ptr(field.cast()) }.load(Relaxed);
            // SAFETY: what is written there has that type.
            unsafe { core::mem::transmute_copy(&value) }
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
        /// The thread's handle. The running thread's own does not change.
        handle: u32,
        /// Where a switch to it goes on.
        #[cfg(feature = "tasks")]
        resume: usize,
        /// Its own priority.
        base: Priority,
        /// Its effective priority.
        prio: Priority,
        /// Its state.
        state: u8,
        /// Whether it must not wait, as the running thread asks of itself.
        atomic: u8,
        /// What it waits for, or did last.
        wait: Wait,
        /// The queue that it waits in.
        wait_queue: *const Waiters,
        /// The priority that it stands there with.
        wait_prio: Priority,
        /// What the waker left, as it asks itself when it runs again.
        exchange: usize,
        /// Where its stack begins, which does not change while it lives.
        stack_top: usize,
        /// Where its stack ends, likewise.
        stack_bottom: usize,
    }

    shared! {
        /// The thread's CPU.
        cpu = cpu: CpuRef as AtomicPtr<()>,
        /// Its handle, where the block may be given to another thread.
        handle_now = handle: u32 as AtomicU32,
        /// Its effective priority, where it is another CPU's.
        prio_now = prio: Priority as AtomicU8,
        /// Its state, where it is another CPU's.
        state_now = state: u8 as AtomicU8,
        /// The queue that it waits in, out of which another CPU may take it.
        wait_queue_now = wait_queue: *const Waiters as AtomicPtr<Waiters>,
        /// How its wait ended, as it asks itself.
        woken = woken: Woken as AtomicU8,
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
            Wait::Queue => lock::of(self.wait_queue_now()),
            Wait::Second => lock::of(self.wait_queue_now().wrapping_sub(1)),
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
            from = const offset_of!(Tcb, preempt),
            preempt = const percpu::PREEMPT,
            current = const percpu::CURRENT,
            half = out(reg) _,
            next = in(reg) next.as_ptr(),
            options(nostack, preserves_flags),
        );
    }
}
