//! Carrying out what the scheduler decides: wake-ups, blocking, switches, quanta.
//!
//! Everything here runs inside a kernel section. Trace points: `sched_waking` when a wake-up is begun,
//! `sched_wakeup` when the thread stands in its run queue, `sched_switch` before the registers change.

use core::sync::atomic::{AtomicU32, Ordering::Relaxed};

use takt_scheduler::{Next, Placement, Priority, Resched, RunQueue, ThreadId, TimerQueue};

use crate::arch::percpu::{self, PerCpu};
use crate::arch::{switch, tsc};
use crate::config::TIMER_IDS;
use crate::handoff::{self, Handoff};
use crate::lock::{self, Section};
use crate::quantum;
use crate::thread::tcb::{SUSPENDED, Tcb, WAITING, Woken, tcb};
use crate::trace::{self, trace};

/// The scheduling state of one CPU.
pub struct CpuSched {
    pub(crate) rq: RunQueue,
    pub(crate) timers: TimerQueue<TIMER_IDS>,
    /// Round-robin threads that belong to the CPU: as long as there are none, no one asks for quanta.
    pub(crate) nr_round_robin: u32,
    /// What the hardware timer is set to, or `u64::MAX`.
    pub(crate) armed: u64,
}

impl CpuSched {
    /// Gives the state of a CPU that runs nothing yet; whatever the bytes were before.
    pub(crate) fn reset(&mut self) {
        self.rq = RunQueue::new(ThreadId::new(0));
        self.timers.reset();
        self.nr_round_robin = 0;
        self.armed = u64::MAX;
    }
}

/// The scheduling state of a thread's CPU.
///
/// # Safety
/// Inside a section, and no other reference to it is alive.
#[inline(always)]
pub(crate) unsafe fn of_cpu<'a>(percpu: *mut PerCpu) -> &'a mut CpuSched {
    // SAFETY: the caller's duty.
    unsafe { &mut (*percpu).sched }
}

/// Makes a reschedule due on `cpu`.
#[inline(always)]
pub(crate) fn resched(cpu: *mut PerCpu) {
    if crate::static_branch!(lock::SMP) && cpu != percpu::this() {
        crate::smp::kick(cpu);
        return;
    }
    percpu::set_need_resched();
}

/// A waiting thread becomes ready; one that has not begun to wait yet (see [`wait`](crate::wait)) will not. Its wait
/// queue, if any, no longer holds it.
#[inline(always)]
pub(crate) fn wake(section: &mut Section, t: &mut Tcb, woken: Woken) {
    trace!(sched_waking, t.tid.raw(), t.prio.rank(), cpu_of(t));
    t.woken = woken;
    if t.state == WAITING {
        t.state = 0;
        enqueue(section, t);
    } else {
        // Suspended as well, or not waiting yet.
        t.state &= !WAITING;
    }
}

/// Puts a thread that has become ready into its run queue.
#[inline(always)]
pub(crate) fn enqueue(section: &mut Section, t: &mut Tcb) {
    let cpu = t.percpu;
    // SAFETY: inside a section.
    let sched = unsafe { of_cpu(cpu) };
    if trace::is_wakeup_recorded(t) {
        trace::record_wakeup(t);
    }
    match sched.rq.wakeup(section.ready_links(), t.tid, t.prio) {
        Resched::Preempt => resched(cpu),
        Resched::Keep if sched.nr_round_robin != 0 => quantum::quantum_needed(section, t),
        Resched::Keep => {}
    }
}

/// The CPU number of a thread.
#[inline(always)]
pub(crate) fn cpu_of(t: &Tcb) -> u32 {
    // SAFETY: set at creation and never changed.
    unsafe { (*t.percpu).cpu }
}

/// Notes the switch in both control blocks and in the per-CPU block. Afterwards `next` is the current thread, and
/// only the registers are still those of `prev`.
#[inline(always)]
pub(crate) fn commit_switch(
    section: &mut Section,
    cpu: *mut PerCpu,
    prev: *mut Tcb,
    next: *mut Tcb,
) {
    // SAFETY: inside a section; two different blocks.
    let prev = unsafe { &mut *prev };
    // SAFETY: as above.
    let next = unsafe { &mut *next };
    // SAFETY: this CPU's block, inside a section.
    let block = unsafe { &mut *cpu };
    account(prev, next);
    if block.sched.nr_round_robin != 0 {
        quantum::switch_quantum(section, cpu, prev, next);
    }
    // Right before: a record in between would say that `prev` runs, behind the one that says that `next` does.
    if trace::is_switch_recorded(next) {
        trace::record_switch(prev, next);
    }
    percpu::set_current(next);
}

