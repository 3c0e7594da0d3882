//! The switch: one thread is left and another goes on.
//!
//! A switch is the end of a section, in two halves. [`to`] notes it in the kernel's data: from there on the next thread is the
//! running one, the section is over, and only interrupts stay off. [`Switch::carry_out`] changes the registers, and enables
//! interrupts when the thread that was left runs again. An interrupt's stub does the second half itself ([`IrqExit`]).
//!
//! A function that contains the second half has to keep every callee-saved register, whether its caller uses it or not:
//! twelve instructions a call. So a call that may switch has an out-of-line half, which decides and returns a [`Handoff`], and
//! an inlined one, [`Handoff::finish`], where the compiler knows which registers are worth keeping. What is rare in the first
//! half is one tail call: so the first half keeps nothing across a call and needs no callee-saved register either.
//!
//! Trace point: `sched_switch`, before the registers change.

use takt_scheduler::{Next, ThreadId};

use crate::arch::percpu::{self, CpuRef};
use crate::arch::{interrupts, proof, switch};
use crate::clock::Instant;
use crate::error::{self, Error};
use crate::probe;
use crate::quantum;
use crate::sched::{self, Inserted};
use crate::section::{self, Irq, Kind, Lent, Scheduled, Section, Thread};
use crate::thread::tcb::{self, TcbRef};
use crate::timers::Arming;

/// A switch that is noted: only the registers are still those of the thread that is left. Interrupts are off, and the
/// section is over.
#[must_use = "the switch has to be carried out"]
#[derive(Clone, Copy)]
pub(crate) struct Switch {
    next: TcbRef,
    prev: TcbRef,
}

/// What a call's first half leaves to its second: a switch, after which the call has succeeded, or only the call's result.
/// Two registers, which an enum would not be.
#[must_use = "the switch has to be carried out"]
pub(crate) struct Handoff {
    /// The thread to go on with; none if the calling thread goes on. Then the section is over.
    next: Option<TcbRef>,
    /// With a switch, the thread that is left, by its address; without, the result as an [`error::Word`].
    rest: usize,
}

/// What an interrupt's stub needs: the thread to go on with, none for the same, and the one that is left.
#[repr(C)]
pub(crate) struct IrqExit {
    pub(crate) next: Option<TcbRef>,
    pub(crate) prev: Option<TcbRef>,
}

/// Notes the switch from the running thread `prev` of this CPU to another, which the run queue counts as running, and ends
/// the section.
#[cfg_attr(feature = "fast-paths", inline(always))]
pub(crate) fn to<K: Kind>(
    mut section: Section<K, Scheduled>,
    cpu: CpuRef,
    prev: TcbRef,
    next: TcbRef,
    arming: Arming,
) -> Switch {
    if section.cpu(cpu).is_watched() {
        core::hint::cold_path();
        proof::only_with!("counting at switches");
        return to_watched(section.into_switching(), prev, next, arming);
    }
    to_unwatched(section, prev, next)
}

/// The same where it is known that nothing but that is to be done.
#[cfg_attr(feature = "fast-paths", inline(always))]
pub(crate) fn to_unwatched<K: Kind>(
    section: Section<K, Scheduled>,
    prev: TcbRef,
    next: TcbRef,
) -> Switch {
    if probe::is_switch_recorded(section.look_at(next)) {
        core::hint::cold_path();
        return to_recorded(section.into_switching(), prev, next);
    }
    tcb::set_current(next);
    section.release();
    Switch { prev, next }
}

/// The same where the switch is recorded, and nothing else is to be done.
#[inline(never)]
fn to_recorded(mut section: Section<Irq, Scheduled>, prev: TcbRef, next: TcbRef) -> Switch {
    let (left, taken) = section.two_threads(prev, next);
    probe::record_switch(left, taken);
    tcb::set_current(next);
    section.release();
    Switch { prev, next }
}

