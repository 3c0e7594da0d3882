//! The thread control block.

use core::cell::UnsafeCell;

use takt_scheduler::{PrioQueue, Priority, ThreadId};

use crate::arch::frame::TrapFrame;
use crate::arch::percpu::PerCpu;
use crate::config::{MAX_THREADS, RR_QUANTUM_NS};
use crate::sync::mutex::RawMutex;

/// Waiting for an object, a time or a notification.
pub(crate) const WAITING: u8 = 1;
/// Suspended by [`suspend`](super::Thread::suspend).
pub(crate) const SUSPENDED: u8 = 2;
/// Created and not started.
pub(crate) const CREATED: u8 = 4;
/// Ended; kept until joined.
pub(crate) const EXITED: u8 = 8;
/// The block is free.
pub(crate) const FREE: u8 = 16;

/// What a waiting thread waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
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
}

/// How a wait ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(crate) enum Woken {
    /// By what it waited for.
    Object,
    /// By its time-out.
    TimedOut,
}

/// What the kernel keeps of a thread. The first half kilobyte is all that a switch touches.
#[repr(C, align(64))]
pub struct Tcb {
    /// The registers, when an interrupt preempted the thread.
    pub frame: TrapFrame,
    /// Where the switch goes on: in `switch`, at `takt_resume_preempted` or at `takt_resume_new`.
    pub resume: usize,
    /// Stack pointer, when the thread gave up the CPU itself.
    pub rsp: usize,
    /// The block of the thread's CPU.
    pub(crate) percpu: *mut PerCpu,
    /// Time spent running, in cycles.
    pub(crate) runtime: u64,
    /// How often the thread was switched to.
    pub(crate) switches: u64,
    /// The queue it waits in, or null.
    pub(crate) wait_queue: *mut PrioQueue,
    pub(crate) tid: ThreadId,
    /// Effective priority: the one it is queued with.
    pub(crate) prio: Priority,
    /// Own priority.
    pub(crate) base: Priority,
    /// 0 FIFO, 1 round robin.
    pub(crate) round_robin: u8,
    /// Bits; 0 is ready, and then it stands in its run queue.
    pub(crate) state: u8,
    pub(crate) wait: Wait,
    pub(crate) woken: Woken,
    /// A notification came while it did not wait for one.
    pub(crate) token: bool,
    /// The wait has a time-out.
    pub(crate) has_timeout: bool,

    // What follows is for creation, waiting and the end.
    /// A word that the waker and the waiting thread exchange; its meaning is the object's.
    pub(crate) exchange: usize,
    /// Second such word.
    pub(crate) exchange2: usize,
    /// The mutex it waits for, or null.
    pub(crate) blocked_on: *const RawMutex,
    /// First of the contended mutexes it holds, linked through them.
    pub(crate) held: *const RawMutex,
    /// Who waits for its end.
    pub(crate) joiner: Option<ThreadId>,
    pub(crate) name: &'static str,
    pub(crate) stack_bottom: usize,
    pub(crate) stack_size: usize,
    pub(crate) stack_in_use: *const core::sync::atomic::AtomicBool,
    /// Rises with each use of the block, so that old handles are noticed.
    pub(crate) generation: u32,
    pub(crate) exit_code: usize,
    /// Round robin: cycles left of the quantum when it was last preempted, 0 for a whole one.
    pub(crate) quantum_left: u64,
    /// Round robin: the quantum in cycles.
    pub(crate) quantum: u64,
}

impl Tcb {
    const fn new() -> Self {
        Self {
            frame: TrapFrame::ZERO,
            resume: 0,
            rsp: 0,
            percpu: core::ptr::null_mut(),
            runtime: 0,
            switches: 0,
            wait_queue: core::ptr::null_mut(),
            tid: ThreadId::new(0),
            prio: Priority::MIN,
            base: Priority::MIN,
            round_robin: 0,
            state: FREE,
            wait: Wait::Sleep,
            woken: Woken::Object,
            token: false,
            has_timeout: false,
            exchange: 0,
            exchange2: 0,
            blocked_on: core::ptr::null(),
            held: core::ptr::null(),
            joiner: None,
            name: "",
            stack_bottom: 0,
            stack_size: 0,
            stack_in_use: core::ptr::null(),
            generation: 0,
            exit_code: 0,
            quantum_left: 0,
            quantum: RR_QUANTUM_NS,
        }
    }
}

#[repr(transparent)]
struct Table(UnsafeCell<[Tcb; MAX_THREADS]>);

// SAFETY: control blocks change inside kernel sections only, or by the thread's own CPU at a switch.
unsafe impl Sync for Table {}

static TABLE: Table = Table(UnsafeCell::new([const { Tcb::new() }; MAX_THREADS]));

/// The control block of a thread id.
#[inline(always)]
pub(crate) fn tcb(tid: ThreadId) -> *mut Tcb {
    // SAFETY: masked to the table's size, which is a power of two.
    unsafe {
        TABLE
            .0
            .get()
            .cast::<Tcb>()
            .add(tid.index() & (MAX_THREADS - 1))
    }
}
