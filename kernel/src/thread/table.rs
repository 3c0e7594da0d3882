//! Looking at threads from outside: the thread table, what each has used of its CPU, and whose stack an address is in.
//!
//! Run times are counted while someone wants them ([`count_times`]), since each switch pays for it.

use core::sync::atomic::Ordering::Relaxed;

use takt_scheduler::ThreadId;

use super::stack::for_each_stack;
use super::tcb::{self, EXITED, RunTime, TcbRef};
use crate::arch::descriptors::GUARD;
#[cfg(feature = "tasks")]
use crate::arch::jump_label;
use crate::arch::percpu::CpuRef;
use crate::arch::proof;
use crate::arch::stop::Text;
use crate::clock::{Cycles, Instant};
use crate::config::{MAX_CPUS, MAX_THREADS};
use crate::cpu_sched::COUNTS_TIMES;
use crate::cpus::is_online;
use crate::error::Error;
use crate::other_cpu;
use crate::section::{self, Scheduled};

/// What a thread has used.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Times {
    /// How long it ran.
    pub cycles: Cycles,
    /// How often it was switched to.
    pub switches: u64,
}

/// Has the kernel count how long each thread runs and how often it is switched to, or no longer. It does not at boot, since
/// it costs each switch some twenty instructions. Counts begin at 0 each time, and are exact when this returns.
///
/// # Errors
/// Those of [`Mutex::lock`](crate::sync::Mutex::lock).
///
/// # Context
/// Threads that may block.
pub fn count_times(on: bool) -> Result<(), Error> {
    // Meanwhile no CPU is started, which would begin with what is switched.
    let text = Text::lock()?;
    if COUNTS_TIMES.load(Relaxed) != on {
        COUNTS_TIMES.store(false, Relaxed);
        listens(on);
        for cpu in 0..MAX_CPUS {
            watch(CpuRef::of(cpu), on);
        }
        if on {
            // A section for each: that is long enough.
            (0..MAX_THREADS).for_each(|id| begin_counting(TcbRef::of(ThreadId::new(id as u8))));
        }
        COUNTS_TIMES.store(on, Relaxed);
    }
    drop(text);
    Ok(())
}

/// There is one more reason, or one less, not to take the short ways of messages.
fn listens(on: bool) {
    #[cfg(feature = "tasks")]
    jump_label::listens(on);
    let _ = on;
}

/// A CPU has one round-robin thread more, or one less.
pub(super) fn watch_quanta(cpu: CpuRef, on: bool) {
    listens(on);
    watch(cpu, on);
}

/// Something is to be done at each switch of a CPU for one more reason, or for one less.
fn watch(cpu: CpuRef, on: bool) {
    if is_online(cpu.number() as usize) {
        other_cpu::call(
            || cpu,
            || {
                let mut section = section::own();
                section.cpu(cpu).watch(on);
                section.leave_quietly();
            },
        );
    }
}

fn begin_counting(thread: TcbRef) {
    on_its_cpu(thread, |section| {
        let runs = thread.runs();
        let t = section.thread(thread);
        t.switches = 0;
        t.runtime = match runs {
            true => RunTime::NONE.begun(Instant::now()),
            false => RunTime::NONE,
        };
    });
}

/// Calls `act` on the CPU that schedules a thread; none does if it never was one, or has become another CPU's meanwhile.
fn on_its_cpu<R>(thread: TcbRef, act: impl FnOnce(&mut Scheduled) -> R) -> Option<R> {
    let cpu = thread.cpu_if_any()?;
    other_cpu::call(
        || cpu,
        || {
            // With the lock, as the block may be given to another CPU's thread.
            let mut section = section::enter();
            let result = (section.look_at(thread).cpu == cpu).then(|| act(&mut section));
            section.leave_quietly();
            result
        },
    )
}

