//! Waiting: how a thread stops being ready, and how that ends.
//!
//! A wait without a time-out is one section ([`block`], [`end_with_block`]), or two at a semaphore where the next thread
//! was preempted by an interrupt. All others go in steps, with interrupts and preemption on in between, so that no stretch
//! with interrupts off is longer than the longest step:
//! 1. [`announce`]: the thread says what it waits for and stands in the object's queue. It is still ready and runs.
//! 2. What else has to be done before it waits: unlocking a mutex, lending its priority.
//! 3. [`finish`]: arms the time-out, waits, disarms the time-out.
//!
//! Whoever ends a wait does the same whether it has begun or not: the thread is taken out of the queue and its
//! [`Tcb::woken`] says how. One that has not begun to wait then does not.
//!
//! # Invariants
//! * `woken` is [`Woken::Not`] from the announcement until the wait is over, at the latest when [`finish`] returns; then
//!   whoever comes later, the time-out above all, changes nothing. So a thread disarms its time-out itself, and not who
//!   wakes it.
//! * [`WAITING`] is set iff the thread was taken out of its run queue because of the wait.

use takt_scheduler::{PrioQueue, ThreadId, TimerId};

use crate::arch::percpu;
use crate::handoff::{self, Handoff};
use crate::lock::{self, Section};
use crate::sched::{self, of_cpu};
use crate::sync::pi;
use crate::thread::tcb::{Tcb, WAITING, Wait, Woken, tcb};
use crate::time;

/// A deadline that never comes.
pub(crate) const FOREVER: u64 = u64::MAX;

/// The calling thread waits without a time-out, in `queue` if one is given.
#[inline(always)]
pub(crate) fn block(section: &mut Section, wait: Wait, queue: *mut PrioQueue) {
    // SAFETY: the running thread's own block, inside a section.
    let t = unsafe { &mut *percpu::current() };
    stand_in(section, t, wait, queue);
    begin(section, t);
    sched::switch_from_waiting(section, t);
}

/// [`block`] as the last act of a call's first half.
#[inline(always)]
pub(crate) fn end_with_block(mut section: Section, wait: Wait, queue: *mut PrioQueue) -> Handoff {
    let prev = percpu::current();
    // SAFETY: the running thread's own block, inside a section.
    let t = unsafe { &mut *prev };
    let cpu = t.percpu;
    begin(&mut section, t);
    stand_in(&mut section, t, wait, queue);
    // SAFETY: this CPU's own, inside a section.
    let next = unsafe { of_cpu(cpu) }.rq.pick_other();
    handoff::end_blocked(section, cpu, prev, tcb(next))
}

/// What the thread waits for.
#[inline(always)]
fn stand_in(section: &mut Section, t: &mut Tcb, wait: Wait, queue: *mut PrioQueue) {
    t.wait = wait;
    t.wait_queue = queue;
    if !queue.is_null() {
        t.wait_prio = t.prio;
        // SAFETY: the object outlives the wait, since the waiting thread borrows it; inside a section.
        unsafe { (*queue).push_back(section.wait_links(), t.tid, t.prio) };
    }
}

/// The running thread `t` is no longer ready, but still runs.
#[inline(always)]
fn begin(section: &mut Section, t: &mut Tcb) {
    // SAFETY: this CPU's own, inside a section.
    unsafe { of_cpu(t.percpu) }
        .rq
        .dequeue(section.ready_links(), t.tid, t.prio);
    t.state |= WAITING;
}

/// The calling thread announces a wait, which [`finish`] carries out. It must come to that.
#[inline(always)]
pub(crate) fn announce(section: &mut Section, wait: Wait, queue: *mut PrioQueue) {
    // SAFETY: the running thread's own block, inside a section.
    let t = unsafe { &mut *percpu::current() };
    t.woken = Woken::Not;
    t.lends_anew = false;
    stand_in(section, t, wait, queue);
}

/// Waits in steps, of which the object's section is the first.
pub(crate) fn wait_until(
    mut section: Section,
    wait: Wait,
    queue: *mut PrioQueue,
    deadline: u64,
) -> Woken {
    announce(&mut section, wait, queue);
    section.leave();
    finish(deadline)
}

/// Waits as announced, until `deadline` at most; returns how the wait ended.
///
/// The time-out takes the thread out of the queue; what else the object keeps is for the caller to put right.
#[inline(never)]
pub(crate) fn finish(deadline: u64) -> Woken {
    if deadline == FOREVER {
        return wait_announced();
    }
    arm_timeout(deadline);
    let woken = wait_announced();
    if woken == Woken::Object {
        disarm_timeout();
    }
    woken
}