/// The same where something is to be done at each switch.
#[inline(never)]
fn to_watched(
    mut section: Section<Irq, Scheduled>,
    prev: TcbRef,
    next: TcbRef,
    arming: Arming,
) -> Switch {
    let cpu = CpuRef::this();
    watched(&mut section, cpu, prev, next, arming);
    // Right before: a record in between would say that `prev` runs, behind the one that says that `next` does.
    let (left, taken) = section.two_threads(prev, next);
    if probe::is_switch_recorded(taken) {
        probe::record_switch(left, taken);
    }
    tcb::set_current(next);
    section.release();
    Switch { prev, next }
}

/// What is to be done at a switch while someone asks for it: the time that the thread that is left has run, and the beginning
/// of the next one's; their quanta.
#[inline(always)]
fn watched(scheduled: &mut Scheduled, cpu: CpuRef, prev: TcbRef, next: TcbRef, arming: Arming) {
    proof::only_with!("counting at switches");
    let now = Instant::now();
    let (left, taken) = scheduled.two_threads(prev, next);
    left.runtime = left.runtime.ended(now);
    taken.runtime = taken.runtime.begun(now);
    taken.switches += 1;
    quantum::switch_quantum(scheduled, cpu, prev, next, now, arming);
}

/// [`to`] who was chosen, if that is another; else the section goes on.
#[cfg_attr(feature = "fast-paths", inline(always))]
fn to_chosen<K: Kind, R>(
    mut section: Section<K, Scheduled>,
    cpu: CpuRef,
    prev: TcbRef,
    next: Next,
    switches: impl FnOnce(Switch) -> R,
    stays: impl FnOnce(Section<K, Scheduled>) -> R,
) -> R {
    match next {
        Next::Switch(tid) => {
            let next = section.cpu(cpu).thread(tid);
            switches(to(section, cpu, prev, next, Arming::Now))
        }
        Next::Stay => {
            core::hint::cold_path();
            percpu::clear_need_resched();
            if section.cpu(cpu).is_watched() {
                quantum::start_quantum(&mut section, cpu);
            }
            stays(section)
        }
    }
}

/// [`to_chosen`] with the most important thread of this CPU.
#[cfg_attr(feature = "fast-paths", inline(always))]
fn to_best<K: Kind, R>(
    mut section: Section<K, Scheduled>,
    switches: impl FnOnce(Switch) -> R,
    stays: impl FnOnce(Section<K, Scheduled>) -> R,
) -> R {
    let cpu = CpuRef::this();
    if !section.cpu(cpu).is_watched() {
        match section.cpu(cpu).rq.pick_next() {
            Next::Switch(tid) => {
                let (prev, next) = (TcbRef::current(), section.cpu(cpu).thread(tid));
                if !probe::is_switch_recorded(section.look_at(next)) {
                    tcb::set_current(next);
                    section.release();
                    return switches(Switch { prev, next });
                }
            }
            Next::Stay => {
                core::hint::cold_path();
                percpu::clear_need_resched();
                return stays(section);
            }
        }
    }
    core::hint::cold_path();
    proof::only_with!("counting at switches|takt_kernel::probe::places::SWITCH");
    to_best_apart(section, switches, stays)
}

/// The rest of [`to_best`] where something is to be done at each switch, in a section of its own then, or where the switch that the run
/// queue has noted already is recorded. By one call, or that would keep registers for the sake of two.
#[inline(never)]
fn to_best_apart<K: Kind, R>(
    mut section: Section<K, Scheduled>,
    switches: impl FnOnce(Switch) -> R,
    stays: impl FnOnce(Section<K, Scheduled>) -> R,
) -> R {
    let cpu = CpuRef::this();
    if !section.cpu(cpu).is_watched() {
        core::hint::cold_path();
        let sched = section.cpu(cpu);
        let (prev, next) = (TcbRef::current(), sched.thread(sched.rq.current()));
        return switches(to_recorded(section.into_switching(), prev, next));
    }
    proof::only_with!("counting at switches");
    percpu::set_need_resched();
    section = section.reopen();
    match section.cpu(cpu).rq.pick_next() {
        Next::Switch(tid) => {
            let (prev, next) = (TcbRef::current(), section.cpu(cpu).thread(tid));
            switches(to_watched(
                section.into_switching(),
                prev,
                next,
                Arming::Now,
            ))
        }
        Next::Stay => {
            percpu::clear_need_resched();
            quantum::start_quantum(&mut section, cpu);
            stays(section)
        }
    }
}

