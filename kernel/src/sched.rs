//! Who is ready: wake-ups, changes of priority, suspending, yielding.
//!
//! Everything here runs inside a section and changes run queues; [`switch`](crate::switch) carries out what that
//! makes due. Trace points: `sched_waking` when a wake-up is begun, `sched_wakeup` when the thread stands in its run queue,
//! `prio_change`.

use takt_scheduler::{Placement, Priority, Resched, ThreadId};

use crate::arch::percpu::{self, CpuRef};
use crate::cpus::is_smp;
use crate::other_cpu;
use crate::probe::{self, trace};
use crate::quantum;
use crate::section::{self, Kernel, Kind, Scheduled, Section};
use crate::thread::tcb::{RELEASED, SUSPENDED, Tcb, TcbRef, WAITING, Wait, Woken};

/// A waiting thread of this CPU becomes ready; one that has not begun to wait yet (see [`wait`](crate::wait)) will not. Its wait
/// queue, if any, no longer holds it.
#[cfg_attr(feature = "fast-paths", inline(always))]
pub(crate) fn wake(scheduled: &mut Scheduled, thread: TcbRef, woken: Woken) {
    if scheduled.thread(thread).state == WAITING {
        wake_waiting(scheduled, thread, woken);
    } else {
        wake_not_ready(scheduled, thread, woken);
    }
}

/// [`wake`] of a thread that is suspended as well, or does not wait yet. Apart: what it needs would be kept at hand for it.
#[cold]
#[inline(never)]
fn wake_not_ready(scheduled: &mut Scheduled, thread: TcbRef, woken: Woken) {
    let t = scheduled.thread(thread);
    trace!(sched_waking, t.tid.raw(), t.prio.rank(), t.cpu.number());
    t.woken = woken;
    // One that is suspended and does not wait another CPU may release at this moment, and changes the state for that.
    if t.state & WAITING != 0 {
        t.state &= !WAITING;
    }
}

/// [`wake`] of a thread that waits, and that nothing else keeps from running.
#[cfg_attr(feature = "fast-paths", inline(always))]
pub(crate) fn wake_waiting(scheduled: &mut Scheduled, thread: TcbRef, woken: Woken) {
    let t = scheduled.thread(thread);
    trace!(sched_waking, t.tid.raw(), t.prio.rank(), t.cpu.number());
    t.woken = woken;
    t.state = 0;
    enqueue(scheduled, thread);
}

/// [`wake`] of a thread of any CPU that has what it waited for, as the last that a section does with an object.
#[cfg_attr(feature = "fast-paths", inline(always))]
pub(crate) fn wake_anywhere<K: Kind>(section: Section<K>, t: TcbRef) -> Section<K, Scheduled> {
    wake_with(section, t, |_| ())
}

/// [`wake_anywhere`]; of a thread of this CPU something is changed before, with the lock.
#[cfg_attr(feature = "fast-paths", inline(always))]
fn wake_with<K: Kind>(
    mut section: Section<K>,
    t: TcbRef,
    change: impl FnOnce(&mut Tcb),
) -> Section<K, Scheduled> {
    if t.is_elsewhere() {
        core::hint::cold_path();
        return wake_elsewhere(section, t);
    }
    change(section.thread(t));
    let mut section = section.narrow();
    wake(&mut section, t, Woken::Object);
    section
}

/// [`wake_anywhere`] of another CPU's thread. That CPU is told behind the lock, which is held the shorter for it.
#[inline(never)]
fn wake_elsewhere<K: Kind>(mut section: Section<K>, thread: TcbRef) -> Section<K, Scheduled> {
    let t = section.thread(thread);
    trace!(sched_waking, t.tid.raw(), t.prio.rank(), t.cpu.number());
    t.woken = Woken::Object;
    t.leave_queue_elsewhere();
    let section = section.narrow();
    other_cpu::wake(thread);
    section
}

/// Makes a thread ready that was just taken out of its wait queue, as the last that a section does with an object.
#[cfg_attr(feature = "fast-paths", inline(always))]
pub(crate) fn wake_taken<K: Kind>(section: Section<K>, t: TcbRef) -> Section<K, Scheduled> {
    wake_with(section, t, |t| t.wait_queue = core::ptr::null())
}

