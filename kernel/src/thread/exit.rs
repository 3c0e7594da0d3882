//! The end of a thread.

use core::sync::atomic::{AtomicBool, Ordering::Relaxed};

use super::tcb::{EXITED, Tcb, Woken, tcb};
use crate::arch::{percpu, switch};
use crate::lock::{self, Section};
use crate::trace::{self, trace};
use crate::{preempt, sched};

/// Ends the calling thread. Its number is free again once it was joined.
///
/// # Panics
/// In the idle thread or an interrupt handler, which cannot end.
pub fn exit(code: usize) -> ! {
    assert!(
        sched::may_block(),
        "only a thread with preemption enabled can exit"
    );
    let me = percpu::current();
    // SAFETY: the running thread's own block; read by others when it has ended.
    unsafe { (*me).exit_code = code };
    let mut section = lock::enter_thread();
    // Who waits for a mutex that the thread keeps would wait for ever. A section for each waiter.
    // SAFETY: the running thread's own block, inside a section.
    let held = || unsafe { (*me).held };
    // SAFETY: the list holds mutexes that their waiters borrow.
    while let Some(held) = unsafe { held().as_ref() } {
        held.let_go(&mut section);
        section.leave();
        section = lock::enter_thread();
    }
    // SAFETY: the running thread's own block, inside a section.
    let t = unsafe { &mut *me };
    trace!(thread_exit, u32::from(t.tid.raw()));
    t.state = EXITED;
    if let Some(joiner) = t.joiner {
        // SAFETY: inside a section.
        let waiting = unsafe { &mut *tcb(joiner) };
        // Unless its time-out woke it already and it has not run since.
        if waiting.woken == Woken::Not {
            sched::wake(&mut section, waiting, Woken::Object);
        }
    }
    leave(section, me)
}

/// The running thread, which has ended, gives way for good. Neither its stack nor its block is touched once the section
/// is over in which it leaves them: another CPU may use them at once.
#[inline(always)]
fn leave(mut section: Section, prev: *mut Tcb) -> ! {
    // SAFETY: this CPU's own, inside a section.
    let sched = unsafe { sched::of_cpu(percpu::this()) };
    let next = tcb(sched.rq.block_current(section.ready_links()));
    // SAFETY: control blocks are static; inside a section.
    if switch::is_preempted(unsafe { &*next }) {
        core::hint::cold_path();
        leave_apart(section, prev);
    }
    leave_to(section, prev, next)
}

#[inline(always)]
fn leave_to(mut section: Section, prev: *mut Tcb, next: *mut Tcb) -> ! {
    // SAFETY: control blocks are static; inside a section.
    let in_use = unsafe { &*prev }.stack_top as *const AtomicBool;
    // SAFETY: the flag lies at the stack's top. Whoever takes the stack or the block next needs the kernel's section,
    // which ends only when this CPU has left both.
    unsafe { &*in_use }.store(false, Relaxed);
    sched::commit_switch(&mut section, percpu::this(), prev, next);
    // SAFETY: interrupts are off, and `commit_switch` made `next` the current thread.
    unsafe { switch::leave_for_good(next) }
}

/// With the switch in a section of its own, where the next thread gets all of its registers back, as `sched` does it for
/// those that wait. An interrupt that comes in between does not switch: the thread itself
/// leaves its stack, and until then counts as running ([`is_leaving`]).
#[cold]
#[inline(never)]
fn leave_apart(mut section: Section, prev: *mut Tcb) -> ! {
    // SAFETY: the running thread's own block, inside a section.
    sched::put_off_switch(unsafe { &*prev });
    let guard = preempt::disable();
    section.let_in();
    // SAFETY: this CPU's own, inside a section.
    let next = tcb(unsafe { sched::of_cpu(percpu::this()) }.rq.pick_other());
    // The switch enables preemption, as it does for whoever is next.
    trace::preemption_enabling();
    core::mem::forget(guard);
    leave_to(section, prev, next)
}

/// Whether a thread that has ended is still on its stack, on another CPU. Soon it is not.
#[inline(always)]
pub(super) fn is_leaving(_section: &Section, t: &Tcb) -> bool {
    // SAFETY: inside a section.
    let runs = || unsafe { sched::of_cpu(t.percpu) }.rq.current() == t.tid;
    crate::static_branch!(lock::SMP) && t.state & EXITED != 0 && runs()
}