#[inline(always)]
pub(crate) fn chosen(sched: &CpuSched, next: Next) -> Option<*mut Tcb> {
    match next {
        Next::Stay => None,
        Next::Switch(tid) => Some(tcb(tid)),
        Next::Idle => Some(tcb(sched.rq.idle())),
    }
}

/// Does all of a switch to what was chosen but the change of registers: returns the thread that is left and the one
/// that is next, or `None` if the running thread goes on.
#[inline(always)]
pub(crate) fn begin_switch(section: &mut Section, next: Next) -> Option<(*mut Tcb, *mut Tcb)> {
    let cpu = percpu::this();
    // SAFETY: this CPU's own, inside a section.
    let Some(next) = chosen(unsafe { &(*cpu).sched }, next) else {
        percpu::clear_need_resched();
        return None;
    };
    let prev = percpu::current();
    commit_switch(section, cpu, prev, next);
    section.unlock_for_switch();
    Some((prev, next))
}

/// The time that the thread that is left has run, and the beginning of the next one's.
#[inline(always)]
pub(crate) fn account(prev: &mut Tcb, next: &mut Tcb) {
    let now = tsc::now();
    prev.runtime = prev.runtime.wrapping_add(now);
    next.runtime = next.runtime.wrapping_sub(now);
    next.switches += 1;
}

/// Switches from the running thread `t`, which has just begun to wait; returns when it is woken.
#[inline(always)]
pub(crate) fn switch_from_waiting(section: &mut Section, t: &mut Tcb) {
    // SAFETY: inside a section.
    let next = tcb(unsafe { of_cpu(t.percpu) }.rq.pick_other());
    switch_between(section, t, next);
}

/// The same where much has been done in this section: a thread that an interrupt has preempted gets all of its registers
/// back, which takes long, and the switch to such a one has a section of its own.
#[inline(always)]
pub(crate) fn switch_from_waiting_in_short(section: &mut Section, t: &mut Tcb) {
    // SAFETY: inside a section.
    let next = tcb(unsafe { of_cpu(t.percpu) }.rq.pick_other());
    // SAFETY: control blocks are static; inside a section.
    if switch::is_preempted(unsafe { &*next }) {
        core::hint::cold_path();
        switch_apart();
    } else {
        switch_between(section, t, next);
    }
}

/// Switches from the running thread `prev` to another, which is counted as running.
#[inline(always)]
fn switch_between(section: &mut Section, prev: *mut Tcb, next: *mut Tcb) {
    // SAFETY: the running thread's own block, inside a section.
    let cpu = unsafe { (*prev).percpu };
    commit_switch(section, cpu, prev, next);
    section.unlock_for_switch();
    // SAFETY: interrupts are off, the lock is free, and `commit_switch` made `next` the current thread.
    unsafe { switch::switch(prev, next) };
    section.relock();
}

/// The caller's section ends, and another one, in which it goes on, begins with the switch. Who is woken in between goes
/// on, and who is preempted there has waited when it comes back.
///
/// Without arguments, so that the caller keeps nothing for it.
#[inline(never)]
fn switch_apart() {
    let mut section = lock::enter_nested();
    // SAFETY: the running thread's own block, inside a section.
    put_off_switch(unsafe { &*percpu::current() });
    section.let_in();
    if percpu::resched_now() {
        // SAFETY: this CPU's own, inside a section.
        let next = unsafe { of_cpu(percpu::this()) }.rq.pick_next();
        switch_to(&mut section, next);
    }
}

/// The running thread `t`, which is in no run queue any more, runs on for a moment, and a switch is due.
#[inline(always)]
pub(crate) fn put_off_switch(t: &Tcb) {
    // SAFETY: inside a section.
    unsafe { of_cpu(t.percpu) }.rq.put_off(t.tid, t.prio);
    percpu::set_need_resched();
}

/// Switches to what was chosen; returns when the calling thread runs again.
#[inline(always)]
pub(crate) fn switch_to(section: &mut Section, next: Next) {
    let Some((prev, next)) = begin_switch(section, next) else {
        return;
    };
    // SAFETY: interrupts are off, the lock is free, and `commit_switch` made `next` the current thread.
    unsafe { switch::switch(prev, next) };
    section.relock();
}