/// Whether the wake-up of a thread that was just taken out of its wait queue is nothing but that: nothing else keeps it from
/// running, and no `sched_waking` is recorded.
#[cfg_attr(feature = "fast-paths", inline(always))]
pub(crate) fn is_plain_wakeup(t: &Tcb) -> bool {
    t.state == WAITING && !crate::static_branch!(probe::events::sched_waking::ID)
}

/// Ends the wait in a queue of a thread whose wake-up [is plain](is_plain_wakeup).
#[cfg_attr(feature = "fast-paths", inline(always))]
pub(crate) fn end_plain_wait(t: &mut Tcb) {
    t.wait_queue = core::ptr::null();
    t.woken = Woken::Object;
    t.state = 0;
}

/// A thread of this CPU becomes ready, if another CPU has released it or ended its wait.
pub(crate) fn complete_remote_wakeup(scheduled: &mut Scheduled, thread: TcbRef) {
    // With the lock of threads: others release them and take blocks, and the block may be another CPU's thread's by now. Whoever
    // has ended a wait for a message or for a thread's end has that lock, too, and may still be in its section.
    let is_released = scheduled.with_chains(|kernel| {
        let t = kernel.thread(thread);
        if t.cpu != CpuRef::this() {
            return false;
        }
        let before = t.state;
        if t.is_wait_over() {
            if t.wait == Wait::Park {
                t.forget_token();
            }
            t.woken = Woken::Object;
            t.state &= !WAITING;
        }
        t.state &= !RELEASED;
        before != 0 && t.state == 0
    });
    if is_released {
        enqueue(scheduled, thread);
    }
}

/// Puts a thread that has become ready into its run queue.
#[cfg_attr(feature = "fast-paths", inline(always))]
pub(crate) fn enqueue(scheduled: &mut Scheduled, t: TcbRef) {
    let (cpu, tid, prio) = (t.cpu(), t.tid(), t.prio());
    if probe::is_wakeup_recorded(scheduled.look_at(t)) {
        probe::record_wakeup(scheduled.look_at(t));
    }
    match insert(scheduled, cpu, tid, prio) {
        Inserted::First => percpu::set_need_resched(),
        Inserted::BesideWatched => quantum::quantum_needed(scheduled, t),
        Inserted::Behind => {}
    }
}

/// Where a thread that has become ready stands.
pub(crate) enum Inserted {
    /// Before the running one: a switch to it is due.
    First,
    /// Behind it, on a CPU where quanta are counted: the running one's may have to be from here on.
    BesideWatched,
    /// Behind it.
    Behind,
}

/// Puts a thread into its run queue.
#[cfg_attr(feature = "fast-paths", inline(always))]
pub(crate) fn insert(
    scheduled: &mut Scheduled,
    cpu: CpuRef,
    tid: ThreadId,
    prio: Priority,
) -> Inserted {
    let (rq, links) = scheduled.ready(cpu);
    match rq.wakeup(links, tid, prio) {
        Resched::Preempt => Inserted::First,
        Resched::Keep if scheduled.cpu(cpu).is_watched() => Inserted::BesideWatched,
        Resched::Keep => Inserted::Behind,
    }
}

/// Whether the calling context may wait: a thread with preemption and interrupts enabled, and not the idle thread.
#[cfg_attr(feature = "fast-paths", inline(always))]
pub(crate) fn may_block() -> bool {
    may_block_as(TcbRef::current())
}

/// [`may_block`], where the running thread's block is at hand.
#[cfg_attr(feature = "fast-paths", inline(always))]
pub(crate) fn may_block_as(me: TcbRef) -> bool {
    percpu::is_preemptible() && me.atomic() == 0
}

