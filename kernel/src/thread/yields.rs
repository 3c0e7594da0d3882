//! Yielding: a thread lets others of its own priority go first.
//!
//! The way where that is allowed and nothing else is due is the kernel's shortest switch. All other cases are apart.

use super::tcb::TcbRef;
use crate::arch::percpu::{self, CpuRef};
use crate::switch::{self, Handoff};
use crate::timers::Arming;
use crate::{sched, section};

/// Lets the calling thread's equals go first. Does nothing where the caller must not be switched out: with preemption or
/// interrupts disabled, in an interrupt handler, in the idle thread.
///
/// # Context
/// Any but NMI.
#[inline(always)]
pub fn yield_now() {
    let me = TcbRef::current();
    // Nobody who is more important is ready, or a reschedule would be due.
    if !percpu::is_calm() || me.atomic() != 0 {
        core::hint::cold_path();
        return yield_to_better();
    }
    let mut section = section::own_thread();
    let cpu = CpuRef::this();
    let sched = section.cpu(cpu);
    let next = sched.rq.next_equal(&sched.links);
    let thread = sched.thread(next);
    // By their blocks: the next one's is needed anyway.
    if thread == me {
        core::hint::cold_path();
        return section.leave_quietly();
    }
    sched.rq.yield_to(next);
    switch::to(section, cpu, me, thread, Arming::Behind).carry_out();
}

/// [`yield_now`] where it may not be allowed, or where a reschedule is due.
#[inline(never)]
fn yield_to_better() {
    if !sched::may_block() {
        return;
    }
    let mut section = section::own_thread();
    let cpu = CpuRef::this();
    let (rq, links) = section.ready(cpu);
    let next = rq.yield_current(links);
    // Yielding cannot fail.
    let _ = Handoff::to_chosen(section, cpu, TcbRef::current(), next).finish();
}
