//! The switch at the end of a kernel call, in the caller's own code.
//!
//! A function that contains a switch has to keep every callee-saved register, whether its caller uses it or not: twelve
//! instructions a call. So the hot calls come in two halves. The out-of-line half decides and notes the switch in the
//! kernel's data, and returns a [`Handoff`]; the inlined half carries it out, where the compiler knows which registers
//! are worth keeping.
//!
//! Between the two halves interrupts are off, and the kernel's data already name the next thread.

use takt_scheduler::{Next, Resched, ThreadId};

use crate::arch::percpu::{self, PerCpu};
use crate::arch::{interrupts, switch};
use crate::error::Error;
use crate::lock::{self, Section};
use crate::quantum;
use crate::sched::{self, IrqExit};
use crate::thread::tcb::{Tcb, WAITING, Woken, tcb};
use crate::trace;
use crate::wait;

/// What the first half of a call leaves to the second: a switch, or only the call's result. Two registers.
#[repr(C)]
#[must_use = "the switch has to be carried out"]
pub(crate) struct Handoff {
    /// The thread to go on with; null if the calling thread goes on, and then the section is over.
    next: *mut Tcb,
    /// With a switch, the calling thread's control block; without, the result as a number.
    rest: usize,
}

/// The result of a call as a number: 0, or one more than the error's place here.
const ERRORS: [Error; 5] = [
    Error::NoSuchThread,
    Error::InvalidState,
    Error::WrongContext,
    Error::Overflow,
    Error::TimedOut,
];

impl Handoff {
    /// A switch from `prev`, the calling thread, to `next`.
    #[inline(always)]
    pub(crate) fn new(prev: *mut Tcb, next: *mut Tcb) -> Self {
        Self {
            next,
            rest: prev as usize,
        }
    }

    /// The calling thread goes on with this result; the section is over.
    #[inline(always)]
    pub(crate) fn stay(section: Section, result: Result<(), Error>) -> Self {
        section.leave_quietly();
        Self::result(result)
    }

    /// A call that never began a section, with its result.
    #[inline(always)]
    pub(crate) fn result(result: Result<(), Error>) -> Self {
        let rest = match result {
            Ok(()) => 0,
            // An error that is not in the list would show as the last of it; all that are given here are.
            Err(error) => ERRORS.iter().position(|of| *of == error).unwrap_or(4) + 1,
        };
        Self {
            next: core::ptr::null_mut(),
            rest,
        }
    }

    /// A call that would have to wait where that is not allowed. Apart, so that the others do not prepare for it.
    #[cold]
    #[inline(never)]
    pub(crate) fn wrong_context() -> Self {
        Self::result(Err(Error::WrongContext))
    }

    /// The end of a call that may have made a switch due: as [`Section::leave`].
    #[inline(always)]
    pub(crate) fn end(section: Section, result: Result<(), Error>) -> Self {
        if section.is_switch_due() {
            let cpu = percpu::this();
            // SAFETY: this CPU's own, inside a section.
            let next = unsafe { sched::of_cpu(cpu) }.rq.pick_next();
            return Self::switch(section, cpu, percpu::current(), next);
        }
        Self::stay(section, result)
    }

    /// The calling thread `prev` of CPU `cpu`, this one, gives way to what was chosen. The call has succeeded.
    #[inline(always)]
    pub(crate) fn switch(section: Section, cpu: *mut PerCpu, prev: *mut Tcb, next: Next) -> Self {
        match end_with_switch(section, cpu, prev, next) {
            Ok(handoff) => handoff,
            Err(section) => Self::stay(section, Ok(())),
        }
    }

    /// The second half: carries the switch out. Returns when the calling thread runs again, or at once with the result
    /// if there is no switch.
    #[inline(always)]
    pub(crate) fn finish(self) -> Result<(), Error> {
        if self.next.is_null() {
            return match self.rest {
                0 => Ok(()),
                code => Err(ERRORS[(code - 1) % ERRORS.len()]),
            };
        }
        self.carry_out();
        Ok(())
    }

    /// The switch at the end of an interrupt, which the interrupt's stub carries out.
    #[inline(always)]
    pub(crate) fn into_irq_exit(self) -> IrqExit {
        IrqExit {
            next: self.next,
            prev: self.rest as *mut Tcb,
        }
    }

    #[inline(always)]
    fn carry_out(self) {
        // SAFETY: interrupts are off and the lock is free since `end_with_switch`, which made `next` the current thread.
        unsafe { switch::switch(self.rest as *mut Tcb, self.next) };
        trace::section_ends();
        // SAFETY: they were on when the call began: a switch is due or chosen only then.
        unsafe { interrupts::enable() };
    }
}

/// [`begin_switch`](sched::begin_switch) as the last act of a call's first half.
///
/// What is rare (an event that is recorded, a quantum, the lock) is one tail call: so the first half keeps nothing
/// across a call and needs no callee-saved register.
#[inline(always)]
pub(crate) fn end_with_switch(
    section: Section,
    cpu: *mut PerCpu,
    prev: *mut Tcb,
    next: Next,
) -> Result<Handoff, Section> {
    // SAFETY: this CPU's own, inside a section.
    let sched = unsafe { &(*cpu).sched };
    let Some(next) = sched::chosen(sched, next) else {
        core::hint::cold_path();
        percpu::clear_need_resched();
        return Err(section);
    };
    Ok(end_with_switch_to(section, cpu, prev, next))
}

