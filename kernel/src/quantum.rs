//! Round robin: how long a thread may go on while equals wait.
//!
//! A quantum is timed only while it matters: the running thread is a round-robin one and has an equal that waits. The slice's timer
//! is not set back when a quantum is given up: it comes, finds that the one of now ends later, and is armed for that. So at most
//! switches it is armed early enough already.

use takt_scheduler::{Policy, Resched};

use crate::arch::percpu::{self, CpuRef};
use crate::arch::proof;
#[cfg(feature = "tasks")]
use crate::budget;
use crate::clock::{Cycles, Instant};
use crate::section::Scheduled;
use crate::thread::tcb::TcbRef;
use crate::timers::{self, Arming};

/// On a CPU with round-robin threads this one has come to wait behind the running one, or is that and has another priority: it
/// may be an equal from now on. Whether it goes on is then looked at anew where switches are, and its quantum begins there.
#[cold]
#[inline(never)]
pub(crate) fn quantum_needed(scheduled: &mut Scheduled, thread: TcbRef) {
    proof::only_with!("counting at switches");
    let cpu = thread.cpu();
    #[cfg(feature = "tasks")]
    budget::replied(scheduled, cpu);
    if scheduled.running_on(cpu).prio == thread.prio() {
        percpu::set_need_resched();
    }
}

/// The running thread goes on, and may have an equal now.
#[cold]
#[inline(never)]
pub(crate) fn start_quantum(scheduled: &mut Scheduled, cpu: CpuRef) {
    proof::only_with!("counting at switches");
    let running = TcbRef::of(scheduled.cpu(cpu).rq.current());
    let mut end = scheduled.cpu(cpu).quantum_end;
    if end == Instant::NEVER {
        let Some(begun) = quantum_end(scheduled, cpu, running, Instant::now()) else {
            return;
        };
        scheduled.cpu(cpu).quantum_end = begun;
        end = begun;
    }
    timers::hasten_slice(scheduled, cpu, end, Arming::Now);
}

/// When the quantum of a thread ends that runs from `now` on, if it is to be timed.
#[inline(always)]
fn quantum_end(
    scheduled: &mut Scheduled,
    cpu: CpuRef,
    running: TcbRef,
    now: Instant,
) -> Option<Instant> {
    #[cfg(feature = "tasks")]
    if scheduled.cpu(cpu).charged.is_some() {
        // The slice is its budget's.
        return None;
    }
    let (rq, links) = scheduled.ready(cpu);
    let has_peer = rq.has_peer(links);
    let running = scheduled.look_at(running);
    (running.round_robin != 0 && has_peer).then(|| {
        now + match running.quantum_left {
            Cycles::ZERO => running.quantum,
            left => left,
        }
    })
}

/// The slice's timer has come, for the running thread's quantum or for one that was given up.
#[cold]
#[inline(never)]
pub(crate) fn slice_ended(scheduled: &mut Scheduled, cpu: CpuRef, at: Instant) {
    proof::only_with!("counting at switches");
    let end = scheduled.cpu(cpu).quantum_end;
    if end == Instant::NEVER {
        return;
    }
    if end > at {
        // The timer is armed for it where it is known that this thread goes on.
        return percpu::set_need_resched();
    }
    scheduled.cpu(cpu).quantum_end = Instant::NEVER;
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
#[inline(always)]
pub(crate) fn switch_quantum(
    scheduled: &mut Scheduled,
    cpu: CpuRef,
    prev: TcbRef,
    next: TcbRef,
    now: Instant,
    arming: Arming,
) {
    let end = core::mem::replace(&mut scheduled.cpu(cpu).quantum_end, Instant::NEVER);
    let left = scheduled.thread(prev);
    if left.round_robin != 0 {
        // A thread that was preempted or yielded keeps the rest; one that waited starts anew.
        let keeps_rest = end != Instant::NEVER && left.state == 0;
        left.quantum_left = if keeps_rest { end - now } else { Cycles::ZERO };
    }
    #[cfg(feature = "tasks")]
    {
        budget::left(scheduled, prev);
        budget::switch_budget(scheduled, cpu, next, now);
    }
    if let Some(end) = quantum_end(scheduled, cpu, next, now) {
        scheduled.cpu(cpu).quantum_end = end;
        timers::hasten_slice(scheduled, cpu, end, arming);
    }
}
