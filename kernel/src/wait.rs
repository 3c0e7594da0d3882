//! Waiting: how a thread stops being ready, and how that ends.
//!
//! A short wait without a time-out, as the first, is one section ([`block`]), or two where the next thread was preempted by an
//! interrupt. All others go in steps, with interrupts and preemption on in between, so that no stretch with interrupts off is longer than the
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

use core::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
use core::sync::atomic::{AtomicBool, AtomicPtr};

use takt_scheduler::{ThreadId, TimerId};

use crate::arch::percpu::CpuRef;
use crate::arch::proof;
use crate::clock::Instant;
use crate::cpus::is_smp;
use crate::error::Error;
use crate::parts::MUTEXES;
use crate::sched;
use crate::section::{self, Any, Kernel, Kind, Scheduled, Section, Thread, Waiters};
use crate::switch::{self, Handoff};
use crate::sync::pi;
use crate::thread::tcb::{Tcb, TcbRef, WAITING, Wait, Woken};
use crate::timers;

/// The calling thread waits without a time-out in a queue, as the last act of a call's first half.
#[inline(always)]
pub(crate) fn block(mut section: Section<Thread>, waiters: &Waiters) -> Handoff {
    if !waiters.is_empty(&mut section) {
        core::hint::cold_path();
        return block_behind_others(section, waiters);
    }
    let me = TcbRef::current();
    stand_in(&mut section, me, waiters, Wait::Queue);
    block_as(section.narrow(), me)
}

/// [`block`] where others may wait, among whom to find its place takes a section of its own. Apart, since the call that it takes would
/// have the other way keep registers.
#[inline(never)]
pub(crate) fn block_behind_others(mut section: Section<Thread>, waiters: &Waiters) -> Handoff {
    announce(&mut section, TcbRef::current(), waiters, Wait::Queue);
    section.leave_quietly();
    begin_wait()
}

/// The same in no queue.
#[inline(always)]
pub(crate) fn block_alone(mut section: Section<Thread, Scheduled>, wait: Wait) -> Handoff {
    let me = TcbRef::current();
    wait_for(&mut section, me, wait, core::ptr::null());
    block_as(section, me)
}

#[inline(always)]
fn block_as(mut section: Section<Thread, Scheduled>, me: TcbRef) -> Handoff {
    let cpu = CpuRef::this();
    sched::unready(&mut section, cpu, me, WAITING);
    switch::blocked(section, cpu, me)
}

/// The thread stands in a queue. Until it does no longer it borrows the object that the queue is part of.
#[inline(always)]
fn stand_in(kernel: &mut Kernel, thread: TcbRef, waiters: &Waiters, wait: Wait) {
    let t = kernel.look_at(thread);
    let (tid, prio) = (t.tid, t.prio);
    let (queue, links) = kernel.waiting(waiters);
    queue.push_back(links, tid, prio);
    kernel.thread(thread).wait_prio = prio;
    wait_for(kernel, thread, wait, waiters);
}

/// What the thread waits for.
#[inline(always)]
fn wait_for(scheduled: &mut Scheduled, thread: TcbRef, wait: Wait, queue: *const Waiters) {
    let t = scheduled.thread(thread);
    t.wait = wait;
    t.wait_queue = queue;
}

/// The calling thread `me` announces a wait in a queue, which [`finish`] carries out. It must come to that.
#[inline(always)]
pub(crate) fn announce(kernel: &mut Kernel, me: TcbRef, waiters: &Waiters, wait: Wait) {
    begin(kernel, me);
    stand_in(kernel, me, waiters, wait);
}

/// The same in a queue in which no other waits.
#[inline(always)]
pub(crate) fn announce_first(kernel: &mut Kernel, me: TcbRef, waiters: &Waiters, wait: Wait) {
    begin(kernel, me);
    let t = kernel.thread(me);
    let (tid, prio) = (t.tid, t.prio);
    t.wait_prio = prio;
    kernel.waiting(waiters).0.push_first(tid, prio);
    wait_for(kernel, me, wait, waiters);
}

/// The same in no queue.
#[inline(always)]
pub(crate) fn announce_alone(scheduled: &mut Scheduled, wait: Wait) {
    let me = TcbRef::current();
    begin(scheduled, me);
    wait_for(scheduled, me, wait, core::ptr::null());
}

#[inline(always)]
fn begin(scheduled: &mut Scheduled, me: TcbRef) {
    let t = scheduled.thread(me);
    t.woken = Woken::Not;
    t.is_reprioritized = false;
}

/// Waits in steps in an object's only queue. The object's section is the first.
pub(crate) fn wait_until<K: Kind>(
    mut section: Section<K>,
    waiters: &Waiters,
    deadline: Instant,
) -> Woken {
    announce(&mut section, TcbRef::current(), waiters, Wait::Queue);
    section.leave();
    finish(deadline)
}

/// The same in no queue.
pub(crate) fn wait_alone_until(
    mut section: Section<Thread, Scheduled>,
    wait: Wait,
    deadline: Instant,
) -> Woken {
    announce_alone(&mut section, wait);
    section.leave();
    finish(deadline)
}

/// Waits in steps in an object's queue, as the end of a call's first half. `exchange` is what the waker has to know.
///
/// The second half is here and not in the caller: the way there would lie in the section that ends with the switch. Which queue it is
/// is no argument: those who do not wait would have one register less.
#[inline(never)]
pub(crate) fn wait_in<const IS_SECOND: bool>(
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
    let wait = if IS_SECOND { Wait::Second } else { Wait::Queue };
    announce(&mut section, me, queue, wait);
    section.leave_quietly();
    if deadline != Instant::NEVER {
        return Handoff::done(finish(deadline).result());
    }
    // Nobody ends it but who has what it waits for.
    Handoff::done(begin_wait().finish())
}