/// Not inlined, as the other steps: one instruction at least has to stand between `sti` and the next `cli`, or no
/// interrupt comes in between.
#[inline(never)]
fn arm_timeout(deadline: u64) {
    let t = percpu::current();
    // SAFETY: the running thread's own block.
    let own = unsafe { &*t };
    // These two never change.
    let (cpu, id) = (own.percpu, timeout_id(own.tid));
    let section = lock::enter_thread();
    // SAFETY: as above, inside a section.
    if unsafe { (*t).woken } == Woken::Not {
        time::insert_and_leave(section, cpu, id, deadline);
    } else {
        section.leave_quietly();
    }
}

#[inline(never)]
fn disarm_timeout() {
    let section = lock::enter_thread();
    // SAFETY: the running thread's own block, inside a section.
    let t = unsafe { &*percpu::current() };
    time::cancel(t.percpu, timeout_id(t.tid));
    section.leave_quietly();
}

/// Waits, unless that is over.
#[inline(never)]
fn wait_announced() -> Woken {
    let mut section = lock::enter_thread();
    // SAFETY: the running thread's own block, inside a section.
    let mut t = unsafe { &mut *percpu::current() };
    while t.lends_anew {
        core::hint::cold_path();
        t.lends_anew = false;
        section.leave_quietly();
        pi::lend_anew();
        section = lock::enter_thread();
        // SAFETY: as above.
        t = unsafe { &mut *percpu::current() };
    }
    if t.woken == Woken::Not && t.token && t.wait == Wait::Park {
        t.woken = Woken::Object;
    }
    if t.woken == Woken::Not {
        begin(&mut section, t);
        sched::switch_from_waiting_in_short(&mut section, t);
    }
    // SAFETY: the running thread's own block. Not by `t`: the waker wrote there meanwhile.
    let woken = unsafe { (*percpu::current()).woken };
    section.leave_quietly();
    woken
}

/// The timer of a thread's time-outs.
#[inline(always)]
fn timeout_id(tid: ThreadId) -> TimerId {
    TimerId::new(u16::from(tid.raw()))
}

/// Takes the most important thread out of a wait queue and makes it ready.
#[inline(always)]
pub(crate) fn wake_first(section: &mut Section, queue: &mut PrioQueue) -> Option<ThreadId> {
    let (tid, _) = queue.pop(section.wait_links())?;
    wake_taken(section, tid);
    Some(tid)
}

/// Makes a thread ready that was just taken out of its wait queue.
#[inline(always)]
pub(crate) fn wake_taken(section: &mut Section, tid: ThreadId) {
    // SAFETY: inside a section.
    wake_taken_of(section, unsafe { &mut *tcb(tid) });
}

/// [`wake_taken`], where the thread's block is at hand.
#[inline(always)]
pub(crate) fn wake_taken_of(section: &mut Section, t: &mut Tcb) {
    t.wait_queue = core::ptr::null_mut();
    sched::wake(section, t, Woken::Object);
}

/// Takes a thread out of the queue that it stands in.
#[inline(always)]
pub(crate) fn leave_queue(section: &mut Section, t: &mut Tcb) {
    // SAFETY: the thread stands in that queue, and the object outlives its wait.
    unsafe { (*t.wait_queue).remove(section.wait_links(), t.tid, t.wait_prio) };
    t.wait_queue = core::ptr::null_mut();
}

/// A thread's time-out has come.
#[inline(always)]
pub(crate) fn timed_out(section: &mut Section, tid: ThreadId) {
    // SAFETY: inside a section.
    let t = unsafe { &mut *tcb(tid) };
    if t.woken != Woken::Not {
        // It was woken and has not come to disarm it.
        return;
    }
    if !t.wait_queue.is_null() {
        leave_queue(section, t);
        if !t.blocked_on.is_null() {
            return timed_out_of_mutex(section, t);
        }
    }
    sched::wake(section, t, Woken::TimedOut);
}

/// The rest of [`timed_out`] of a thread that has waited for a mutex. What the owners along the chain have inherited through
/// it is taken back by this interrupt and not by the thread, which may not run for long.
#[cold]
#[inline(never)]
fn timed_out_of_mutex(section: &mut Section, t: &mut Tcb) {
    // SAFETY: a thread that waits for a mutex borrows it.
    let mutex = unsafe { &*t.blocked_on };
    let owner = mutex.waiter_gone(section, t);
    sched::wake(section, t, Woken::TimedOut);
    if let Some(owner) = owner {
        let _ = pi::walk(owner);
    }
}
