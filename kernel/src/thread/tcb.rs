//! The thread control block.

use core::cell::UnsafeCell;
use core::mem::MaybeUninit;
use core::sync::atomic::AtomicBool;

use core::ptr::NonNull;

use takt_scheduler::{PrioCounts, Priority, ThreadId};

use crate::arch::frame::TrapFrame;
use crate::arch::percpu::{self, CpuRef};
use crate::arch::proof;
use crate::arch::resume;
use crate::config::{MAX_CPUS, MAX_THREADS};
use crate::cpu_sched::CpuSched;
use crate::error::Error;
use crate::sync::mutex_state::RawMutex;
use crate::waiters::Waiters;

/// Waiting for an object, a time or a notification.
pub(crate) const WAITING: u8 = 1;
/// Suspended by [`suspend`](super::Thread::suspend).
pub(crate) const SUSPENDED: u8 = 2;
/// Created and not started.
pub(crate) const CREATED: u8 = 4;
/// Ended; kept until joined.
pub(crate) const EXITED: u8 = 8;
/// Started or resumed by another CPU, of which its own has yet to learn.
pub(crate) const RELEASED: u8 = 16;
/// Its task's budget is used up, and the next period has not begun.
#[cfg(feature = "tasks")]
pub(crate) const THROTTLED: u8 = 32;

/// What [`Tcb::woken`], [`Tcb::state`], [`Tcb::wait`] and [`Tcb::round_robin`] are as one word in a FIFO thread that waits so.
#[cfg(feature = "tasks")]
pub(crate) const fn waiting(wait: Wait) -> u32 {
    Woken::Not as u32 | (WAITING as u32) << 8 | (wait as u32) << 16
}

/// The same in one that has announced that it will.
#[cfg(feature = "tasks")]
pub(crate) const fn announced(wait: Wait) -> u32 {
    Woken::Not as u32 | (wait as u32) << 16
}

/// The same in one that was woken by what it waited for.
#[cfg(feature = "tasks")]
pub(crate) const READY: u32 = Woken::Object as u32;

/// In [`Tcb::handle`]: the block is in use.
pub(crate) const IN_USE: u32 = 1 << 8;
/// The bits of [`Tcb::handle`].
pub(crate) const HANDLE: u32 = u32::MAX >> 1;

/// In [`Tcb::atomic`]: an idle thread's.
pub(crate) const NEVER_WAITS: u8 = 1 << 7;
/// In [`Tcb::atomic`]: how many interrupt guards the thread has.
pub(crate) const GUARDS: u8 = NEVER_WAITS - 1;

/// What a waiting thread waits for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[repr(u8)]
pub(crate) enum Wait {
    /// Only for its time-out.
    Sleep,
    /// For [`unpark`](super::Thread::unpark).
    Park,
    /// In an object's wait queue.
    Queue,
    /// For another thread's end.
    Join,
    /// For a message to its task.
    #[cfg(feature = "tasks")]
    Message,
}

impl Wait {
    /// Whether threads of other CPUs end such a wait, with the kernel lock.
    #[inline(always)]
    pub(crate) fn is_shared(self) -> bool {
        self >= Self::Queue
    }
}

/// How a wait ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(crate) enum Woken {
    /// By what it waited for.
    Object,
    /// It has not: the thread waits, or has announced that it will.
    Not,
    /// By its time-out.
    TimedOut,
}

impl Woken {
    /// The result of a wait.
    pub(crate) fn result(self) -> Result<(), Error> {
        match self {
            Self::TimedOut => Err(Error::TimedOut),
            Self::Object | Self::Not => Ok(()),
        }
    }
}

