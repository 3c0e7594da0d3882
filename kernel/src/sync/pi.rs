//! Priority inheritance: showing the kernel's tables to the scheduler's policy and carrying out its changes.
//!
//! A walk along a chain of owners is its caller's, at the caller's own priority, and goes to the chain's end: another walk
//! may have changed an owner and wait for its next step.
//!
//! A time-out of a wait for a mutex takes the boost of every owner along the chain away itself, in the timer's interrupt.
//! Left to the thread the boost would stay where an owner gives the mutex back, or the thread is lowered, suspended or kept
//! waiting, before it comes to it.
//!
//! A thread that has announced its wait stands in two queues, its run queue and the mutex's. Whoever gives it another
//! priority moves it in each, a section for each. Should it go on in between, or before the owner has learned of it, it sees
//! when it comes to wait that it was given another priority since, and does both itself ([`lend_again`]).

use core::sync::atomic::{AtomicU32, Ordering::Relaxed};

use takt_scheduler::pi::{PiError, PiWorld, Walk};
use takt_scheduler::{Priority, ThreadId};

use super::mutex_state::RawMutex;
use crate::arch::interrupts;
use crate::arch::percpu::{self, CpuRef};
use crate::arch::proof;
#[cfg(feature = "tasks")]
use crate::budget;
use crate::config::MAX_CPUS;
use crate::deferred;
use crate::error::Error;
use crate::other_cpu;
#[cfg(feature = "tasks")]
use crate::preempt::{self, PreemptGuard};
use crate::probe::{events, places};
use crate::sched;
use crate::section::{self, Any, Kernel, Scheduled, Section};
use crate::switch::{self, Handoff};
use crate::thread::tcb::{TcbRef, WAITING, Woken};

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
pub(crate) static NR_ENDED: AtomicU32 = AtomicU32::new(0);

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
/// own walk. With interrupts off the rest is left to a later interrupt where another is pending, and from another CPU's thread
/// on it is left to that CPU.
#[inline(always)]
pub(crate) fn walk(from: ThreadId) -> Result<(), Error> {
    walk_on::<{ !cfg!(feature = "tasks") }>(from, 0)
}

/// [`walk`] that has come to `from` behind so many others. Where nothing comes between two of its sections but interrupts that are
/// more important (`IN_INTERRUPT`), a thread has its priority and then the account that goes with it.
#[inline(never)]
pub(crate) fn walk_on<const IN_INTERRUPT: bool>(
    from: ThreadId,
    nr_visited: u8,
) -> Result<(), Error> {
    let mut walk = Walk::behind(nr_visited.into(), from);
    while let Some(tid) = walk.pending() {
        proof::bounded!("threads of a chain of owners that one interrupt walks along");
        let thread = TcbRef::of(tid);
        let mut section = section::enter();
        #[cfg(feature = "tasks")]
        let is_watched = budget::is_watched(&mut section);
        // Up to where it has the priority, no other thread of this CPU finds the one and not the other.
        #[cfg(feature = "tasks")]
        let (mut section, guard) = match is_watched && !IN_INTERRUPT {
            true => note_before(section, thread),
            false => (section, None),
        };
        // Inside, where a block does not become another CPU's thread's.
        if thread.is_elsewhere() {
            core::hint::cold_path();
            section.leave_quietly();
            other_cpu::walk(thread, walk.nr_visited() as u8);
            break;
        }
        let change = walk.step(&World::of(&section));
        let section = match &change {
            Ok(Some(change)) => sched::requeue(section, change.tid, change.to, change.placement),
            // Whoever has changed it may have been interrupted before it told the owner.
            Ok(None) => {
                tell_owner_in(&mut section, tid);
                section.narrow()
            }
            Err(_) => section.narrow(),
        };
        section.leave();
        #[cfg(feature = "tasks")]
        {
            drop(guard);
            if is_watched && IN_INTERRUPT {
                core::hint::cold_path();
                budget::waiters_changed(thread);
            }
        }
        let is_changed = change?.is_some();
        // It may be over by the time that it is acted upon.
        let is_misplaced = thread.is_misplaced();
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
            deferred::walk_behind(next, walk.nr_visited() as u8);
            break;
        }
    }
    Ok(())
}

