//! The kernel's own interrupts, the timer's and the kick of another CPU: what a deadline that has come leads to.
//!
//! A timer's number says what it is for: a thread's time-out, the quantum of a round-robin thread, or a software timer's
//! function. What that makes due the interrupt's exit carries out.
//!
//! Timers that expire at once are one interrupt. It ends after the timer under way when a device's interrupt is pending:
//! devices have vectors of a higher class, so theirs comes next. One timer an interrupt costs twice as much behind 16 of them; the
//! most important first costs more with the few that are usual. Letting near deadlines wait makes every interrupt longer, or, where
//! only who is armed too late is looked at, has arrivals meet another path than the one that a sweep has recorded.

#[cfg(feature = "tasks")]
use takt_scheduler::pi::effective_priority;
use takt_scheduler::{ThreadId, TimerId};

use crate::arch::apic;
use crate::arch::interrupts::{KICK_VECTOR, TIMER_VECTOR};
use crate::arch::percpu::{self, CpuRef};
use crate::arch::proof;
#[cfg(feature = "tasks")]
use crate::budget;
use crate::clock::Instant;
use crate::config::{MAX_CPUS, MAX_THREADS};
use crate::cpus::{self, is_smp};
use crate::deferred::{self, Left};
use crate::other_cpu;
use crate::parts::{MUTEXES, WATCHERS};
use crate::probe::{self, trace};
use crate::quantum;
use crate::sched;
use crate::section::{self, Irq, Kernel, Scheduled, Section};
use crate::soft_timer::{self, Expiry};
use crate::switch::{self, IrqExit};
use crate::sync::pi;
#[cfg(feature = "tasks")]
use crate::task::overrun;
use crate::thread::tcb::{TcbRef, Woken};
use crate::timers;
use crate::wait;

/// The local APIC timer's interrupt; `at` is the time stamp taken by its third instruction.
pub(crate) extern "C" fn timer_interrupt(at: Instant) -> IrqExit {
    switch::irq_exit(handle_timer(at))
}

/// The same when it found the idle thread waiting: nothing of that thread is kept, so this does not return to the stub.
/// Part of the entry, and not traced.
#[cfg_attr(
    feature = "function",
    patchable_function_entry(prefix_nops = 0, entry_nops = 0)
)]
pub(crate) extern "C" fn timer_interrupt_idle(at: Instant) -> ! {
    switch::irq_exit_from_halt(handle_timer(at))
}

#[cfg_attr(feature = "fast-paths", inline(always))]
fn handle_timer(at: Instant) -> Section<Irq, Scheduled> {
    apic::end_of_interrupt();
    let cpu = CpuRef::this();
    let mut section = section::own_irq();
    percpu::count(&cpu.nr_irqs);
    probe::timer_entry(at);
    expire(&mut section, cpu, at);
    trace!(irq_handler_exit, u32::from(TIMER_VECTOR));
    section
}

/// The handler of a kick: does what other CPUs want of this one.
pub(crate) extern "C" fn kick_interrupt(at: Instant) -> IrqExit {
    proof::not_alone!("nobody kicks the only CPU");
    apic::end_of_interrupt();
    cpus::stand_still();
    let cpu = CpuRef::this();
    let mut section = section::own_irq();
    percpu::count(&cpu.nr_irqs);
    // Nobody kicks the only CPU that there can be.
    if MAX_CPUS > 1 {
        probe::kick_entry(at);
        serve_other_cpus(&mut section, cpu);
        // Should nothing have changed, `pick_next` lets the running thread stay.
        percpu::set_need_resched();
        trace!(irq_handler_exit, u32::from(KICK_VECTOR));
    }
    switch::irq_exit(section)
}

/// Does what other CPUs have left word of.
fn serve_other_cpus(scheduled: &mut Scheduled, cpu: CpuRef) {
    other_cpu::for_each_woken(cpu, |thread| {
        sched::complete_remote_wakeup(scheduled, thread)
    });
    scheduled.nest(|| other_cpu::serve(cpu));
    other_cpu::for_each_walk(cpu, |tid, nr_visited| {
        if MUTEXES {
            scheduled.nest(|| {
                // A chain that is too long ends there, as for whoever began.
                let _ = pi::walk_on::<true>(tid, nr_visited);
            });
        }
    });
}

/// Runs every timer whose deadline is not after `at`, and sets the hardware to the next.
///
/// But it ends after the one under way when another interrupt is pending: that comes next, and the timers that are due go
/// on behind it. So several that expire at once keep no device waiting for more than one of them.
#[cfg_attr(feature = "fast-paths", inline(always))]
fn expire(scheduled: &mut Scheduled, cpu: CpuRef, at: Instant) {
    let Some(first) = scheduled.cpu(cpu).timers.pop_expired(at) else {
        return expire_slice(scheduled, cpu, at);
    };
    if run(scheduled, cpu, first, at) {
        expire_others(scheduled, cpu, at);
    }
    let sched = scheduled.cpu(cpu);
    sched.armed = sched.timers.next_deadline();
    // With nothing to wait for, whoever was woken will soon set it, or the idle thread will.
    if sched.armed != Instant::NEVER {
        apic::arm(sched.armed);
    }
}