/// A section has ended that made a switch due, and nothing forbids it: take it now, unless an interrupt has.
///
/// Not in that section: so the switch does not add to the time that its wake-up took with interrupts off. Not traced:
/// the function tracer enables preemption itself.
#[inline(never)]
#[unsafe(link_section = ".text.notrace.preempt")]
#[cfg_attr(
    feature = "function",
    patchable_function_entry(prefix_nops = 0, entry_nops = 0)
)]
pub(crate) fn preempt() {
    let mut section = lock::enter_switch();
    if percpu::resched_now() {
        // SAFETY: this CPU's own, inside a section.
        let next = unsafe { (*percpu::this()).sched.rq.pick_next() };
        switch_to(&mut section, next);
    }
    section.leave_quietly();
}

/// `preempt_enable` found a switch due.
#[cold]
#[unsafe(link_section = ".text.notrace.preempt_schedule")]
#[cfg_attr(
    feature = "function",
    patchable_function_entry(prefix_nops = 0, entry_nops = 0)
)]
pub(crate) extern "C" fn preempt_schedule() {
    // With interrupts off the switch waits for the section's end or the interrupt's.
    if crate::arch::interrupts::are_enabled() {
        preempt();
    }
}

/// The end of a device's interrupt that has left the hardirq and found a reschedule due.
pub(crate) extern "C" fn irq_schedule() -> IrqExit {
    irq_exit_schedule(lock::enter_irq())
}

/// What an interrupt's stub needs: the thread to go on with, null for the same, and the one that is left.
#[repr(C)]
pub(crate) struct IrqExit {
    pub(crate) next: *mut Tcb,
    pub(crate) prev: *mut Tcb,
}

/// The end of an interrupt: leaves the hardirq and the section, and chooses the next thread if that is due.
#[inline(always)]
pub(crate) fn irq_exit(section: Section) -> IrqExit {
    if percpu::hardirq_exit() {
        return irq_exit_schedule(section);
    }
    section.leave_quietly();
    IrqExit {
        next: core::ptr::null_mut(),
        prev: core::ptr::null_mut(),
    }
}

/// The end of an interrupt that found the idle thread waiting: goes on with the next thread, or with the idle thread
/// anew.
#[inline(always)]
pub(crate) fn irq_exit_from_halt(section: Section) -> ! {
    let idle = percpu::current();
    let exit = irq_exit(section);
    let next = if exit.next.is_null() { idle } else { exit.next };
    // SAFETY: interrupts are off, `irq_exit` made `next` the current thread, and the idle thread's state was given up
    // when it came to wait.
    unsafe { switch::leave_idle(idle, next) }
}

#[inline(always)]
fn irq_exit_schedule(section: Section) -> IrqExit {
    let cpu = percpu::this();
    // SAFETY: this CPU's own, inside a section.
    let next = unsafe { of_cpu(cpu) }.rq.pick_next();
    match handoff::end_with_switch(section, cpu, percpu::current(), next) {
        Ok(handoff) => handoff.into_irq_exit(),
        Err(section) => {
            section.leave_quietly();
            IrqExit {
                next: core::ptr::null_mut(),
                prev: core::ptr::null_mut(),
            }
        }
    }
}

/// Whether the calling context may wait: a thread with preemption and interrupts enabled, and not the idle thread.
#[inline(always)]
pub(crate) fn may_block() -> bool {
    // SAFETY: the running thread's own block.
    may_block_as(unsafe { &*percpu::current() })
}

/// [`may_block`], where the running thread's block is at hand.
#[inline(always)]
pub(crate) fn may_block_as(current: &Tcb) -> bool {
    percpu::is_preemptible() && current.atomic == 0
}

/// How often a waiting thread was moved in its queue; changes inside a section only.
static NR_MOVED: AtomicU32 = AtomicU32::new(0);

/// How often a thread was moved within the queue it waits in. Who goes through a queue in several sections begins anew
/// when that has changed: one further on may now stand before.
#[inline(always)]
pub(crate) fn nr_moved() -> u32 {
    NR_MOVED.load(Relaxed)
}

