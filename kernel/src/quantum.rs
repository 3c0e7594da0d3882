//! Round robin: how long a thread may go on while equals wait.
//!
//! A quantum is timed only while it matters: the running thread is a round-robin one and has an equal that waits.

use takt_scheduler::{Cancelled, Policy, Resched};

use crate::arch::percpu::{self, CpuRef};
use crate::arch::proof;
#[cfg(feature = "tasks")]
use crate::budget;
use crate::clock::{Cycles, Instant};
use crate::section::Scheduled;
use crate::thread::tcb::TcbRef;
use crate::timers::{self, SLICE};

/// A thread came to wait beside the running one, on a CPU with round-robin threads: one of the same priority now needs
/// its quantum timed.
#[cold]
#[inline(never)]
pub(crate) fn quantum_needed(scheduled: &mut Scheduled, woken: TcbRef) {
    proof::only_with!("counting at switches");
    let cpu = woken.cpu();
    #[cfg(feature = "tasks")]
    budget::replied(scheduled, cpu);
    let running = scheduled.running_on(cpu);
    if running.round_robin != 0 && running.prio == woken.prio() {
        start_quantum(scheduled, cpu);
    }
}

#[cold]
pub(crate) fn start_quantum(scheduled: &mut Scheduled, cpu: CpuRef) {
    proof::only_with!("counting at switches");
    #[cfg(feature = "tasks")]
    budget::replied(scheduled, cpu);
    let running = scheduled.running_on(cpu);
    let left = match running.quantum_left {
        Cycles::ZERO => running.quantum,
        left => left,
    };
    let is_round_robin = running.round_robin != 0;
    let (rq, links) = scheduled.ready(cpu);
    if is_round_robin && rq.has_peer(links) && !scheduled.cpu(cpu).timers.is_armed(SLICE) {
        timers::insert(scheduled, SLICE, Instant::now() + left);
    }
}

/// The running thread's quantum is over.
#[cold]
#[inline(never)]
pub(crate) fn quantum_expired(scheduled: &mut Scheduled, cpu: CpuRef) {
    proof::only_with!("counting at switches");
    let running = scheduled.running_on(cpu);
    running.quantum_left = Cycles::ZERO;
    let policy = if running.round_robin != 0 {
        Policy::RoundRobin
    } else {
        Policy::Fifo
    };
    let (rq, links) = scheduled.ready(cpu);
    if rq.quantum_expired(links, policy) == Resched::Preempt {
        percpu::set_need_resched();
    }
}

/// A round-robin thread is left or taken up: its quantum stops or goes on; and so does what a task may run. The run queue counts
/// `next` as running.
#[cold]
pub(crate) fn switch_quantum(scheduled: &mut Scheduled, cpu: CpuRef, prev: TcbRef, next: TcbRef) {
    if scheduled.look_at(prev).round_robin != 0 {
        let end = scheduled.cpu(cpu).timers.deadline_of(SLICE);
        let left = scheduled.thread(prev);
        // A thread that was preempted or yielded keeps the rest; one that waited starts anew.
        left.quantum_left = match end {
            Some(end) if left.state == 0 => end - Instant::now(),
            _ => Cycles::ZERO,
        };
        let _: Cancelled = scheduled.cpu(cpu).timers.cancel(SLICE);
    }
    #[cfg(feature = "tasks")]
    {
        budget::left(scheduled, prev);
        budget::switch_budget(scheduled, cpu, next, Instant::now());
    }
    if scheduled.look_at(next).round_robin != 0 {
        start_quantum(scheduled, cpu);
    }
}