/// The same to a thread that is chosen already, and not the running one.
#[inline(always)]
pub(crate) fn end_with_switch_to(
    section: Section,
    cpu: *mut PerCpu,
    prev: *mut Tcb,
    next: *mut Tcb,
) -> Handoff {
    // SAFETY: this CPU's own, inside a section.
    let sched = unsafe { &(*cpu).sched };
    // SAFETY: control blocks are static; inside a section.
    if sched.nr_round_robin != 0 || trace::is_switch_recorded(unsafe { &*next }) {
        core::hint::cold_path();
        return end_with_rare_switch(prev, next);
    }
    // SAFETY: inside a section; two different blocks.
    let left = unsafe { &mut *prev };
    // SAFETY: as above.
    let taken = unsafe { &mut *next };
    sched::account(left, taken);
    percpu::set_current(taken);
    section.unlock_for_switch();
    Handoff::new(prev, next)
}

/// The switch of `prev`, which has just begun to wait, to `next`, another.
///
/// A thread that an interrupt has preempted gets all of its registers back, which takes long: that switch has a section of
/// its own.
#[inline(always)]
pub(crate) fn end_blocked(
    section: Section,
    cpu: *mut PerCpu,
    prev: *mut Tcb,
    next: *mut Tcb,
) -> Handoff {
    // SAFETY: control blocks are static; inside a section.
    if switch::is_preempted(unsafe { &*next }) {
        core::hint::cold_path();
        return end_blocked_apart(section, prev);
    }
    end_with_switch_to(section, cpu, prev, next)
}

/// As [`sched::switch_from_waiting_in_short`] does it. Not by [`preempt`](sched::preempt), whose return would lie on the
/// way of whoever is woken.
#[inline(never)]
fn end_blocked_apart(mut section: Section, prev: *mut Tcb) -> Handoff {
    // SAFETY: the running thread's own block, inside a section.
    sched::put_off_switch(unsafe { &*prev });
    section.let_in();
    Handoff::end(section, Ok(()))
}

#[inline(never)]
extern "C" fn end_with_rare_switch(prev: *mut Tcb, next: *mut Tcb) -> Handoff {
    // The caller's section goes on here.
    let mut section = lock::enter_nested();
    sched::commit_switch(&mut section, percpu::this(), prev, next);
    section.unlock_for_switch();
    Handoff::new(prev, next)
}

/// The end of a call's first half that has made `t` ready: [`enqueue`](sched::enqueue), and the switch if it is due. The rare is tail
/// calls, as in [`end_with_switch`].
#[inline(always)]
pub(crate) fn end_with_wakeup(mut section: Section, t: &mut Tcb) -> Handoff {
    // Read once: behind the place, which has seen the pointer, they could be others.
    let (cpu, tid) = (t.percpu, t.tid);
    if trace::is_wakeup_recorded(t) {
        return end_with_rare_wakeup(section, t);
    }
    // SAFETY: inside a section.
    let sched = unsafe { sched::of_cpu(cpu) };
    match sched.rq.wakeup(section.ready_links(), tid, t.prio) {
        Resched::Keep if sched.nr_round_robin != 0 => end_with_quantum(section, t),
        Resched::Keep => Handoff::stay(section, Ok(())),
        Resched::Preempt if crate::static_branch!(lock::SMP) => end_with_resched(section, t),
        Resched::Preempt if !section.is_from_enabled() => {
            percpu::set_need_resched();
            section.leave_disabled();
            Handoff::result(Ok(()))
        }
        // No one that is more important was ready before, or a reschedule would be due.
        Resched::Preempt if percpu::is_calm() => {
            sched.rq.pick_woken(tid, t.prio);
            end_with_switch_to(section, cpu, percpu::current(), t)
        }
        Resched::Preempt => {
            percpu::set_need_resched();
            Handoff::end(section, Ok(()))
        }
    }
}

#[inline(never)]
fn end_with_rare_wakeup(mut section: Section, t: &mut Tcb) -> Handoff {
    sched::enqueue(&mut section, t);
    Handoff::end(section, Ok(()))
}

#[inline(never)]
fn end_with_quantum(mut section: Section, t: &mut Tcb) -> Handoff {
    quantum::quantum_needed(&mut section, t);
    Handoff::stay(section, Ok(()))
}

#[inline(never)]
fn end_with_resched(section: Section, t: &mut Tcb) -> Handoff {
    sched::resched(t.percpu);
    Handoff::end(section, Ok(()))
}

/// The end of a call's first half that took a thread out of its wait queue: as [`wake_taken`](wait::wake_taken).
#[inline(always)]
pub(crate) fn end_with_wake_taken(section: Section, tid: ThreadId) -> Handoff {
    // SAFETY: inside a section.
    let t = unsafe { &mut *tcb(tid) };
    if t.state != WAITING || crate::static_branch!(trace::events::sched_waking::ID) {
        return end_with_rare_wake(section, tid);
    }
    t.wait_queue = core::ptr::null_mut();
    t.woken = Woken::Object;
    t.state = 0;
    end_with_wakeup(section, t)
}

#[inline(never)]
fn end_with_rare_wake(mut section: Section, tid: ThreadId) -> Handoff {
    wait::wake_taken(&mut section, tid);
    Handoff::end(section, Ok(()))
}