/// Gives a thread another effective priority and moves it in the queue that it stands in.
///
/// One that has announced its wait and has not begun it stands in two, and is moved in its run queue only:
/// [`is_misplaced`] says so then, and [`move_waiting`] does the other; it does so itself if it goes on before that
/// ([`lend_anew`](crate::sync::pi::lend_anew)). The owner of a mutex that it waits for has yet to
/// learn of it as well ([`RawMutex::waiter_moved`](crate::sync::raw_mutex::RawMutex::waiter_moved)).
#[inline(always)]
pub(crate) fn requeue(section: &mut Section, tid: ThreadId, to: Priority, placement: Placement) {
    // SAFETY: inside a section.
    let t = unsafe { &mut *tcb(tid) };
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
    t.lends_anew = true;
    if t.state == 0 {
        requeue_ready(section, t, from, placement);
    } else if !t.wait_queue.is_null() {
        requeue_waiting(section, t);
    }
}

/// Whether a thread stands in its wait queue with a priority that is not its own any more.
///
/// # Context
/// Any; what is seen outside a section may be over.
#[inline(always)]
pub(crate) fn is_misplaced(tid: ThreadId) -> bool {
    // SAFETY: control blocks are static, and these are read as they are.
    let t = unsafe { &*tcb(tid) };
    !t.wait_queue.is_null() && t.wait_prio != t.prio
}

/// Moves a thread in its wait queue to where its priority has it.
#[inline(never)]
pub(crate) fn move_waiting(tid: ThreadId) {
    let mut section = lock::enter();
    if is_misplaced(tid) {
        // SAFETY: inside a section.
        requeue_waiting(&mut section, unsafe { &mut *tcb(tid) });
    }
    section.leave_quietly();
}

/// Moves a ready thread within its run queue.
fn requeue_ready(section: &mut Section, t: &mut Tcb, from: Priority, placement: Placement) {
    // SAFETY: inside a section.
    let sched = unsafe { of_cpu(t.percpu) };
    if sched
        .rq
        .set_priority(section.ready_links(), t.tid, from, t.prio, placement)
        == Resched::Preempt
    {
        resched(t.percpu);
    } else if sched.nr_round_robin != 0 {
        // It, or the running thread, may now have a peer.
        quantum::start_quantum(section, t.percpu);
    }
}

/// Moves a thread within the queue it waits in.
#[inline(always)]
fn requeue_waiting(section: &mut Section, t: &mut Tcb) {
    // SAFETY: the thread stands in that queue, and the object outlives its wait; inside a section.
    let queue = unsafe { &mut *t.wait_queue };
    queue.remove(section.wait_links(), t.tid, t.wait_prio);
    queue.push_back(section.wait_links(), t.tid, t.prio);
    t.wait_prio = t.prio;
    NR_MOVED.store(nr_moved().wrapping_add(1), Relaxed);
}

/// Suspends the running thread: it runs no more until resumed. Says who is next.
#[inline(always)]
pub(crate) fn suspend_current(section: &mut Section, t: &mut Tcb) -> ThreadId {
    t.state |= SUSPENDED;
    // SAFETY: inside a section.
    unsafe { of_cpu(t.percpu) }
        .rq
        .block_current(section.ready_links())
}

/// Suspends another thread: it runs no more until resumed, whatever wakes it.
pub(crate) fn suspend_other(section: &mut Section, t: &mut Tcb) {
    let was_ready = t.state == 0;
    t.state |= SUSPENDED;
    if !was_ready {
        return;
    }
    // SAFETY: inside a section.
    let sched = unsafe { of_cpu(t.percpu) };
    let runs_elsewhere = sched.rq.current() == t.tid;
    sched.rq.dequeue(section.ready_links(), t.tid, t.prio);
    if runs_elsewhere {
        resched(t.percpu);
    }
}

/// Lets the calling thread's equals go first. Does nothing where the caller must not be switched out: with preemption or
/// interrupts disabled, in an interrupt handler, in the idle thread.
///
/// # Context
/// Any but NMI.
#[inline(always)]
pub fn yield_now() {
    // Yielding cannot fail.
    let _ = begin_yield().finish();
}

#[inline(never)]
fn begin_yield() -> Handoff {
    if !may_block() {
        return Handoff::result(Ok(()));
    }
    let mut section = lock::enter_thread();
    let cpu = percpu::this();
    // SAFETY: this CPU's own, inside a section.
    let next = unsafe { of_cpu(cpu) }
        .rq
        .yield_current(section.ready_links());
    Handoff::switch(section, cpu, percpu::current(), next)
}