impl Switch {
    /// The second half: changes the registers. Returns when the thread that is left runs again, with interrupts on.
    #[inline(always)]
    pub(crate) fn carry_out(self) {
        // SAFETY: interrupts are off and no lock is held since `to`, which made `next` the current thread.
        unsafe { switch::switch(self.prev, self.next) };
        probe::section_ends();
        // SAFETY: they were on when the section began: a thread switches only then.
        unsafe { interrupts::enable() };
    }
}

impl Handoff {
    /// A call without a section, or whose section is over, with its result.
    #[inline(always)]
    pub(crate) fn done(result: Result<(), Error>) -> Self {
        Self {
            next: None,
            rest: error::Word::of(result).get(),
        }
    }

    /// The calling thread goes on with this result.
    #[inline(always)]
    pub(crate) fn stay<K: Kind, L: Lent>(
        section: Section<K, L>,
        result: Result<(), Error>,
    ) -> Self {
        section.leave_quietly();
        Self::done(result)
    }

    /// The calling thread is left, and the call has succeeded.
    #[inline(always)]
    pub(crate) fn switch(switch: Switch) -> Self {
        Self {
            next: Some(switch.next),
            rest: switch.prev.as_ptr() as usize,
        }
    }

    /// Whether the calling thread is left.
    #[cfg(feature = "tasks")]
    #[inline(always)]
    pub(crate) fn is_switch(&self) -> bool {
        self.next.is_some()
    }

    /// A call that would have to wait where that is not allowed. Apart, and what it gives is not known to its callers, so that
    /// they do not prepare for it.
    #[cold]
    #[inline(never)]
    pub(crate) fn wrong_context() -> Self {
        Self::done(core::hint::black_box(Err(Error::WrongContext)))
    }

    /// The end of a call that may have made a switch due, as [`Section::leave`] is one.
    #[inline(always)]
    pub(crate) fn end<K: Kind, L: Lent>(section: Section<K, L>) -> Self {
        if section.is_switch_due() {
            return Self::to_best(section.narrow());
        }
        Self::stay(section, Ok(()))
    }

    /// [`end`](Self::end) of a call whose section is long: the switch has a section of its own.
    #[inline(always)]
    pub(crate) fn end_apart<K: Kind, L: Lent>(section: Section<K, L>) -> Self {
        let were_enabled = section.is_from_enabled();
        section.leave_quietly();
        // An interrupt in between has taken the switch already, if it was due.
        if were_enabled && percpu::resched_now() {
            return Self::to_best(section::own_thread());
        }
        Self::done(Ok(()))
    }

    /// The calling thread, which nothing keeps from being switched out, gives way to the most important one, if that is
    /// another.
    #[inline(always)]
    fn to_best<K: Kind>(section: Section<K, Scheduled>) -> Self {
        to_best(section, Self::switch, |section| Self::stay(section, Ok(())))
    }

    /// The calling thread `prev` of CPU `cpu` gives way to who was chosen.
    #[inline(always)]
    pub(crate) fn to_chosen(
        section: Section<Thread, Scheduled>,
        cpu: CpuRef,
        prev: TcbRef,
        next: Next,
    ) -> Self {
        to_chosen(section, cpu, prev, next, Self::switch, |section| {
            Self::stay(section, Ok(()))
        })
    }

    /// [`finish`](Self::finish) of a call that mostly stays and succeeds: by one comparison.
    #[inline(always)]
    pub(crate) fn finish_staying(self) -> Result<(), Error> {
        if self.rest == 0 {
            return Ok(());
        }
        core::hint::cold_path();
        self.finish()
    }