/// Gives a thread of this CPU another effective priority and moves it in the queue that it stands in, as the last that a
/// section does with objects.
///
/// One that has announced its wait and has not begun it stands in two, and is moved in its run queue only; and with several CPUs one
/// that waits for an object with another lock is not moved.
/// [`TcbRef::is_misplaced`] says so then, and [`move_waiting`] does the other; it does so itself if it goes on before that
/// ([`lend_again`](crate::sync::pi::lend_again)). The owner of a mutex that it waits for has yet to
/// learn of it as well ([`RawMutex::waiter_moved`](crate::sync::raw_mutex::RawMutex::waiter_moved)).
#[cfg_attr(feature = "fast-paths", inline(always))]
pub(crate) fn requeue<K: Kind>(
    mut section: Section<K>,
    tid: ThreadId,
    to: Priority,
    placement: Placement,
) -> Section<K, Scheduled> {
    let thread = TcbRef::of(tid);
    debug_assert!(!thread.is_elsewhere(), "another CPU's thread");
    let t = section.thread(thread);
    if t.is_idle() {
        // It stands in no queue. Whoever waits for its mutex is not ready, and it runs when no one else is.
        return section.narrow();
    }
    let from = t.prio;
    trace!(
        prio_change,
        t.word().tid(),
        t.word().prio(),
        t.word().base(),
        to.rank()
    );
    t.prio = to;
    t.is_reprioritized = true;
    if t.state == 0 {
        let mut section = section.narrow();
        requeue_ready(&mut section, thread, from, placement);
        return section;
    }
    if is_smp!() && t.wait != Wait::Mutex {
        return section.narrow();
    }
    requeue_waiting(&mut section, thread);
    section.narrow()
}

/// Moves a thread in its wait queue to where its priority has it.
#[inline(never)]
pub(crate) fn move_waiting(tid: ThreadId) {
    let thread = TcbRef::of(tid);
    let mut section = section::own().lock(|| thread.lock());
    // Outside of the walk's section it may have ended, and the block be another CPU's thread's.
    if thread.is_misplaced() && !thread.is_elsewhere() {
        requeue_waiting(&mut section, thread);
    }
    section.leave_quietly();
}

/// Moves a ready thread within its run queue.
fn requeue_ready(scheduled: &mut Scheduled, t: TcbRef, from: Priority, placement: Placement) {
    let (cpu, tid, prio) = (t.cpu(), t.tid(), t.prio());
    let (rq, links) = scheduled.ready(cpu);
    if rq.set_priority(links, tid, from, prio, placement) == Resched::Preempt {
        percpu::set_need_resched();
    } else if scheduled.cpu(cpu).is_watched() {
        quantum::quantum_needed(scheduled, t);
    }
}

/// Moves a thread within the queue it waits in, if it waits in one.
#[cfg_attr(feature = "fast-paths", inline(always))]
fn requeue_waiting(kernel: &mut Kernel, thread: TcbRef) {
    let t = kernel.thread(thread);
    let (tid, from, to) = (t.tid, t.wait_prio, t.prio);
    if let Some((queue, links)) = kernel.waits_in(thread) {
        queue.requeue(links, tid, from, to);
        kernel.thread(thread).wait_prio = to;
    }
}

/// The running thread `t` of this CPU is no longer ready, for this reason, but still runs.
#[cfg_attr(feature = "fast-paths", inline(always))]
pub(crate) fn unready(scheduled: &mut Scheduled, cpu: CpuRef, t: TcbRef, reason: u8) {
    scheduled.thread(t).state |= reason;
    let (rq, links) = scheduled.ready(cpu);
    rq.leave_current(links);
}

/// Suspends another thread of this CPU: it runs no more until resumed, whatever wakes it.
pub(crate) fn suspend_other(scheduled: &mut Scheduled, thread: TcbRef) {
    let t: &mut Tcb = scheduled.thread(thread);
    let was_ready = t.state == 0;
    t.state |= SUSPENDED;
    if !was_ready {
        return;
    }
    let (cpu, tid, prio) = (t.cpu, t.tid, t.prio);
    let (rq, links) = scheduled.ready(cpu);
    let runs = rq.current() == tid;
    rq.dequeue(links, tid, prio);
    if runs {
        percpu::set_need_resched();
    }
}
