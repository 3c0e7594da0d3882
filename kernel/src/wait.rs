//! Waiting: how a thread stops being ready, and how that ends.
//!
//! A short wait without a time-out is one section ([`block`]), or two where the next thread was preempted by an interrupt. All
//! others go in steps, with interrupts and preemption on in between, so that no stretch with interrupts off is longer than the
//! longest step:
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

use core::sync::atomic::Ordering::{Relaxed, SeqCst};

use takt_scheduler::{ThreadId, TimerId};

use crate::arch::percpu::CpuRef;
use crate::clock::Instant;
use crate::cpus::is_smp;
use crate::error::Error;
use crate::parts::MUTEXES;
use crate::sched;
use crate::section::{self, Any, Kernel, Kind, Section, Thread, Waiters};
use crate::switch::{self, Handoff};
use crate::sync::pi;
use crate::thread::tcb::{TcbRef, WAITING, Wait, Woken};
use crate::timers;

/// A deadline that never comes.
pub(crate) const FOREVER: u64 = u64::MAX;

/// The calling thread waits without a time-out, in `queue` if one is given, as the last act of a call's first half.
#[inline(always)]
pub(crate) fn block(mut section: Section<Thread>, wait: Wait, queue: Option<&Waiters>) -> Handoff {
    if let Some(waiters) = queue
        && !waiters.is_empty(&mut section)
    {
        core::hint::cold_path();
        return block_behind_others(section, waiters);
    }
    block_in(section, wait, queue)
}

/// [`block`] where others may wait. Apart, since the call that it takes would have the other way keep registers.
#[inline(never)]
pub(crate) fn block_behind_others(section: Section<Thread>, waiters: &Waiters) -> Handoff {
    block_in(section, Wait::Queue, Some(waiters))
}

#[inline(always)]
fn block_in(mut section: Section<Thread>, wait: Wait, queue: Option<&Waiters>) -> Handoff {
    let (me, cpu) = (TcbRef::current(), CpuRef::this());
    stand_in(&mut section, me, wait, queue);
    sched::unready(&mut section, cpu, me, WAITING);
    switch::blocked(section, cpu, me)
}

/// What the thread waits for. Until it does no longer it borrows the object that the queue is part of.
#[inline(always)]
fn stand_in(kernel: &mut Kernel, thread: TcbRef, wait: Wait, queue: Option<&Waiters>) {
    if let Some(waiters) = queue {
        let t = kernel.look_at(thread);
        let (tid, prio) = (t.tid, t.prio);
        let (queue, links) = kernel.waiting(waiters);
        queue.push_back(links, tid, prio);
        kernel.thread(thread).wait_prio = prio;
    }
    let t = kernel.thread(thread);
    t.wait = wait;
    t.wait_queue = queue.map_or(core::ptr::null(), core::ptr::from_ref);
}

/// The calling thread announces a wait, which [`finish`] carries out. It must come to that.
#[inline(always)]
pub(crate) fn announce(kernel: &mut Kernel, wait: Wait, queue: Option<&Waiters>) {
    let me = TcbRef::current();
    let t = kernel.thread(me);
    t.woken = Woken::Not;
    t.is_reprioritized = false;
    stand_in(kernel, me, wait, queue);
}

/// Waits in steps, of which the object's section is the first.
pub(crate) fn wait_until<K: Kind>(
    mut section: Section<K>,
    wait: Wait,
    queue: Option<&Waiters>,
    deadline: u64,
) -> Woken {
    announce(&mut section, wait, queue);
    section.leave();
    finish(deadline)
}

