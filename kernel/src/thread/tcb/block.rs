//! [`Tcb`]: all that the kernel knows of a thread.
//!
//! The order of the fields is part of the design: a switch touches one cache line of each thread, and some neighbours are read or
//! written as one word, which is asserted below.

use core::sync::atomic::AtomicBool;

use takt_scheduler::{PrioCounts, Priority, ThreadId};

#[cfg(feature = "tasks")]
use crate::arch::percpu;
use crate::arch::percpu::CpuRef;
use crate::arch::resume;
use crate::clock::{Cycles, Instant};
use crate::error::Error;
use crate::sync::mutex_state::RawMutex;
use crate::waiters::Waiters;

/// Waiting for an object, a time or a notification.
pub(crate) const WAITING: u8 = 1;
/// Suspended by [`suspend`](crate::thread::Thread::suspend).
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
    /// For [`unpark`](crate::thread::Thread::unpark).
    Park,
    /// In an object's first queue, or the only one.
    Queue,
    /// In an object's second queue, which stands behind the first.
    Second,
    /// For a mutex, or for the reply to a message.
    Mutex,
    /// For another thread's end.
    Join,
    /// For a message to its task.
    #[cfg(feature = "tasks")]
    Message,
}

impl Wait {
    /// Whether threads of other CPUs end such a wait, with [its lock](TcbRef::lock).
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

/// How long a thread has run. Cycles modulo 2<sup>64</sup>; while it runs, less the time at which it was switched to.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(crate) struct RunTime(u64);

impl RunTime {
    /// Never.
    pub(crate) const NONE: Self = Self(0);

    /// It runs from now on.
    #[inline(always)]
    pub(crate) fn begun(self, now: Instant) -> Self {
        Self(self.0.wrapping_sub(now.cycles()))
    }

    /// It has run up to now.
    #[inline(always)]
    pub(crate) fn ended(self, now: Instant) -> Self {
        Self(self.0.wrapping_add(now.cycles()))
    }

    /// How long that is of a thread that does not run.
    #[inline(always)]
    pub(crate) fn cycles(self) -> Cycles {
        Cycles::new(self.0)
    }
}

/// What the kernel keeps of a thread. Its [`TrapFrame`](crate::arch::frame::TrapFrame) lies right before it; those and the first cache line are all
/// that a switch touches.
#[repr(C, align(64))]
pub(crate) struct Tcb {
    /// Where the switch goes on: in `switch`, at `takt_resume_preempted` or at `takt_resume_new`.
    pub resume: usize,
    /// Stack pointer, when the thread gave up the CPU itself.
    pub rsp: usize,
    /// The thread's CPU, which is set before anything else of it is used and never changes.
    pub(crate) cpu: CpuRef,
    /// How long it has run.
    pub(crate) runtime: RunTime,
    /// The queue it waits in, or null. Another CPU that ends a wait changes this last.
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
    /// Round robin: what is left of the quantum when it was last preempted, [`Cycles::ZERO`] for a whole one.
    pub(crate) quantum_left: Cycles,
    /// Round robin: the quantum.
    pub(crate) quantum: Cycles,
    /// What `gs` begins at while the kernel runs on the thread's CPU.
    #[cfg(feature = "tasks")]
    pub(crate) gs: usize,
    /// The address space of the task that the thread belongs to, or null.
    #[cfg(feature = "tasks")]
    pub(crate) space: *const crate::arch::space::Space,
    /// While it waits to be served: the account that it would be charged to, which it lends (see `budget`).
    #[cfg(feature = "tasks")]
    pub(crate) account: Option<&'static crate::task::account::Account>,
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
        self.runtime = RunTime::NONE;
        self.switches = 0;
        *self.token.get_mut() = false;
        self.joiner = None;
        // A mutex that the thread did not give back stays owned, but no one who uses this block next inherits from it.
        self.held = core::ptr::null();
        self.inherits = PrioCounts::new();
        self.round_robin = 0;
        self.quantum = Cycles::ZERO;
        self.quantum_left = Cycles::ZERO;
        #[cfg(feature = "tasks")]
        {
            self.space = core::ptr::null();
            self.account = None;
        }
    }

    /// What every thread begins with.
    pub(super) fn prepare(&mut self) {
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
