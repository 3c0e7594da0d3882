//! The tracer `timerlat`.
//!
//! Both latencies count from the absolute time of the activation: the interrupt's to the time stamp taken by the third
//! instruction of its entry, the thread's to its own reading of the clock, the first thing it does when it runs.

pub(super) mod tracer;
#[cfg(feature = "tasks")]
mod user;

use core::sync::atomic::{AtomicU32, AtomicUsize, Ordering::Relaxed};

use takt_tracer::{event, event_class};

use super::threads::{ENDS, get, has, names, reaches, start, stop};
use crate::clock::{Cycles, Instant, Nanos};
use crate::config::{MAX_CPUS, cpu_index};
use crate::error::Error;
use crate::soft_timer::{Expiry, Timer};
use crate::thread::handle::current;
use crate::thread::park::park;
use crate::trace::stack::{self, MAX_FRAMES};
use crate::{cpus, trace_event_irqs_off, trace_event_irqs_on};
use takt_tracer::control::osnoise::{Flag, Param};

event_class! {
    /// A latency of one activation.
    pub class Latency = "timerlat", core8 {
        context: 8 enum("0=irq,1=thread,2=user-ret"), seqnum: 32 u, timer_latency: 64 cycles,
    }
    print "#{seqnum:<5} context {context:6} timer_latency {timer_latency:9} ns";
}
event! {
    /// Emitted in the timer's interrupt and by the thread that it wakes.
    pub timerlat: Latency = core "ftrace:timerlat";
}

const IRQ: u32 = 0;
const THREAD: u32 = 1;

/// The priority of the threads, as in Linux.
const PRIO: u8 = 95;
static NAMES: [&str; MAX_CPUS] = names!("timerlat");

/// What a CPU's interrupt and thread share. The thread reads it before it arms the timer again.
struct Instance {
    seqnum: AtomicU32,
    /// The stack that the interrupt has come upon.
    frames: [AtomicU32; MAX_FRAMES],
    nr_frames: AtomicUsize,
}

static INSTANCES: [Instance; MAX_CPUS] = [const {
    Instance {
        seqnum: AtomicU32::new(0),
        frames: [const { AtomicU32::new(0) }; MAX_FRAMES],
        nr_frames: AtomicUsize::new(0),
    }
}; MAX_CPUS];

/// The tracer's own threads begin, unless it is to have none.
fn begin() -> Result<(), Error> {
    for instance in &INSTANCES {
        instance.seqnum.store(0, Relaxed);
    }
    start(&NAMES, PRIO, false, body)
}

/// In the timer's interrupt.
fn expired(cpu: usize, expiry: Expiry) {
    let instance = &INSTANCES[cpu_index(cpu)];
    let seqnum = instance.seqnum.load(Relaxed);
    let latency = expiry.at.wrapping_since(expiry.deadline);
    trace_event_irqs_off!(timerlat, IRQ, seqnum, latency.get());
    if get(Param::PrintStack) != 0 {
        instance.save_stack();
    }
    if reaches(Param::StopTracing, latency) {
        // The thread has nothing more to say.
        instance.show_stack(latency);
        stop(cpu);
    }
}

impl Instance {
    /// The thread, whose activation was due then, ran.
    #[inline(always)]
    fn thread_ran(&self, cpu: usize, due: Instant, ran_at: Instant) {
        let latency = ran_at.wrapping_since(due);
        trace_event_irqs_on!(timerlat, THREAD, self.seqnum.load(Relaxed), latency.get());
        self.show_stack(latency);
        if reaches(Param::StopTracingTotal, latency) {
            stop(cpu);
        }
    }

    fn save_stack(&self) {
        let frames = stack::frames();
        for (place, frame) in self.frames.iter().zip(&frames) {
            place.store(*frame, Relaxed);
        }
        self.nr_frames.store(frames.len(), Relaxed);
    }

    /// Records the stack that was saved, if the latency is one to show it for. It is shown once.
    fn show_stack(&self, latency: Cycles) {
        let nr = self.nr_frames.swap(0, Relaxed);
        if nr == 0 || !reaches(Param::PrintStack, latency) {
            return;
        }
        let frames = self.frames.iter().take(nr);
        let frames = frames.map(|frame| frame.load(Relaxed));
        stack::record_frames(&frames.collect());
    }
}

/// The thread of a CPU.
fn body(cpu: usize) {
    // What it can fail for has no one to be told: it is seen that no activation comes.
    let timer = Timer::waking(current(), expired, cpu);
    let result = timer.and_then(|timer| {
        let result = run(cpu, &timer);
        timer.give_back();
        result
    });
    if let Err(error) = result {
        defmt::error!(
            "timerlat: no more activations on CPU {=usize}: {}",
            cpu,
            error
        );
    }
}

fn run(cpu: usize, timer: &Timer) -> Result<(), Error> {
    let instance = &INSTANCES[cpu_index(cpu)];
    let mut next = first(cpu);
    while !ENDS.load(Relaxed) {
        instance
            .seqnum
            .store(instance.seqnum.load(Relaxed).wrapping_add(1), Relaxed);
        timer.arm(next);
        // Whoever wakes it earlier has it end, or means nothing by it.
        let now = loop {
            park(Instant::NEVER)?;
            let now = Instant::now();
            if now >= next || ENDS.load(Relaxed) {
                break now;
            }
        };
        if ENDS.load(Relaxed) {
            break;
        }
        instance.thread_ran(cpu, next, now);
        next = following(next);
    }
    Ok(())
}

/// The time of the activation behind that one. What was missed meanwhile is skipped.
#[inline(always)]
fn following(activation: Instant) -> Instant {
    let period = period();
    let after = Instant::now();
    let next = activation.wrapping_add(period);
    match next <= after {
        true => {
            let nr = after.wrapping_since(next).get() / period.get() + 1;
            next.wrapping_add(Cycles::new(nr * period.get()))
        }
        false => next,
    }
}

fn period() -> Cycles {
    let period = Nanos::new(get(Param::TimerlatPeriod)).to_cycles();
    period.max(Cycles::new(1))
}

/// The first activation, far enough away: on a multiple of the period if the CPUs are to be aligned. Else they are
/// staggered, between the multiples, where other periodic threads may be: activations at once would measure one another.
fn first(cpu: usize) -> Instant {
    let period = period();
    let lead = Nanos::from_millis(1).to_cycles();
    let first = Instant::now().wrapping_add(lead).next_multiple_of(period);
    match has(Flag::TimerlatAlign) {
        true => first,
        false => {
            let each = period.get() / u64::from(cpus::nr_online());
            first.wrapping_add(Cycles::new(period.get() / 2 + each * cpu as u64))
        }
    }
}