/// Waits as announced, until `deadline` at most; returns how the wait ended.
///
/// The time-out takes the thread out of the queue; what else the object keeps is for the caller to put right.
#[inline(never)]
pub(crate) fn finish(deadline: Instant) -> Woken {
    if deadline == Instant::NEVER {
        return wait_announced();
    }
    set_timeout(deadline);
    let woken = wait_announced();
    if woken == Woken::Object {
        disarm_timeout();
    }
    woken
}

/// The running thread, which may wait, sleeps until `deadline`, as the end of a call's first half.
#[inline(always)]
pub(crate) fn begin_sleep(deadline: Instant) -> Handoff {
    if deadline <= Instant::now() {
        return Handoff::done(Ok(()));
    }
    let mut section = section::own_thread();
    announce_alone(&mut section, Wait::Sleep);
    section.leave_quietly();
    if deadline != Instant::NEVER {
        set_timeout(deadline);
    }
    begin_wait()
}

/// Arms the time-out of an announced wait; of one that is over then, it is not armed.
#[inline(always)]
fn set_timeout(deadline: Instant) {
    arm_timeout(deadline);
    // A task may be stopped meanwhile, by whoever disarms its time-out or has it come at once. From here on they find it armed.
    #[cfg(feature = "tasks")]
    if TcbRef::current().woken() != Woken::Not {
        core::hint::cold_path();
        disarm_timeout();
    }
}

/// Not inlined, as the other steps: one instruction at least has to stand between `sti` and the next `cli`, or no
/// interrupt comes in between.
#[inline(never)]
fn arm_timeout(deadline: Instant) {
    let me = TcbRef::current();
    let id = timeout_id(me.tid());
    let section = section::own_thread();
    if section.look_at(me).woken == Woken::Not {
        timers::insert_and_leave(section, id, deadline);
    } else {
        core::hint::cold_path();
        section.leave_quietly();
    }
}

/// Disarms the running thread's time-out.
#[inline(never)]
pub(crate) fn disarm_timeout() {
    let me = TcbRef::current();
    let mut section = section::own_thread();
    timers::cancel(&mut section, timeout_id(me.tid()));
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
    let mut section = section::own_thread();
    let mut t = section.thread(me);
    while MUTEXES && t.is_reprioritized {
        core::hint::cold_path();
        t.is_reprioritized = false;
        section.leave_quietly();
        pi::lend_again();
        proof::bounded!("changes of a thread's priority before it waits");
        section = section::own_thread();
        t = section.thread(me);
    }
    if t.woken == Woken::Not && t.token.load(Relaxed) && t.wait == Wait::Park {
        t.woken = Woken::Object;
    }
    if t.woken != Woken::Not {
        if is_smp!() {
            // Another CPU may still be in the section in which it has ended the wait, and use what this thread lent it.
            section.with_lock(|| me.lock(), |_| ());
        }
        return Handoff::stay(section, Ok(()));
    }
    let cpu = CpuRef::this();
    sched::unready(&mut section, cpu, me, WAITING);
    switch::blocked(section, cpu, me)
}

/// The timer of a thread's time-outs.
#[inline(always)]
pub(crate) fn timeout_id(tid: ThreadId) -> TimerId {
    TimerId::new(u16::from(tid.raw()))
}

/// Takes the most important thread out of a wait queue and makes it ready; gives the section back as it was if there is none.
#[inline(always)]
pub(crate) fn wake_first<K: Kind>(
    mut section: Section<K>,
    queue: &Waiters,
) -> Result<Section<K, Scheduled>, Section<K>> {
    match queue.pop(&mut section) {
        Some(tid) => Ok(sched::wake_taken(section, TcbRef::of(tid))),
        None => Err(section),
    }
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
        // SAFETY: an atomic of a block of the table.
        let token = unsafe { &(*self.as_ptr()).token };
        forget(token);
    }
}

impl Tcb {
    /// Whether what the thread, which is this CPU's, waits for has come, from another CPU. In a section of chains.
    pub(crate) fn is_wait_over(&mut self) -> bool {
        self.state & WAITING != 0
            && match self.wait {
                Wait::Sleep => false,
                Wait::Park => self.token.load(Relaxed),
                // It may have begun to wait without an announcement.
                Wait::Queue | Wait::Second | Wait::Mutex => self.has_left_queue(),
                Wait::Join => self.woken != Woken::Not,
                #[cfg(feature = "tasks")]
                Wait::Message => self.woken != Woken::Not,
            }
    }

    /// Whether it stands in no queue any more; then whoever has taken it out on another CPU is done with it.
    fn has_left_queue(&mut self) -> bool {
        self.shared_queue().load(Acquire).is_null()
    }

    /// It was taken out of its queue by another CPU than its own, which does nothing with it behind this.
    pub(crate) fn leave_queue_elsewhere(&mut self) {
        self.shared_queue().store(core::ptr::null_mut(), Release);
    }

    /// The queue that it waits in, of which another CPU takes it out.
    fn shared_queue(&mut self) -> &AtomicPtr<Waiters> {
        let queue = (&raw mut self.wait_queue).cast::<*mut Waiters>();
        // SAFETY: a pointer of the block.
        unsafe { AtomicPtr::from_ptr(queue) }
    }

    /// As [`TcbRef::forget_token`].
    pub(crate) fn forget_token(&self) {
        forget(&self.token);
    }
}

#[inline(always)]
fn forget(token: &AtomicBool) {
    if is_smp!() {
        core::hint::cold_path();
        token.swap(false, SeqCst);
    } else {
        token.store(false, Relaxed);
    }
}