    /// For a second half in assembly: the switch if there is one, with interrupts off.
    #[cfg(feature = "tasks")]
    #[inline(always)]
    pub(crate) fn into_exit(self) -> IrqExit {
        IrqExit {
            next: self.next,
            // SAFETY: where there is a next thread, `rest` is the block of the one that is left.
            prev: self.next.map(|_| unsafe { TcbRef::of_address(self.rest) }),
        }
    }

    /// The second half: carries the switch out. Returns when the calling thread runs again, or at once with the result
    /// if there is no switch.
    #[inline(always)]
    pub(crate) fn finish(self) -> Result<(), Error> {
        let Some(next) = self.next else {
            // SAFETY: without a thread to go on with, the rest is a result's word.
            return unsafe { error::Word::new(self.rest) }.result();
        };
        // SAFETY: with a thread to go on with, the rest is the address of another's block.
        let prev = unsafe { TcbRef::of_address(self.rest) };
        Switch { prev, next }.carry_out();
        Ok(())
    }
}

/// The end of a section in which `prev`, the running thread, has left its run queue: another runs.
///
/// A thread that an interrupt has preempted gets all of its registers back, which takes long: the switch to such a one has a
/// section of its own. So has one at which something is to be done.
#[cfg_attr(feature = "fast-paths", inline(always))]
pub(crate) fn blocked(
    mut section: Section<Thread, Scheduled>,
    cpu: CpuRef,
    prev: TcbRef,
) -> Handoff {
    let sched = section.cpu(cpu);
    let next = sched.thread(sched.rq.best());
    if switch::next_is_preempted(next) || sched.is_watched() {
        core::hint::cold_path();
        return blocked_apart(section);
    }
    let _ = section.cpu(cpu).rq.pick_other();
    Handoff::switch(to_unwatched(section, prev, next))
}

/// The caller's section ends, and another one begins with the switch. Who is woken in between goes on, and who is preempted
/// there has waited when it comes back. Not by [`preempt`], whose return would lie on the way of whoever is woken.
#[inline(never)]
fn blocked_apart(section: Section<Thread, Scheduled>) -> Handoff {
    percpu::set_need_resched();
    Handoff::to_best(section.reopen())
}

/// Where the switch is that the end of a section has made due.
pub(crate) trait Due<K: Kind> {
    /// The section ends in which `t`, a thread of CPU `cpu`, which is this one, was put in front of all others.
    fn switch_to(section: Section<K, Scheduled>, cpu: CpuRef, t: TcbRef) -> Handoff;
}

/// In the same section.
pub(crate) enum AtOnce {}

/// In a section of its own: for sections that are long without it.
pub(crate) enum Apart {}

impl<K: Kind> Due<K> for AtOnce {
    #[inline(always)]
    fn switch_to(mut section: Section<K, Scheduled>, cpu: CpuRef, t: TcbRef) -> Handoff {
        if !section.is_from_enabled() {
            percpu::set_need_resched();
            section.release();
            Handoff::done(Ok(()))
        } else if !percpu::is_calm() || section.cpu(cpu).is_watched() {
            percpu::set_need_resched();
            Handoff::end_apart(section)
        } else {
            // Nothing forbids the switch, none was due, and there is nothing else to be done.
            let _ = section.cpu(cpu).rq.pick_other();
            Handoff::switch(to_unwatched(section, TcbRef::current(), t))
        }
    }
}

impl<K: Kind> Due<K> for Apart {
    #[inline(always)]
    fn switch_to(section: Section<K, Scheduled>, _: CpuRef, _: TcbRef) -> Handoff {
        percpu::set_need_resched();
        Handoff::end_apart(section)
    }
}

