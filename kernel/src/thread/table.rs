//! Looking at all threads: the thread table, and whose stack it is.

use takt_scheduler::ThreadId;

use super::for_each_stack;
use super::tcb::{EXITED, Tcb, tcb};
use crate::config::MAX_THREADS;
use crate::lock;
use crate::sched;

/// What a thread has used.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Times {
    /// Cycles spent running.
    pub cycles: u64,
    /// How often it was switched to.
    pub switches: u64,
}

/// What a thread has used up to now.
///
/// # Safety
/// Inside a section.
pub(super) unsafe fn times_of(t: &Tcb) -> Times {
    let mut cycles = t.runtime;
    // SAFETY: the caller's duty.
    if unsafe { sched::of_cpu(t.percpu) }.rq.current() == t.tid {
        cycles = cycles.wrapping_add(crate::arch::tsc::now());
    }
    Times {
        cycles,
        switches: t.switches,
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
    /// State bits: 0 ready, 1 waiting, 2 suspended, 4 created, 8 exited.
    pub state: u8,
    /// What it has used.
    pub times: Times,
}

/// Calls `f` for every thread, idle threads included.
pub fn for_each(mut f: impl FnMut(Info)) {
    for id in 0..MAX_THREADS {
        let section = lock::enter();
        // SAFETY: inside a section.
        let t = unsafe { &*tcb(ThreadId::new(id as u8)) };
        let info = t.is_used().then(|| Info {
            id: id as u8,
            name: t.name_or_none(),
            priority: t.prio.raw(),
            rank: t.prio.rank(),
            cpu: sched::cpu_of(t),
            state: t.state,
            // SAFETY: inside a section.
            times: unsafe { times_of(t) },
        });
        section.leave_quietly();
        if let Some(info) = info {
            f(info);
        }
    }
}

/// Name of the thread whose stack lies above this guard page. For fault reports: reads without a section.
pub(crate) fn name_by_guard(guard: usize) -> Option<&'static str> {
    (0..MAX_THREADS).find_map(|id| {
        // SAFETY: the machine is stopping; a torn name is not possible, since names are set before a thread runs.
        let t = unsafe { &*tcb(ThreadId::new(id as u8)) };
        let is_owner = if t.is_idle() {
            // Of its stack only the top is known.
            guard_below(t.stack_top) == guard
        } else {
            t.stack_bottom == guard + 4096
        };
        (t.is_used() && t.state & EXITED == 0 && is_owner).then_some(t.name_or_none())
    })
}

/// The guard page of the declared stack that ends at this address or beyond.
fn guard_below(top: usize) -> usize {
    let mut nearest = 0;
    for_each_stack(|guard| {
        if guard < top {
            nearest = nearest.max(guard);
        }
    });
    nearest
}