/// What the kernel keeps of a thread. Its [`TrapFrame`] lies right before it; those and the first cache line are all
/// that a switch touches.
#[repr(C, align(64))]
pub(crate) struct Tcb {
    /// Where the switch goes on: in `switch`, at `takt_resume_preempted` or at `takt_resume_new`.
    pub resume: usize,
    /// Stack pointer, when the thread gave up the CPU itself.
    pub rsp: usize,
    /// The thread's CPU, which is set before anything else of it is used and never changes.
    pub(crate) cpu: CpuRef,
    /// Time spent running, in cycles; while the thread runs, less the time at which it was switched to (wrapping).
    pub(crate) runtime: u64,
    /// The queue it waits in, or null.
    pub(crate) wait_queue: *const Waiters,
    /// What names the thread in handles and in the mutexes that it holds: its id, and above it how often the block was
    /// taken and given back, so that old ones are noticed; it comes back after four million threads with the same id.
    /// [`IN_USE`] is the lowest bit of that count; bit 31 stays 0.
    pub(crate) handle: u32,
    /// Control and status of the SSE unit, while the thread does not run.
    pub mxcsr: u32,
    /// The preempt count that a thread is switched to with, and its id: the upper half of the context word, which a
    /// switch copies as one.
    pub preempt: u8,
    pub(crate) tid: ThreadId,
    /// Effective priority: the one it stands in its run queue with.
    pub(crate) prio: Priority,
    /// Own priority.
    pub(crate) base: Priority,
    pub(crate) woken: Woken,
    /// Bits; 0 is ready, and then it stands in its run queue.
    pub(crate) state: u8,
    pub(crate) wait: Wait,
    /// 0 FIFO, 1 round robin.
    pub(crate) round_robin: u8,
    /// A notification came while it did not wait for one.
    pub(crate) token: AtomicBool,
    /// Not 0 where the thread must not wait although preemption is enabled: [`GUARDS`] and [`NEVER_WAITS`].
    pub(crate) atomic: u8,

    // What follows is for creation, waiting and the end, and for those who count.
    /// How often the thread was switched to. Not beside `runtime`: the compiler would change both by one SSE
    /// instruction and six more around it.
    pub(crate) switches: u64,
    /// A word that the waker and the waiting thread exchange; its meaning is the object's. The entry of a thread that
    /// has not run yet.
    pub exchange: usize,
    /// Second such word, or the entry's argument.
    pub exchange2: usize,
    /// The mutex it waits for, or null.
    pub(crate) blocked_on: *const RawMutex,
    /// First of the contended mutexes it holds, linked through them.
    pub(crate) held: *const RawMutex,
    /// The priority of the most important waiter of each of those.
    pub(crate) inherits: PrioCounts,
    /// The priority that it stands in its wait queue with: for a moment not the effective one, see
    /// [`sched::requeue`](crate::sched::requeue).
    pub(crate) wait_prio: Priority,
    /// Since it announced its wait, it was given another priority: whoever did so may have to let it go on before the owner
    /// of its mutex has that. (Also where it is the former one again: the owner may have seen the one in between.)
    pub(crate) is_reprioritized: bool,
    /// Who waits for its end.
    pub(crate) joiner: Option<ThreadId>,
    pub(crate) name: Option<&'static str>,
    pub(crate) stack_bottom: usize,
    /// Where the stack begins; an idle thread begins anew there, since its `rsp` changes with each switch that it makes
    /// itself.
    pub(crate) stack_top: usize,
    pub(crate) exit_code: usize,
    /// Round robin: cycles left of the quantum when it was last preempted, 0 for a whole one.
    pub(crate) quantum_left: u64,
    /// Round robin: the quantum in cycles.
    pub(crate) quantum: u64,
    /// What `gs` begins at while the kernel runs on the thread's CPU.
    #[cfg(feature = "tasks")]
    pub(crate) gs: usize,
    /// The address space of the task that the thread belongs to, or null.
    #[cfg(feature = "tasks")]
    pub(crate) space: *const crate::arch::space::Space,
    /// The account that it was charged to when it ran last, and the number of the loan that it had that by.
    #[cfg(feature = "tasks")]
    pub(crate) account: Option<&'static crate::task::account::Account>,
    #[cfg(feature = "tasks")]
    pub(crate) loan: u32,
}

/// Where [`Tcb::gs`] and [`Tcb::space`] are.
#[cfg(feature = "tasks")]
pub(crate) const GS: usize = core::mem::offset_of!(Tcb, gs);
#[cfg(feature = "tasks")]
pub(crate) const SPACE: usize = core::mem::offset_of!(Tcb, space);
#[cfg(not(feature = "tasks"))]
pub(crate) const GS: usize = 0;

impl Tcb {
    /// Gives it its CPU.
    #[inline(always)]
    pub(crate) fn set_cpu(&mut self, cpu: CpuRef) {
        self.cpu = cpu;
        #[cfg(feature = "tasks")]
        {
            self.gs = percpu::gs_of(cpu);
        }
    }

    /// Whether a thread uses the block.
    pub(crate) fn is_used(&self) -> bool {
        self.handle & IN_USE != 0
    }