/// What a thread has used up to now, if that is counted.
pub(super) fn times_of(thread: TcbRef) -> Option<Times> {
    if !COUNTS_TIMES.load(Relaxed) {
        return None;
    }
    on_its_cpu(thread, |scheduled| {
        let t = scheduled.look_at(thread);
        let runtime = match thread.runs() {
            true => t.runtime.ended(Instant::now()),
            false => t.runtime,
        };
        Times {
            cycles: runtime.cycles(),
            switches: t.switches,
        }
    })
}

bitflags::bitflags! {
    /// What keeps a thread from running; nothing if it is ready, or runs.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub struct State: u8 {
        /// It waits for an object, a time or a notification.
        const WAITING = tcb::WAITING;
        /// It was suspended.
        const SUSPENDED = tcb::SUSPENDED;
        /// It was created and not started.
        const CREATED = tcb::CREATED;
        /// It has ended, and is kept until it is joined.
        const EXITED = tcb::EXITED;
        /// Its task's budget is used up, and the next period has not begun.
        #[cfg(feature = "tasks")]
        const THROTTLED = tcb::THROTTLED;
    }
}

/// One line of the thread table.
#[derive(Clone, Copy, Debug)]
pub struct Info {
    /// Number.
    pub id: u8,
    /// Name.
    pub name: &'static str,
    /// Effective priority.
    pub priority: u8,
    /// The same as traces show it ([`takt_scheduler::Priority::rank`]).
    pub rank: u8,
    /// CPU.
    pub cpu: u32,
    /// What keeps it from running, if something does.
    pub state: State,
    /// What it has used, if that is counted ([`count_times`]).
    pub times: Option<Times>,
}

/// Calls `f` for every thread, idle threads included.
///
/// # Context
/// Threads. Waits for each other CPU to take an interrupt.
pub fn for_each(mut f: impl FnMut(Info)) {
    for id in 0..MAX_THREADS {
        let thread = TcbRef::of(ThreadId::new(id as u8));
        let times = times_of(thread);
        let section = section::enter();
        let t = section.look_at(thread);
        let info = t.is_used().then(|| Info {
            id: id as u8,
            name: t.name_or_none(),
            priority: t.prio.raw(),
            rank: t.prio.rank(),
            cpu: t.cpu.number(),
            state: State::from_bits_truncate(t.state),
            times,
        });
        section.leave_quietly();
        if let Some(info) = info {
            f(info);
        }
    }
}

/// Calls `f` with number and name of every thread but the idle ones, whose names are known. Asks no other CPU anything, so that
/// those may stand still.
#[inline(never)]
pub(crate) fn for_each_name(mut f: impl FnMut(u8, &'static str)) {
    for id in MAX_CPUS..MAX_THREADS {
        proof::bounded!("threads that may be in the table");
        let section = section::enter();
        let t = section.look_at(TcbRef::of(ThreadId::new(id as u8)));
        let name = t.is_used().then(|| t.name_or_none());
        section.leave_quietly();
        if let Some(name) = name {
            f(id as u8, name);
        }
    }
}

/// Name of the thread whose stack lies above this guard. For fault reports: reads without a section.
pub(crate) fn name_by_guard(guard: usize) -> Option<&'static str> {
    (0..MAX_THREADS).find_map(|id| {
        // SAFETY: the machine is stopping; a torn name is not possible, since names are set before a thread runs.
        let t = unsafe { &*TcbRef::of(ThreadId::new(id as u8)).as_ptr() };
        let is_owner = if t.is_idle() {
            // Of its stack only the top is known.
            guard_below(t.stack_top) == guard
        } else {
            t.stack_bottom == guard + GUARD
        };
        (t.is_used() && t.state & EXITED == 0 && is_owner).then_some(t.name_or_none())
    })
}

/// The guard of the declared stack that ends at this address or beyond.
fn guard_below(top: usize) -> usize {
    let mut nearest = 0;
    for_each_stack(|guard| {
        if guard < top {
            nearest = nearest.max(guard);
        }
    });
    nearest
}
