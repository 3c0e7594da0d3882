//! The end of a thread.

use core::sync::atomic::{AtomicBool, Ordering::Relaxed};

use super::table;
use super::tcb::{EXITED, TcbRef, Woken};
use crate::arch::percpu::{self, CpuRef};
use crate::arch::switch::{is_preempted, leave_for_good};
use crate::cpus::is_smp;
use crate::parts::MUTEXES;
use crate::probe::{self, trace};
use crate::section::{self, Kernel, Section, Thread};
use crate::{preempt, sched, switch};

/// Ends the calling thread. Its number is free again once it was joined.
///
/// # Panics
/// In the idle thread or an interrupt handler, which cannot end.
pub fn exit(code: usize) -> ! {
    assert!(
        sched::may_block(),
        "only a thread with preemption enabled can exit"
    );
    let me = TcbRef::current();
    let mut section = section::enter_thread();
    section.thread(me).exit_code = code;
    // Who waits for a mutex that the thread keeps would wait for ever. A section for each waiter.
    while MUTEXES && let Some(held) = section.held_by(me) {
        held.let_go(&mut section);
        section = section.leave_and_enter();
    }
    trace!(thread_exit, u32::from(me.tid().raw()));
    let joiner = section.look_at(me).joiner;
    if let Some(joiner) = joiner.map(TcbRef::of) {
        // Unless its time-out woke it already and it has not run since.
        if section.look_at(joiner).woken == Woken::Not {
            sched::wake(&mut section, joiner, Woken::Object);
        }
    }
    leave(section, me)
}

/// The running thread, which has ended, gives way for good. Neither its stack nor its block is touched once the section
/// is over in which it leaves them: another CPU may use them at once.
#[inline(always)]
fn leave(mut section: Section<Thread>, me: TcbRef) -> ! {
    section.thread(me).state = 0;
    let cpu = CpuRef::this();
    sched::unready(&mut section, cpu, me, EXITED);
    let next = TcbRef::of(section.cpu(cpu).rq.best());
    if is_preempted(next) {
        core::hint::cold_path();
        leave_apart(section, me);
    }
    leave_to_best(section, me)
}

#[inline(always)]
fn leave_to_best(mut section: Section<Thread>, me: TcbRef) -> ! {
    let in_use = section.look_at(me).stack_top as *const AtomicBool;
    // SAFETY: the flag lies at the stack's top. Whoever takes the stack or the block next needs the kernel's section,
    // which ends only when this CPU has left both.
    unsafe { &*in_use }.store(false, Relaxed);
    let next = TcbRef::of(section.cpu(CpuRef::this()).rq.pick_other());
    switch::commit(&mut section, me, next);
    // Its end is on the next stack.
    core::mem::forget(section);
    // SAFETY: interrupts are off, and `commit` made `next` the current thread.
    unsafe { leave_for_good(next) }
}

/// With the switch in a section of its own, where the next thread gets all of its registers back, as
/// [`switch::blocked`] does it for those that wait. An interrupt that comes in between does not switch: the thread itself
/// leaves its stack, and until then counts as running ([`is_leaving`]).
#[cold]
#[inline(never)]
fn leave_apart(section: Section<Thread>, me: TcbRef) -> ! {
    percpu::set_need_resched();
    let guard = preempt::disable();
    let section = section.interrupted();
    // The switch enables preemption, as it does for whoever is next.
    probe::preemption_enabling();
    core::mem::forget(guard);
    leave_to_best(section, me)
}

/// Whether a thread that has ended is still on its stack, on another CPU. Soon it is not.
#[inline(always)]
pub(super) fn is_leaving(kernel: &mut Kernel, thread: TcbRef) -> bool {
    is_smp!() && kernel.look_at(thread).state & EXITED != 0 && table::runs(kernel, thread)
}

/// First Rust code of a thread.
pub(crate) extern "C" fn thread_main(argument: usize, entry: *const ()) -> ! {
    // SAFETY: `create` put a `fn(usize)` there.
    let entry = unsafe { core::mem::transmute::<*const (), fn(usize)>(entry) };
    probe::section_ends();
    // SAFETY: a new thread begins with interrupts off and holds nothing.
    unsafe { crate::arch::interrupts::enable() };
    entry(argument);
    exit(0)
}
