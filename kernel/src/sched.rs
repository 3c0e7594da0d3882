//! Who is ready: wake-ups, changes of priority, suspending, yielding.
//!
//! Everything here runs inside a kernel section and changes run queues; [`switch`](crate::switch) carries out what that
//! makes due. Trace points: `sched_waking` when a wake-up is begun, `sched_wakeup` when the thread stands in its run queue,
//! `prio_change`.

use core::sync::atomic::{AtomicU32, Ordering::Relaxed};

use takt_scheduler::{Placement, Priority, Resched, ThreadId};

use crate::arch::percpu::{self, CpuRef};
use crate::cpus::resched;
use crate::probe::{self, trace};
use crate::quantum;
use crate::section::{self, Kernel};
use crate::thread::tcb::{SUSPENDED, Tcb, TcbRef, WAITING, Woken};

/// A waiting thread becomes ready; one that has not begun to wait yet (see [`wait`](crate::wait)) will not. Its wait
/// queue, if any, no longer holds it.
#[cfg_attr(feature = "fast-paths", inline(always))]
pub(crate) fn wake(kernel: &mut Kernel, thread: TcbRef, woken: Woken) {
    if kernel.thread(thread).state == WAITING {
        wake_waiting(kernel, thread, woken);
    } else {
        wake_not_ready(kernel, thread, woken);
    }
}

/// [`wake`] of a thread that is suspended as well, or does not wait yet. Apart: what it needs would be kept at hand for it.
#[cold]
#[inline(never)]
fn wake_not_ready(kernel: &mut Kernel, thread: TcbRef, woken: Woken) {
    let t = kernel.thread(thread);
    trace!(sched_waking, t.tid.raw(), t.prio.rank(), t.cpu.number());
    t.woken = woken;
    t.state &= !WAITING;
}

/// [`wake`] of a thread that waits, and that nothing else keeps from running.
#[cfg_attr(feature = "fast-paths", inline(always))]
pub(crate) fn wake_waiting(kernel: &mut Kernel, thread: TcbRef, woken: Woken) {
    let t = kernel.thread(thread);
    trace!(sched_waking, t.tid.raw(), t.prio.rank(), t.cpu.number());
    t.woken = woken;
    t.state = 0;
    enqueue(kernel, thread);
}

/// Makes a thread ready that was just taken out of its wait queue.
#[cfg_attr(feature = "fast-paths", inline(always))]
pub(crate) fn wake_taken(kernel: &mut Kernel, t: TcbRef) {
    kernel.thread(t).wait_queue = core::ptr::null();
    wake(kernel, t, Woken::Object);
}

/// Puts a thread that has become ready into its run queue.
#[cfg_attr(feature = "fast-paths", inline(always))]
pub(crate) fn enqueue(kernel: &mut Kernel, t: TcbRef) {
    let (cpu, tid, prio) = (t.cpu(), t.tid(), t.prio());
    if probe::is_wakeup_recorded(kernel.look_at(t)) {
        probe::record_wakeup(kernel.look_at(t));
    }
    let (rq, links) = kernel.ready(cpu);
    match rq.wakeup(links, tid, prio) {
        Resched::Preempt => resched(cpu),
        Resched::Keep if kernel.cpu(cpu).is_watched() => quantum::quantum_needed(kernel, t),
        Resched::Keep => {}
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

/// How often a waiting thread was moved in its queue; changes inside a section only.
static NR_MOVED: AtomicU32 = AtomicU32::new(0);

/// How often a thread was moved within the queue it waits in. Who goes through a queue in several sections begins anew
/// when that has changed: one further on may now stand before.
#[cfg_attr(feature = "fast-paths", inline(always))]
pub(crate) fn nr_moved() -> u32 {
    NR_MOVED.load(Relaxed)
}

/// Gives a thread another effective priority and moves it in the queue that it stands in.
///
/// One that has announced its wait and has not begun it stands in two, and is moved in its run queue only:
/// [`TcbRef::is_misplaced`] says so then, and [`move_waiting`] does the other; it does so itself if it goes on before that
/// ([`lend_again`](crate::sync::pi::lend_again)). The owner of a mutex that it waits for has yet to
/// learn of it as well ([`RawMutex::waiter_moved`](crate::sync::raw_mutex::RawMutex::waiter_moved)).
#[cfg_attr(feature = "fast-paths", inline(always))]
pub(crate) fn requeue(kernel: &mut Kernel, tid: ThreadId, to: Priority, placement: Placement) {
    let thread = TcbRef::of(tid);
    let t = kernel.thread(thread);
    if t.is_idle() {
        // It stands in no queue. Whoever waits for its mutex is not ready, and it runs when no one else is.
        return;
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
        requeue_ready(kernel, thread, from, placement);
    } else if !t.wait_queue.is_null() {
        requeue_waiting(kernel, thread);
    }
}

/// Moves a thread in its wait queue to where its priority has it.
#[inline(never)]
pub(crate) fn move_waiting(tid: ThreadId) {
    let mut section = section::enter();
    let thread = TcbRef::of(tid);
    if thread.is_misplaced() {
        requeue_waiting(&mut section, thread);
    }
    section.leave_quietly();
}

/// Moves a ready thread within its run queue.
fn requeue_ready(kernel: &mut Kernel, t: TcbRef, from: Priority, placement: Placement) {
    let (cpu, tid, prio) = (t.cpu(), t.tid(), t.prio());
    let (rq, links) = kernel.ready(cpu);
    if rq.set_priority(links, tid, from, prio, placement) == Resched::Preempt {
        resched(cpu);
    } else if kernel.cpu(cpu).is_watched() {
        // It, or the running thread, may now have a peer.
        quantum::start_quantum(kernel, cpu);
    }
}

/// Moves a thread within the queue it waits in.
#[cfg_attr(feature = "fast-paths", inline(always))]
fn requeue_waiting(kernel: &mut Kernel, thread: TcbRef) {
    let t = kernel.thread(thread);
    let (tid, from, to) = (t.tid, t.wait_prio, t.prio);
    t.wait_prio = to;
    if let Some((queue, links)) = kernel.waits_in(thread) {
        queue.remove(links, tid, from);
        queue.push_back(links, tid, to);
    }
    NR_MOVED.store(nr_moved().wrapping_add(1), Relaxed);
}

/// The running thread `t` of this CPU is no longer ready, for this reason, but still runs.
#[cfg_attr(feature = "fast-paths", inline(always))]
pub(crate) fn unready(kernel: &mut Kernel, cpu: CpuRef, t: TcbRef, reason: u8) {
    kernel.thread(t).state |= reason;
    let (rq, links) = kernel.ready(cpu);
    rq.leave_current(links);
}

/// Suspends another thread: it runs no more until resumed, whatever wakes it.
pub(crate) fn suspend_other(kernel: &mut Kernel, thread: TcbRef) {
    let t: &mut Tcb = kernel.thread(thread);
    let was_ready = t.state == 0;
    t.state |= SUSPENDED;
    if !was_ready {
        return;
    }
    let (cpu, tid, prio) = (t.cpu, t.tid, t.prio);
    let (rq, links) = kernel.ready(cpu);
    let runs_elsewhere = rq.current() == tid;
    rq.dequeue(links, tid, prio);
    if runs_elsewhere {
        resched(cpu);
    }
}
