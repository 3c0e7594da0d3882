//! Priority inheritance: showing the kernel's tables to the scheduler's policy and carrying out its changes.

use core::sync::atomic::{AtomicU32, Ordering::Relaxed};

use takt_scheduler::pi::{PiError, PiWorld, Walk};
use takt_scheduler::{Priority, ThreadId};

use super::raw_mutex::RawMutex;
use crate::arch::interrupts;
use crate::deferred;
use crate::error::Error;
use crate::sched;
use crate::section::{self, Kernel};
use crate::thread::tcb::TcbRef;

/// The tables, inside a section.
pub(crate) struct World<'k>(&'k Kernel);

impl<'k> World<'k> {
    pub(crate) fn of(kernel: &'k Kernel) -> Self {
        Self(kernel)
    }
}

impl PiWorld for World<'_> {
    type Mutex = *const RawMutex;

    fn base(&self, tid: ThreadId) -> Priority {
        self.0.look_at(TcbRef::of(tid)).base
    }

    fn effective(&self, tid: ThreadId) -> Priority {
        self.0.look_at(TcbRef::of(tid)).prio
    }

    fn top_waiter(&self, tid: ThreadId) -> Option<Priority> {
        self.0.look_at(TcbRef::of(tid)).inherits.top()
    }

    fn blocked_on(&self, tid: ThreadId) -> Option<Self::Mutex> {
        self.0.mutex_of(TcbRef::of(tid)).map(core::ptr::from_ref)
    }

    fn owner_of(&self, mutex: Self::Mutex) -> Option<ThreadId> {
        // SAFETY: one that `blocked_on` gave, which a thread waits for and so borrows.
        unsafe { (*mutex).owner() }
    }
}

/// How many waits for mutexes have ended, wrapping; changes inside a section only.
static NR_ENDED: AtomicU32 = AtomicU32::new(0);

/// A thread no longer waits for a mutex: what was seen of a chain before may not fit to what is seen after.
#[inline(always)]
pub(crate) fn wait_ended() {
    NR_ENDED.store(nr_ended().wrapping_add(1), Relaxed);
}

/// How many waits for mutexes have ended, wrapping.
#[inline(always)]
pub(crate) fn nr_ended() -> u32 {
    NR_ENDED.load(Relaxed)
}

/// Follows a chain of owners and gives each the priority it has to have: a section for each, another where it stands in a
/// second queue, and one for the owner behind it to learn of that.
///
/// Threads of the chain may go on or end in between: each thread is looked at anew. Whoever changes the chain does its
/// own walk. With interrupts off the rest is left to a later interrupt where another is pending.
#[inline(never)]
pub(crate) fn walk(from: ThreadId) -> Result<(), Error> {
    let mut walk = Walk::new(from);
    while let Some(tid) = walk.pending() {
        let mut section = section::enter();
        let change = walk.step(&World::of(&section));
        match &change {
            Ok(Some(change)) => {
                sched::requeue(&mut section, change.tid, change.to, change.placement);
            }
            // Whoever has changed it may have been interrupted before it told the owner.
            Ok(None) => {
                tell_owner_in(&mut section, tid);
            }
            Err(_) => {}
        }
        section.leave();
        let is_changed = change?.is_some();
        // It may be over by the time that it is acted upon.
        let is_misplaced = TcbRef::of(tid).is_misplaced();
        if is_misplaced {
            core::hint::cold_path();
            sched::move_waiting(tid);
        }
        if is_misplaced || is_changed && walk.pending().is_some() {
            let waits = tell_owner(tid);
            if walk.pending().is_some() && (is_misplaced || !waits) {
                // Its mutex may have been given to another meanwhile, by where it stood, or to it, though those behind it are
                // more important: it is looked at anew.
                core::hint::cold_path();
                walk = Walk::new(tid);
            }
        }
        if let Some(next) = walk.pending()
            && !interrupts::are_enabled()
            && deferred::must_give_way()
        {
            deferred::walk_on(next);
            break;
        }
    }
    Ok(())
}

/// The running thread, which has announced its wait, has another priority than when it did: does at that priority what
/// whoever has changed it may not have come to.
#[cold]
#[inline(never)]
pub(crate) fn lend_again() {
    let me = TcbRef::current().tid();
    sched::move_waiting(me);
    tell_owner(me);
    let section = section::enter();
    let world = World::of(&section);
    let owner = world.blocked_on(me).and_then(|it| world.owner_of(it));
    section.leave_quietly();
    if let Some(owner) = owner {
        let _ = walk(owner);
    }
}

/// The owner of the mutex that a thread waits for inherits from that thread's new priority; says whether it waits for one.
#[inline(never)]
fn tell_owner(waiter: ThreadId) -> bool {
    let mut section = section::enter();
    let waits = tell_owner_in(&mut section, waiter);
    section.leave_quietly();
    waits
}

#[inline(always)]
fn tell_owner_in(kernel: &mut Kernel, waiter: ThreadId) -> bool {
    let mutex = kernel.mutex_of(TcbRef::of(waiter));
    if let Some(mutex) = mutex {
        mutex.waiter_moved(kernel);
    }
    mutex.is_some()
}

impl From<PiError> for Error {
    fn from(error: PiError) -> Self {
        match error {
            PiError::Deadlock => Self::Deadlock,
            PiError::ChainTooLong => Self::ChainTooLong,
        }
    }
}