/// The slice's timer may be due where no other is; or the interrupt is one for nothing.
#[cold]
#[inline(never)]
fn expire_slice(scheduled: &mut Scheduled, cpu: CpuRef, at: Instant) {
    if let Some(slice) = scheduled.cpu(cpu).timers.pop_expired_0(at)
        && run(scheduled, cpu, slice, at)
    {
        expire_others(scheduled, cpu, at);
    }
    let sched = scheduled.cpu(cpu);
    sched.armed = sched.earliest_deadline();
    if sched.armed != Instant::NEVER {
        apic::arm(sched.armed);
    }
}

/// Apart, since one timer at a time is what most interrupts find.
#[cold]
#[inline(never)]
fn expire_others(scheduled: &mut Scheduled, cpu: CpuRef, at: Instant) {
    while !apic::is_other_pending() {
        proof::bounded!("timers that are due behind the first");
        let next = scheduled.cpu(cpu).timers.pop_further_expired(at);
        #[cfg(feature = "tasks")]
        if next.is_some_and(|next| next.0 == timers::SLICE) && scheduled.cpu(cpu).charged.is_some()
        {
            // What becomes of a budget is another interrupt's.
            return timers::insert(scheduled, timers::SLICE, at);
        }
        if !next.is_some_and(|next| run(scheduled, cpu, next, at)) {
            return;
        }
    }
}

/// Runs a timer that has expired; says whether the next one is due as well.
#[cfg_attr(feature = "fast-paths", inline(always))]
fn run(
    scheduled: &mut Scheduled,
    cpu: CpuRef,
    (id, deadline): (TimerId, Instant),
    at: Instant,
) -> bool {
    trace!(timer_expire, id.raw(), deadline.cycles());
    let index = id.index();
    if index >= MAX_THREADS {
        soft_timer::expired(scheduled, id, Expiry { deadline, at });
    } else if !WATCHERS || id != timers::SLICE {
        timed_out(scheduled, ThreadId::new(index as u8));
    } else {
        #[cfg(feature = "tasks")]
        if overrun::expired(scheduled, cpu) {
            // That is long enough for one interrupt.
            return false;
        }
        quantum::slice_ended(scheduled, cpu, at);
    }
    scheduled.cpu(cpu).timers.next_deadline() <= at
}

/// A thread's time-out has come.
#[cfg_attr(feature = "fast-paths", inline(always))]
fn timed_out(scheduled: &mut Scheduled, tid: ThreadId) {
    let thread = TcbRef::of(tid);
    let t = scheduled.look_at(thread);
    if t.woken != Woken::Not {
        // It was woken and has not come to disarm it.
        return;
    }
    if !t.wait_queue.is_null() || is_smp!() && t.wait.is_shared() {
        return timed_out_of_object(scheduled, thread);
    }
    sched::wake(scheduled, thread, Woken::TimedOut);
}

/// [`timed_out`] of a thread that waits for what others may give it. Apart, since the calls that it takes would have the way of
/// every timer keep registers.
#[inline(never)]
fn timed_out_of_object(scheduled: &mut Scheduled, thread: TcbRef) {
    let taken_out = |kernel: &mut Kernel| {
        // Another CPU may have been first.
        if is_smp!() && kernel.look_at(thread).woken != Woken::Not {
            return None;
        }
        let waits_for_mutex = MUTEXES && !kernel.look_at(thread).blocked_on.is_null();
        wait::leave_queue(kernel, thread);
        kernel.thread(thread).woken = Woken::TimedOut;
        Some(if waits_for_mutex {
            waiter_gone(kernel, thread)
        } else {
            None
        })
    };
    let Some(owner) = scheduled.with_lock(|| thread.lock(), taken_out) else {
        return;
    };
    sched::wake(scheduled, thread, Woken::TimedOut);
    if let Some(owner) = owner {
        walk(scheduled, owner);
    }
}

/// The thread no longer waits for a mutex. Gives the owner.
#[cold]
#[inline(never)]
fn waiter_gone(kernel: &mut Kernel, t: TcbRef) -> Option<ThreadId> {
    kernel.mutex_of(t)?.waiter_gone(kernel, t)
}

/// Whether a thread that someone does not wait for any more is less important now, or charged to another account.
#[cfg(feature = "tasks")]
fn may_have_lost(kernel: &mut Kernel, owner: TcbRef) -> bool {
    let o = kernel.look_at(owner);
    let needed = effective_priority(o.base, o.inherits.top());
    o.prio != needed || budget::is_watched(kernel)
}

/// What the owners along the chain have inherited through a waiter is taken back by this interrupt and not by that thread, which
/// may not run for long.
#[cold]
#[inline(never)]
fn walk(scheduled: &mut Scheduled, owner: ThreadId) {
    // Whom a task calls is mostly more important for other reasons. Elsewhere that is rare, and the look would only take longer.
    #[cfg(feature = "tasks")]
    if !scheduled.with_chains(|kernel| may_have_lost(kernel, TcbRef::of(owner))) {
        return;
    }
    scheduled.nest(|| {
        let _ = pi::walk_on::<true>(owner, 0);
    });
}

/// The function of the timer for what was deferred.
pub(crate) fn do_deferred(_: usize, _: Expiry) {
    deferred::run(|left| match left {
        Left::Walk(tid, nr_visited) => {
            if MUTEXES {
                // A chain that is too long ends there, as for whoever began.
                let _ = pi::walk_on::<true>(tid, nr_visited);
            }
        }
        #[cfg(feature = "tasks")]
        Left::Tell(number) => overrun::tell(number),
        #[cfg(feature = "tasks")]
        Left::Refill(number) => overrun::await_period(number),
    });
}
