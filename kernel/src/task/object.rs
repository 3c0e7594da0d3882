//! A task, and what the kernel keeps of it.

use core::cell::UnsafeCell;
use core::sync::atomic::{
    AtomicBool, AtomicPtr, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering::Relaxed,
};

use spin::Once;
use takt_abi::{FAULT, MESSAGE};

use crate::arch::space::Space;
use crate::clock::{AtomicInstant, Instant};
use crate::probe::flags::{self, Event};
use crate::sync::mutex_state::RawMutex;

use super::account::{Account, NO_LIFE};
use super::fault::{Ended, Group, Pending};
use super::gate::Gate;
use super::lease::Leases;
use super::log::Log;
use super::program::Program;
use super::rate::Rate;

/// How many tasks an image can have.
pub use crate::config::MAX_TASKS;

/// How many peers a task can have.
pub const MAX_PEERS: usize = 16;

/// A task: its program, and what the kernel keeps of it. Each of its further threads has such a block as well, and a number.
pub struct Task {
    pub(super) program: Program,
    /// Of a further thread: the task's tables, and what that thread has in the FPU.
    pub(crate) space: Space,
    /// What it is started with.
    pub(super) argument: AtomicU64,
    /// Its thread's priority.
    pub(super) priority: AtomicU8,
    /// Which life it lives, or lived last, from 1 on.
    pub(crate) generation: AtomicU32,
    /// The port of its supervisor, or its own, by which it does not wait to receive when it faults.
    pub(crate) supervisor: AtomicPtr<Port>,
    /// What that is told that it has received when the task faults.
    pub(crate) fault_value: AtomicU64,
    pub(super) group: Group,
    pub(crate) handles: Handles,
    pub(crate) port: Port,
    pub(crate) gate: Gate,
    /// What its thread lends, while that waits for the reply.
    pub(super) leases: Leases,
    account: Account,
    /// How often its budget was used up.
    pub(super) nr_overruns: AtomicU64,
    /// Whether its thread's CPU looks at each switch because of it.
    pub(super) is_watching: AtomicBool,
    /// When its watchdog bites, unless it is fed before.
    pub(super) bites_at: AtomicInstant,
    pub(super) pending: Pending,
    /// Whether its thread waits for a semaphore, or is about to.
    pub(super) is_taking: AtomicBool,
    pub(super) log: UnsafeCell<Log>,
    pub(super) events: UnsafeCell<Rate>,
    pub(super) ended: UnsafeCell<Option<Ended>>,
}

// SAFETY: what it logs and emits is the task's own thread's, and so is how it ended while it lives; others read that inside a section. What has
// stopped its threads changes inside sections, on the one CPU of theirs.
unsafe impl Sync for Task {}

/// What a task and those who send to it have in common; it changes inside sections only.
#[repr(C)]
pub(crate) struct Port {
    /// The task's thread keeps it as long as it exists; those who wait for a reply wait for it.
    pub(crate) served: RawMutex,
    /// The control block of the thread.
    pub(crate) thread: AtomicUsize,
    /// The life that the task lives, 0 if it does not.
    pub(crate) life: AtomicU32,
    /// The same while it waits to receive, else 0.
    pub(crate) open: AtomicU32,
    /// The notifications that it waits for then.
    pub(crate) mask: AtomicU32,
    /// Notifications that it has not received.
    pub(crate) bits: AtomicU32,
    /// The control block of whom it owes a reply, [`GONE`] if that one does not wait any more, 0 if it owes none.
    pub(crate) caller: AtomicUsize,
}

/// In [`Port::caller`].
pub(crate) const GONE: usize = 1;

/// What a task's handles mean, by their numbers.
pub(crate) struct Handles {
    /// The port of the other task, or of the task itself where there is no handle.
    pub(crate) targets: [AtomicPtr<Port>; MAX_PEERS],
    /// What the other one is told that it has received.
    pub(crate) values: [AtomicU64; MAX_PEERS],
    /// The life of it that is meant.
    pub(super) lives: [AtomicU32; MAX_PEERS],
    /// The same where the handle allows to call, else [`NO_LIFE`].
    pub(crate) calls: [AtomicU32; MAX_PEERS],
    /// Likewise to notify.
    pub(crate) notifies: [AtomicU32; MAX_PEERS],
}