/// A walk along a chain is about to give this thread a priority: it is charged to whoever lends that first. Preemption is off from there
/// on, or whoever walks could be kept from running in between, by the end of its own budget perhaps, and another walk would lend the
/// priority on without the account. Gives a section anew.
#[cfg(feature = "tasks")]
#[cold]
#[inline(never)]
fn note_before(section: Section<Any>, thread: TcbRef) -> (Section<Any>, Option<PreemptGuard>) {
    section.leave_quietly();
    let guard = preempt::disable();
    budget::waiters_changed(thread);
    (section::enter(), Some(guard))
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

/// The running thread, which has announced its wait for this mutex, lends its priority to the owner and waits, in one section.
///
/// That is done where the owner is ready, less important and stands in its run queue only. Then it waits for no mutex, so
/// that there is neither a circle nor anyone else to lend to. Otherwise nothing is done.
#[inline(always)]
pub(super) fn lend_and_wait(mutex: &RawMutex) -> Option<Handoff> {
    let (me, cpu) = (TcbRef::current(), CpuRef::this());
    let mut section = section::enter_thread();
    if let Some(owner) = lends_simply(&section, mutex, me, cpu) {
        let prio = section.look_at(me).prio;
        let o = section.thread(owner);
        let (tid, from) = (o.tid, o.prio);
        let (rq, links) = section.ready(cpu);
        if rq.leave_current_to(links, tid, from) {
            section.thread(owner).prio = prio;
            section.thread(me).state = WAITING;
            return Some(switch::blocked(section.narrow(), cpu, me));
        }
    }
    core::hint::cold_path();
    section.leave_quietly();
    None
}

/// The owner, if [`lend_and_wait`] is possible.
#[inline(always)]
fn lends_simply(kernel: &Kernel, mutex: &RawMutex, me: TcbRef, cpu: CpuRef) -> Option<TcbRef> {
    let t = kernel.look_at(me);
    if t.woken != Woken::Not || t.is_reprioritized {
        return None;
    }
    let owner = TcbRef::of(mutex.owner()?);
    let o = kernel.look_at(owner);
    let is_only_ready = o.state == 0 && o.wait_queue.is_null() && o.atomic == 0;
    let is_here = MAX_CPUS == 1 || o.cpu == cpu;
    let is_traced = crate::static_branch!(events::prio_change::ID);
    (is_only_ready && is_here && t.prio.is_more_important_than(o.prio) && !is_traced)
        .then_some(owner)
}

/// The end of a section in which the running thread `me` gave the only contended mutex that it had to `heir`, the most
/// important waiter, which is taken out of the queue: wakes it, and has the running thread lose what it inherited. A switch
/// has a section of its own.
#[inline(always)]
pub(super) fn give_way(mut section: Section<Any>, me: TcbRef, heir: TcbRef) -> Handoff {
    let cpu = CpuRef::this();
    if !gives_way_simply(&section, heir, me, cpu) {
        return give_way_in_steps(section, heir);
    }
    section.thread(heir).wait_queue = core::ptr::null();
    let mut section = section.narrow();
    let (base, tid) = (me.base(), heir.tid());
    let (rq, links) = section.ready(cpu);
    if !rq.hand_priority_to(links, tid, base) {
        return wake_and_give_way(section, heir);
    }
    section.thread(me).prio = base;
    let woken = section.thread(heir);
    woken.woken = Woken::Object;
    woken.state = 0;
    percpu::set_need_resched();
    Handoff::end_apart(section)
}

/// Whether the heir is to take the running thread's place in the run queue.
#[inline(always)]
fn gives_way_simply(kernel: &Kernel, heir: TcbRef, me: TcbRef, cpu: CpuRef) -> bool {
    let (t, woken) = (kernel.look_at(me), kernel.look_at(heir));
    let is_here = MAX_CPUS == 1 || woken.cpu == cpu;
    // One that has announced a wait stands in another queue as well; one that was suspended with interrupts off in none.
    let is_only_ready = t.state == 0 && t.wait_queue.is_null();
    let is_traced = crate::static_branch!(events::prio_change::ID)
        || crate::static_branch!(events::sched_waking::ID)
        || crate::static_branch!(places::WAKEUP);
    woken.state == WAITING
        && is_here
        && woken.prio == t.prio
        && t.prio.is_more_important_than(t.base)
        && is_only_ready
        && !is_traced
}

/// [`give_way`] in sections of their own, whatever else the running thread has.
#[inline(never)]
fn give_way_in_steps(section: Section<Any>, heir: TcbRef) -> Handoff {
    end_in_steps(sched::wake_taken(section, heir))
}

#[inline(never)]
fn wake_and_give_way(mut section: Section<Any, Scheduled>, heir: TcbRef) -> Handoff {
    sched::wake(&mut section, heir, Woken::Object);
    end_in_steps(section)
}

#[inline(always)]
fn end_in_steps(section: Section<Any, Scheduled>) -> Handoff {
    section.leave();
    end_inheritance(TcbRef::current());
    Handoff::done(Ok(()))
}

/// The running thread is as important as a waiter was that now owns the mutex, and no longer has to be.
#[inline(always)]
pub(super) fn end_inheritance(me: TcbRef) {
    if me.prio() != me.base() {
        let _ = walk(me.tid());
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

impl RawMutex {
    /// A waiter was moved in the queue to another priority. Some section later: until then the owner inherits from what
    /// was noted.
    pub(crate) fn waiter_moved(&self, kernel: &mut Kernel) {
        if let Some(owner) = self.owner() {
            self.note_top(kernel, owner);
        }
    }

    /// The only waiter is `waiter`, and the first since the mutex was contended.
    #[inline(always)]
    pub(super) fn note_first(&self, kernel: &mut Kernel, owner: ThreadId, waiter: TcbRef) {
        let top = kernel.look_at(waiter).prio;
        debug_assert!(self.top.get().is_none(), "others wait");
        self.top.set(Some(top));
        kernel.thread(TcbRef::of(owner)).inherits.add(top);
    }

    /// `waiter` has come to the others.
    #[inline(always)]
    pub(super) fn note_further(&self, kernel: &mut Kernel, owner: ThreadId, waiter: TcbRef) {
        let prio = kernel.look_at(waiter).prio;
        let noted = self.top.get();
        if noted.is_some_and(|noted| !prio.is_more_important_than(noted)) {
            return;
        }
        self.top.set(Some(prio));
        let inherits = &mut kernel.thread(TcbRef::of(owner)).inherits;
        if let Some(noted) = noted {
            inherits.remove(noted);
        }
        inherits.add(prio);
    }

    /// The most important waiter may be another one: its owner inherits from that. Gives its priority.
    #[inline(always)]
    pub(super) fn note_top(&self, kernel: &mut Kernel, owner: ThreadId) -> Option<Priority> {
        let top = kernel.waiting(&self.waiters).0.top_priority();
        let noted = self.top.replace(top);
        if noted == top {
            return top;
        }
        let inherits = &mut kernel.thread(TcbRef::of(owner)).inherits;
        if let Some(noted) = noted {
            inherits.remove(noted);
        }
        if let Some(top) = top {
            inherits.add(top);
        }
        top
    }
}

impl From<PiError> for Error {
    fn from(error: PiError) -> Self {
        match error {
            PiError::Deadlock => Self::Deadlock,
            PiError::ChainTooLong => Self::ChainTooLong,
        }
    }
}