    /// The block, which was free, is taken.
    #[inline(always)]
    pub(crate) fn take(&mut self) {
        self.handle |= IN_USE;
    }

    /// Gives it both priorities, by one store.
    #[inline(always)]
    pub(crate) fn set_priorities(&mut self, both: [Priority; 2]) {
        // SAFETY: two bytes of the block, as asserted below.
        unsafe {
            (&raw mut self.prio)
                .cast::<[Priority; 2]>()
                .write_unaligned(both);
        }
    }

    /// Whether it is an idle thread's.
    pub(crate) fn is_idle(&self) -> bool {
        self.atomic & NEVER_WAITS != 0
    }

    /// Whether it waits for a notification, and nothing else keeps it from running. One comparison.
    #[inline(always)]
    pub(crate) fn is_parked(&self) -> bool {
        const PARKED: u16 = WAITING as u16 | (Wait::Park as u16) << 8;
        // SAFETY: two bytes of the block, as asserted below.
        let state = unsafe { (&raw const self.state).cast::<u16>().read_unaligned() };
        state == PARKED
    }

    /// What a record says of a thread, by one load.
    #[inline(always)]
    pub(crate) fn word(&self) -> ThreadWord {
        // SAFETY: an aligned word of four bytes in the block, as asserted below.
        ThreadWord(unsafe { (&raw const self.preempt).cast::<u32>().read() })
    }

    /// Gives the block back. A free one has what its next thread begins with: zeros, and what is the same for all.
    pub(crate) fn give_back(&mut self) {
        self.handle = self.handle.wrapping_add(IN_USE) & HANDLE;
        self.prepare();
        self.runtime = 0;
        self.switches = 0;
        *self.token.get_mut() = false;
        self.joiner = None;
        // A mutex that the thread did not give back stays owned, but no one who uses this block next inherits from it.
        self.held = core::ptr::null();
        self.inherits = PrioCounts::new();
        self.round_robin = 0;
        self.quantum = 0;
        self.quantum_left = 0;
        #[cfg(feature = "tasks")]
        {
            self.space = core::ptr::null();
            self.account = None;
        }
    }

    /// What every thread begins with.
    fn prepare(&mut self) {
        self.state = CREATED;
        self.resume = resume::resume_new();
        self.mxcsr = MXCSR;
    }

    /// The thread's name, empty for a free block.
    pub(crate) fn name_or_none(&self) -> &'static str {
        self.name.unwrap_or("")
    }
}

const _: () = assert!(
    core::mem::offset_of!(Tcb, tid) == core::mem::offset_of!(Tcb, preempt) + 1,
    "a switch reads both at once"
);

const _: () = assert!(
    core::mem::offset_of!(Tcb, wait) == core::mem::offset_of!(Tcb, state) + 1,
    "both are compared at once"
);

const _: () = assert!(
    core::mem::offset_of!(Tcb, woken).is_multiple_of(4)
        && core::mem::offset_of!(Tcb, state) == core::mem::offset_of!(Tcb, woken) + 1
        && core::mem::offset_of!(Tcb, round_robin) == core::mem::offset_of!(Tcb, wait) + 1,
    "the fast path of messages writes all four at once"
);

const _: () = assert!(
    core::mem::offset_of!(Tcb, preempt).is_multiple_of(4)
        && core::mem::offset_of!(Tcb, prio) == core::mem::offset_of!(Tcb, preempt) + 2
        && core::mem::offset_of!(Tcb, base) == core::mem::offset_of!(Tcb, preempt) + 3,
    "a record has several of these from one word"
);

/// The word of a control block that has the thread's id and its priorities. Classes of events have them in the same
/// order, so that one instruction takes several.
#[derive(Clone, Copy)]
pub(crate) struct ThreadWord(u32);

impl ThreadWord {
    #[inline(always)]
    pub(crate) fn tid(self) -> u8 {
        (self.0 >> 8) as u8
    }

    /// The rank of the effective priority.
    #[inline(always)]
    pub(crate) fn prio(self) -> u8 {
        (self.0 >> 16) as u8
    }

    /// The rank of the thread's own priority.
    #[inline(always)]
    pub(crate) fn base(self) -> u8 {
        (self.0 >> 24) as u8
    }
}

/// What MXCSR is at a thread's beginning: all floating-point exceptions masked, as the ABI wants.
pub(crate) const MXCSR: u32 = 0x1f80;

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