impl Task {
    /// A task of this program, which does not run.
    #[must_use]
    pub const fn new(program: Program) -> Self {
        Self {
            space: Space::new(program.rsp),
            argument: AtomicU64::new(program.argument),
            priority: AtomicU8::new(program.priority),
            program,
            generation: AtomicU32::new(1),
            supervisor: AtomicPtr::new(core::ptr::null_mut()),
            fault_value: AtomicU64::new(0),
            group: Group::new(),
            handles: Handles {
                targets: [const { AtomicPtr::new(core::ptr::null_mut()) }; MAX_PEERS],
                values: [const { AtomicU64::new(0) }; MAX_PEERS],
                lives: [const { AtomicU32::new(1) }; MAX_PEERS],
                calls: [const { AtomicU32::new(NO_LIFE) }; MAX_PEERS],
                notifies: [const { AtomicU32::new(NO_LIFE) }; MAX_PEERS],
            },
            port: Port {
                served: RawMutex::new(),
                thread: AtomicUsize::new(0),
                life: AtomicU32::new(0),
                open: AtomicU32::new(0),
                mask: AtomicU32::new(0),
                bits: AtomicU32::new(0),
                caller: AtomicUsize::new(0),
            },
            gate: Gate::new(),
            leases: Leases::new(),
            account: Account::new(),
            nr_overruns: AtomicU64::new(0),
            is_watching: AtomicBool::new(false),
            bites_at: AtomicInstant::new(Instant::ZERO),
            pending: Pending::new(),
            is_taking: AtomicBool::new(false),
            log: UnsafeCell::new(Log::new()),
            events: UnsafeCell::new(Rate::new()),
            ended: UnsafeCell::new(None),
        }
    }

    /// Has its handles name the other tasks; `own` is its number.
    fn connect(&self, own: usize, tasks: &[Self]) {
        let supervisor = self.program.supervisor.and_then(|it| tasks.get(it));
        // The short way is not for those that have a budget, nor for a task whose other threads are to be stopped first.
        let supervisor =
            supervisor.filter(|it| it.program.budget.is_none() && !self.program.has_threads);
        let port = core::ptr::from_ref(&supervisor.unwrap_or(self).port);
        self.supervisor.store(port.cast_mut(), Relaxed);
        let value = (own as u64) << 32 | u64::from(MESSAGE | FAULT);
        self.fault_value.store(value, Relaxed);
        for number in 0..MAX_PEERS {
            let peer = self.program.peers.get(number);
            let other = peer.and_then(|peer| tasks.get(peer.task)).unwrap_or(self);
            let badge = peer.map_or(0, |peer| peer.badge);
            let port = core::ptr::from_ref(&other.port).cast_mut();
            self.handles.targets[number].store(port, Relaxed);
            self.handles.values[number].store(u64::from(badge) << 32 | u64::from(MESSAGE), Relaxed);
        }
    }

    /// The task whose space that is.
    ///
    /// # Safety
    /// It is one's.
    #[inline(always)]
    pub(crate) unsafe fn of_space(space: *const Space) -> &'static Self {
        let task = space.wrapping_byte_sub(core::mem::offset_of!(Self, space));
        // SAFETY: a space is a part of its task, which is static.
        unsafe { &*task.cast() }
    }

    /// What it has of its budget, if it has one.
    #[inline(always)]
    pub(crate) fn account(&self) -> Option<&Account> {
        self.program.budget.is_some().then_some(&self.account)
    }

    /// The task whose account that is.
    pub(crate) fn of_account(account: &'static Account) -> &'static Self {
        let task =
            core::ptr::from_ref(account).wrapping_byte_sub(core::mem::offset_of!(Self, account));
        // SAFETY: an account is a part of its task, which is static.
        unsafe { &*task.cast() }
    }

    /// Its number.
    pub(super) fn number(&self) -> usize {
        (self.fault_value.load(Relaxed) >> 32) as usize
    }

    /// How often its budget was used up before its period was over, since the machine was started.
    #[must_use]
    pub fn overruns(&self) -> u64 {
        self.nr_overruns.load(Relaxed)
    }

    /// Its events, in the order of their names.
    #[must_use]
    pub fn events(&self) -> &'static [Event] {
        self.program.events
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.program.name
    }

    /// The CPU that its manifest has it run on.
    #[must_use]
    pub fn cpu(&self) -> usize {
        self.program.cpu
    }

    /// Whether it lives.
    #[inline(always)]
    #[must_use]
    pub fn is_alive(&self) -> bool {
        self.port.life.load(Relaxed) != 0
    }

    /// Which life it lives, or lived last, from 1 on.
    #[must_use]
    pub fn generation(&self) -> u32 {
        self.generation.load(Relaxed)
    }
}

static TASKS: Once<&'static [Task]> = Once::new();

/// Introduces the tasks of the image, and the events of all of them. A task's number is its place.
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
pub unsafe fn install(tasks: &'static [Task], events: &'static [Event]) {
    flags::install(events);
    for (number, task) in tasks.iter().enumerate() {
        let first = &tasks[task.program.first];
        if task.program.first == number {
            // SAFETY: no task runs yet, and the rest is the caller's duty.
            unsafe { task.program.map(&task.space) };
        } else {
            // SAFETY: no task runs yet; the first thread's tables are complete, since its number is lower.
            unsafe { task.space.share(&first.space) };
        }
        task.connect(number, tasks);
    }
    TASKS.call_once(|| tasks);
}

/// The tasks of the image.
#[must_use]
pub fn all() -> &'static [Task] {
    TASKS.get().copied().unwrap_or_default()
}