/// The end of a section that has made `t`, a thread of this CPU, ready: puts it into its run queue, and switches to it if that is due.
#[cfg_attr(feature = "fast-paths", inline(always))]
pub(crate) fn woken<K: Kind>(section: Section<K, Scheduled>, t: TcbRef) -> Handoff {
    if probe::is_wakeup_recorded(section.look_at(t)) {
        return woken_recorded(t, section);
    }
    insert::<K, AtOnce>(section, t)
}

#[inline(never)]
fn woken_recorded<K: Kind>(t: TcbRef, mut section: Section<K, Scheduled>) -> Handoff {
    sched::enqueue(&mut section, t);
    Handoff::end(section)
}

/// The end of a section that took a thread out of its wait queue.
#[cfg_attr(feature = "fast-paths", inline(always))]
pub(crate) fn wake_taken<K: Kind, D: Due<K>>(mut section: Section<K>, tid: ThreadId) -> Handoff {
    let t = TcbRef::of(tid);
    let block = section.thread(t);
    // Asked last: with a tracer that hears of wake-ups it records this one, which is made here then.
    if !sched::is_plain_wakeup(block) || t.is_elsewhere() || probe::is_wakeup_recorded(block) {
        return wake_taken_watched(section, t);
    }
    sched::end_plain_wait(block);
    insert::<K, D>(section.narrow(), t)
}

#[inline(never)]
fn wake_taken_watched<K: Kind>(section: Section<K>, t: TcbRef) -> Handoff {
    Handoff::end_apart(sched::wake_taken(section, t))
}

#[cfg_attr(feature = "fast-paths", inline(always))]
fn insert<K: Kind, D: Due<K>>(mut section: Section<K, Scheduled>, t: TcbRef) -> Handoff {
    let (cpu, tid, prio) = (t.cpu(), t.tid(), t.prio());
    match sched::insert(&mut section, cpu, tid, prio) {
        Inserted::BesideWatched => woken_peer(t, section),
        Inserted::Behind => Handoff::stay(section, Ok(())),
        Inserted::First => D::switch_to(section, cpu, t),
    }
}

#[inline(never)]
fn woken_peer<K: Kind>(t: TcbRef, mut section: Section<K, Scheduled>) -> Handoff {
    quantum::quantum_needed(&mut section, t);
    Handoff::end_apart(section)
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
    // Switching cannot fail.
    let _ = Handoff::to_best(section::own_thread()).finish();
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
    if interrupts::are_enabled() {
        preempt();
    }
}

/// The end of a device's interrupt that has left the hardirq and found a reschedule due.
pub(crate) extern "C" fn irq_schedule() -> IrqExit {
    irq_exit_to_best(section::own_irq())
}

/// The end of an interrupt: leaves the hardirq and the section, and chooses the next thread if that is due.
#[cfg_attr(feature = "fast-paths", inline(always))]
pub(crate) fn irq_exit(section: Section<Irq, Scheduled>) -> IrqExit {
    if percpu::hardirq_exit() {
        return irq_exit_to_best(section);
    }
    section.release();
    IrqExit::SAME
}

/// The end of an interrupt that found the idle thread waiting: goes on with the next thread, or with the idle thread
/// anew.
#[inline(always)]
pub(crate) fn irq_exit_from_halt(section: Section<Irq, Scheduled>) -> ! {
    let idle = TcbRef::current();
    let next = irq_exit(section).next.unwrap_or(idle);
    // SAFETY: interrupts are off, `irq_exit` made `next` the current thread, and the idle thread's state was given up
    // when it came to wait.
    unsafe { switch::leave_idle(idle, next) }
}

#[cfg_attr(feature = "fast-paths", inline(always))]
fn irq_exit_to_best(section: Section<Irq, Scheduled>) -> IrqExit {
    let switches = |switch: Switch| IrqExit {
        next: Some(switch.next),
        prev: Some(switch.prev),
    };
    to_best(section, switches, |section| {
        section.release();
        IrqExit::SAME
    })
}

impl IrqExit {
    /// The same thread goes on.
    pub(crate) const SAME: Self = Self {
        next: None,
        prev: None,
    };
}
