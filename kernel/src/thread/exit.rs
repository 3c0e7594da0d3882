//! The end of a thread, by its function's return or by [`exit`].
//!
//! Mutexes that it still has go to those who wait for them, with an error that says so; whoever waits for the end is woken. The thread
//! runs on its own stack until the last switch. Only behind that is the stack free, and the block with it,
//! which other CPUs learn by `has_left`.

use core::sync::atomic::{
    AtomicBool,
    Ordering::{Acquire, Relaxed, Release},
};

use super::tcb::{EXITED, TcbRef, Woken};
use crate::arch::percpu::{self, CpuRef};
use crate::arch::switch::{leave_for_good, leave_for_good_by, next_is_preempted};
use crate::cpus::is_smp;
use crate::parts::MUTEXES;
use crate::probe::{self, trace};
use crate::section::{self, Kernel, Scheduled, Section, Thread};
use crate::switch::{self, Switch};
use crate::timers::Arming;
use crate::{preempt, sched};

/// Ends the calling thread with this exit code, from within any function. A thread whose first function returns ends as
/// well, with 0, and that is safe. Its number is free again once it was joined.
///
/// ```compile_fail,E0133
/// takt_kernel::thread::exit(1);
/// ```
///
/// # Panics
/// In the idle thread or an interrupt handler, which cannot end.
///
/// # Safety
/// Nothing in the frames of the functions that are under way is dropped, and the next thread writes over them. So none of them
/// has something of whose address others know until it is dropped (a pinned value in a list), or on whose drop others rely.
/// Guards of mutexes may be there: who waits for such a mutex gets [`Error::OwnerDied`](crate::Error::OwnerDied).
#[inline]
pub unsafe fn exit(code: usize) -> ! {
    end(code)
}

/// [`exit`] where no function is under way whose values matter.
pub(crate) fn end(code: usize) -> ! {
    assert!(
        sched::may_block(),
        "only a thread with preemption enabled can exit"
    );
    let me = TcbRef::current();
    let mut section = section::enter_thread();
    section.thread(me).exit_code = code;
    // Who waits for a mutex that the thread keeps would wait for ever. A section for each waiter.
    while MUTEXES && let Some(held) = section.held_by(me) {
        held.let_go(section).leave();
        section = section::enter_thread();
    }
    trace!(thread_exit, u32::from(me.tid().raw()));
    // Unless its time-out woke it already and it has not run since.
    let joiner = (section.look_at(me).joiner.map(TcbRef::of))
        .filter(|joiner| section.look_at(*joiner).woken == Woken::Not);
    leave(section, me, joiner)
}

/// The running thread, which has ended, gives way for good, and wakes who waits for that.
#[inline(always)]
fn leave(mut section: Section<Thread>, me: TcbRef, joiner: Option<TcbRef>) -> ! {
    if is_smp!() {
        begin_to_leave(me);
    }
    // Before who waits for it is told: that may be on another CPU.
    section.thread(me).state = EXITED;
    let mut section = match joiner {
        Some(joiner) => sched::wake_anywhere(section, joiner),
        None => section.narrow(),
    };
    let cpu = CpuRef::this();
    let sched = section.cpu(cpu);
    sched.rq.leave_current(&sched.links);
    let next = sched.thread(sched.rq.best());
    if next_is_preempted(next) || sched.is_watched() {
        core::hint::cold_path();
        leave_apart(section, me);
    }
    leave_to_best(section, me, |section, _, me, next| {
        switch::to_unwatched(section, me, next)
    })
}

/// `to` notes the switch, as [`switch::to`] does.
#[inline(always)]
fn leave_to_best(
    mut section: Section<Thread, Scheduled>,
    me: TcbRef,
    to: impl FnOnce(Section<Thread, Scheduled>, CpuRef, TcbRef, TcbRef) -> Switch,
) -> ! {
    let in_use = in_use(me);
    let cpu = CpuRef::this();
    let sched = section.cpu(cpu);
    let next = sched.rq.pick_other();
    let next = sched.thread(next);
    // The second half follows here.
    let _ = to(section, cpu, me, next);
    if is_smp!() {
        // SAFETY: interrupts are off, and `to` made `next` the current thread.
        unsafe { leave_for_good_by(next, has_left) };
    }
    // With interrupts off nobody else comes to use the stack before it is left.
    in_use.store(false, Relaxed);
    // SAFETY: interrupts are off, and `to` made `next` the current thread.
    unsafe { leave_for_good(next) }
}

/// With the switch in a section of its own, where the next thread gets all of its registers back or something is to be done at each, as
/// [`switch::blocked`] does it for those that wait. An interrupt that comes in between does not switch: the thread itself
/// leaves its stack.
#[cold]
#[inline(never)]
fn leave_apart(section: Section<Thread, Scheduled>, me: TcbRef) -> ! {
    percpu::set_need_resched();
    let guard = preempt::disable();
    let section = section.reopen();
    // The switch enables preemption, as it does for whoever is next.
    probe::preemption_enabling();
    core::mem::forget(guard);
    leave_to_best(section, me, |section, cpu, me, next| {
        switch::to(section, cpu, me, next, Arming::Now)
    })
}

/// The flag at the top of a thread's stack that says that it is in use.
#[inline(always)]
fn in_use(thread: TcbRef) -> &'static AtomicBool {
    // SAFETY: a thread that has a stack has that flag, and it stays where it is.
    unsafe { &*(thread.stack_top() as *const AtomicBool) }
}

/// The running thread has ended, and is still on its stack.
#[cold]
fn begin_to_leave(me: TcbRef) {
    CpuRef::this().leaving.store(me.stack_top(), Relaxed);
}

/// It is no longer. Other CPUs may use stack and block as soon as they see that.
extern "C" fn has_left() {
    let leaving = &CpuRef::this().leaving;
    let in_use = leaving.load(Relaxed) as *const AtomicBool;
    // SAFETY: `begin_to_leave` has put it there.
    unsafe { &*in_use }.store(false, Release);
    leaving.store(0, Release);
}

/// Whether a thread that has ended is still on its stack, on another CPU. Soon it is not.
#[inline(always)]
pub(super) fn is_leaving(kernel: &Kernel, thread: TcbRef) -> bool {
    is_smp!() && {
        let t = kernel.look_at(thread);
        t.state & EXITED != 0 && t.cpu.leaving.load(Acquire) == t.stack_top
    }
}

/// First Rust code of a thread.
pub(crate) extern "C" fn thread_main(argument: usize, entry: *const ()) -> ! {
    // SAFETY: `create` put a `fn(usize)` there.
    let entry = unsafe { core::mem::transmute::<*const (), fn(usize)>(entry) };
    // A new thread begins with interrupts off and holds nothing.
    section::own_irqs_off().leave_quietly();
    entry(argument);
    end(0)
}
