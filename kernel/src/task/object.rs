//! A task, and what the kernel keeps of it.

use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering::Relaxed};

use spin::Once;
use takt_abi::{MAX_LOG, WORDS};

use crate::arch::space::Space;
use crate::sync::EventFlags;
use crate::sync::mutex_state::RawMutex;

use super::fault::Ended;
use super::program::Program;

/// How many tasks an image can have.
pub const MAX_TASKS: usize = 64;

/// How many peers a task can have.
pub const MAX_PEERS: usize = 16;

/// A task: its program, and what the kernel keeps of it.
pub struct Task {
    pub(super) program: Program,
    pub(super) space: Space,
    /// What it is started with.
    pub(super) argument: AtomicU64,
    /// Its thread's priority.
    pub(super) priority: AtomicU8,
    /// Which life it lives, from 1 on.
    pub(super) generation: AtomicU32,
    /// Whether it lives.
    pub(super) is_alive: AtomicBool,
    /// Its thread.
    pub(super) tid: AtomicU8,
    /// The life of each peer that its handle means.
    pub(super) peers: [AtomicU32; MAX_PEERS],
    /// Whoever has it may send a message. Those who wait for it lend their priority to that one.
    pub(super) door: RawMutex,
    /// The task's own while it lives: the one whose message it has waits for it, and so lends it its priority.
    pub(super) served: RawMutex,
    /// What waits to be received: notifications, and whether there is a message.
    pub(super) arrived: EventFlags,
    /// Whether it owes a reply.
    pub(super) owes: AtomicBool,
    pub(super) shared: UnsafeCell<Shared>,
    pub(super) log: UnsafeCell<[u8; MAX_LOG]>,
    pub(super) ended: UnsafeCell<Option<Ended>>,
}

// SAFETY: see the invariants; the text for the log is the task's own thread's, and so is how it ended until the thread has.
unsafe impl Sync for Task {}

/// What caller and task have in common.
pub(super) struct Shared {
    pub(super) words: [u64; WORDS],
    /// Of the sender's handle.
    pub(super) badge: u32,
    /// Whether it is about a fault.
    pub(super) is_fault: bool,
    /// The life that it is meant for.
    pub(super) generation: u32,
    /// How the call ends.
    pub(super) result: Result<(), takt_abi::Error>,
}

impl Task {
    /// A task of this program, which does not run.
    #[must_use]
    pub const fn new(program: Program) -> Self {
        Self {
            program,
            space: Space::new(),
            argument: AtomicU64::new(0),
            priority: AtomicU8::new(0),
            generation: AtomicU32::new(1),
            is_alive: AtomicBool::new(false),
            tid: AtomicU8::new(0),
            peers: [const { AtomicU32::new(1) }; MAX_PEERS],
            door: RawMutex::new(),
            served: RawMutex::new(),
            arrived: EventFlags::new(0),
            owes: AtomicBool::new(false),
            shared: UnsafeCell::new(Shared {
                words: [0; WORDS],
                badge: 0,
                is_fault: false,
                generation: 0,
                result: Ok(()),
            }),
            log: UnsafeCell::new([0; MAX_LOG]),
            ended: UnsafeCell::new(None),
        }
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.program.name
    }

    /// Which life it lives, or lived last, from 1 on.
    #[must_use]
    pub fn generation(&self) -> u32 {
        self.generation.load(Relaxed)
    }
}

static TASKS: Once<&'static [Task]> = Once::new();

/// Introduces the tasks of the image. A task's number is its place.
///
/// # Safety
/// Once, after [`boot::memory`](crate::boot::memory). The programs are what xtask packed: each one's memory is its own, no two
/// lie in the same region, and their kernel stacks are theirs.
// The compiler fills tables by more SSE registers than interrupts keep elsewhere (see `sse`).
#[inline(never)]
#[unsafe(link_section = ".text.sse.task_install")]
#[cfg_attr(
    feature = "function",
    patchable_function_entry(prefix_nops = 0, entry_nops = 0)
)]
pub unsafe fn install(tasks: &'static [Task]) {
    for task in tasks {
        // SAFETY: no task runs yet, and the rest is the caller's duty.
        unsafe { task.program.map(&task.space) };
    }
    TASKS.call_once(|| tasks);
}

/// The tasks of the image.
#[must_use]
pub fn all() -> &'static [Task] {
    TASKS.get().copied().unwrap_or_default()
}