/// Waits in steps in an object's queue, as the end of a call's first half. `exchange` is what the waker has to know.
///
/// The second half is here and not in the caller: the way there would lie in the section that ends with the switch.
#[inline(never)]
pub(crate) fn wait_in(
    queue: &Waiters,
    exchange: usize,
    deadline: Instant,
    mut section: Section<Any>,
) -> Handoff {
    let me = TcbRef::current();
    if !sched::may_block_as(me) {
        return Handoff::stay(section, Err(Error::WrongContext));
    }
    section.thread(me).exchange = exchange;
    announce(&mut section, Wait::Queue, Some(queue));
    section.leave_quietly();
    if deadline != Instant::NEVER {
        return Handoff::done(finish(deadline.cycles()).result());
    }
    // Nobody ends it but who has what it waits for.
    Handoff::done(begin_wait().finish())
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

/// The running thread waits for its time-out alone, which is to be the end of a call's first half.
#[cfg(feature = "tasks")]
pub(crate) fn begin_sleep(deadline: u64) -> Handoff {
    let mut section = section::enter_thread();
    announce(&mut section, Wait::Sleep, None);
    section.leave_quietly();
    if deadline != FOREVER {
        arm_timeout(deadline);
    }
    begin_wait()
}

/// Not inlined, as the other steps: one instruction at least has to stand between `sti` and the next `cli`, or no
/// interrupt comes in between.
#[inline(never)]
fn arm_timeout(deadline: u64) {
    let me = TcbRef::current();
    let (cpu, id) = (me.cpu(), timeout_id(me.tid()));
    let section = section::enter_thread();
    if section.look_at(me).woken == Woken::Not {
        timers::insert_and_leave(section, cpu, id, deadline);
    } else {
        section.leave_quietly();
    }
}

#[inline(never)]
fn disarm_timeout() {
    let me = TcbRef::current();
    let mut section = section::enter_thread();
    timers::cancel(&mut section, me.cpu(), timeout_id(me.tid()));
    section.leave_quietly();
}

/// Waits, unless that is over.
#[inline(never)]
fn wait_announced() -> Woken {
    // The wait itself cannot fail.
    let _ = begin_wait().finish();
    TcbRef::current().woken()
}

/// The last step of a wait without a time-out.
#[inline(always)]
pub(crate) fn begin_wait() -> Handoff {
    let me = TcbRef::current();
    let mut section = section::enter_thread();
    let mut t = section.thread(me);
    while MUTEXES && t.is_reprioritized {
        core::hint::cold_path();
        t.is_reprioritized = false;
        section.leave_quietly();
        pi::lend_again();
        section = section::enter_thread();
        t = section.thread(me);
    }
    if t.woken == Woken::Not && *t.token.get_mut() && t.wait == Wait::Park {
        t.woken = Woken::Object;
    }
    if t.woken != Woken::Not {
        return Handoff::stay(section, Ok(()));
    }
    let cpu = CpuRef::this();
    sched::unready(&mut section, cpu, me, WAITING);
    switch::blocked(section, cpu, me)
}

/// The timer of a thread's time-outs.
#[inline(always)]
fn timeout_id(tid: ThreadId) -> TimerId {
    TimerId::new(u16::from(tid.raw()))
}

/// Takes the most important thread out of a wait queue and makes it ready; says whether there was one.
#[inline(always)]
pub(crate) fn wake_first(kernel: &mut Kernel, queue: &Waiters) -> bool {
    let Some(tid) = queue.pop(kernel) else {
        return false;
    };
    sched::wake_taken(kernel, TcbRef::of(tid));
    true
}

/// Takes a thread out of the queue that it stands in.
#[inline(always)]
pub(crate) fn leave_queue(kernel: &mut Kernel, thread: TcbRef) {
    let t = kernel.look_at(thread);
    let (tid, prio) = (t.tid, t.wait_prio);
    if let Some((queue, links)) = kernel.waits_in(thread) {
        queue.remove(links, tid, prio);
    }
    kernel.thread(thread).wait_queue = core::ptr::null();
}

impl TcbRef {
    /// The running thread forgets a notification.
    ///
    /// With several CPUs by a locked instruction: what the thread reads behind this could else be older than a
    /// notification that it forgets.
    #[inline(always)]
    pub(crate) fn forget_token(self) {
        // SAFETY: an atomic of a block of the table; it is changed here and inside sections only, each time by one instruction.
        let token = unsafe { &(*self.as_ptr()).token };
        if is_smp!() {
            core::hint::cold_path();
            token.swap(false, SeqCst);
        } else {
            token.store(false, Relaxed);
        }
    }
}
