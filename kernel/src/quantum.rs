//! Round robin: how long a thread may go on while equals wait.
//!
//! A quantum is timed only while it matters: the running thread is a round-robin one and has an equal that waits.

use takt_scheduler::{Cancelled, Policy, Resched, TimerId};

use crate::arch::percpu::PerCpu;
use crate::arch::tsc;
use crate::lock::Section;
use crate::sched::{of_cpu, resched};
use crate::thread::tcb::{Tcb, tcb};
use crate::time;

/// A thread came to wait beside the running one, on a CPU with round-robin threads: one of the same priority now needs
/// its quantum timed.
#[inline(always)]
pub(crate) fn quantum_needed(section: &mut Section, woken: &Tcb) {
    // SAFETY: inside a section.
    let sched = unsafe { of_cpu(woken.percpu) };
    // SAFETY: inside a section.
    let running = unsafe { &*tcb(sched.rq.current()) };
    if running.round_robin != 0 && running.prio == woken.prio {
        start_quantum(section, woken.percpu);
    }
}

/// Each CPU's quantum timer. Its number is that of the first CPU's idle thread, which has no time-outs.
pub(crate) const TIMER: TimerId = TimerId::new(0);

#[cold]
pub(crate) fn start_quantum(section: &mut Section, cpu: *mut PerCpu) {
    // SAFETY: inside a section.
    let sched = unsafe { of_cpu(cpu) };
    // SAFETY: inside a section.
    let running = unsafe { &*tcb(sched.rq.current()) };
    if running.round_robin == 0
        || sched.timers.is_armed(TIMER)
        || !sched.rq.has_peer(section.ready_links())
    {
        return;
    }
    let left = if running.quantum_left != 0 {
        running.quantum_left
    } else {
        running.quantum
    };
    time::insert(section, cpu, TIMER, tsc::now().saturating_add(left));
}

/// The running thread's quantum is over.
pub(crate) fn quantum_expired(section: &mut Section, cpu: *mut PerCpu) {
    // SAFETY: inside a section.
    let sched = unsafe { of_cpu(cpu) };
    // SAFETY: inside a section.
    let running = unsafe { &mut *tcb(sched.rq.current()) };
    running.quantum_left = 0;
    let policy = if running.round_robin != 0 {
        Policy::RoundRobin
    } else {
        Policy::Fifo
    };
    if sched.rq.quantum_expired(section.ready_links(), policy) == Resched::Preempt {
        resched(cpu);
    }
}

/// A round-robin thread is left or taken up: its quantum stops or goes on.
#[cold]
pub(crate) fn switch_quantum(section: &mut Section, cpu: *mut PerCpu, prev: &mut Tcb, next: &Tcb) {
    // SAFETY: inside a section.
    let sched = unsafe { of_cpu(cpu) };
    if prev.round_robin != 0 {
        // A thread that was preempted or yielded keeps the rest; one that waited starts anew.
        prev.quantum_left = match sched.timers.deadline_of(TIMER) {
            Some(end) if prev.state == 0 => end.saturating_sub(tsc::now()),
            _ => 0,
        };
        let _: Cancelled = sched.timers.cancel(TIMER);
    }
    if next.round_robin != 0 {
        start_quantum(section, cpu);
    }
}
