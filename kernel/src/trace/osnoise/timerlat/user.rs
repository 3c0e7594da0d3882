//! Threads of tasks in the place of the tracer's own, where the option `OSNOISE_WORKLOAD` is off.

use core::sync::atomic::Ordering::Relaxed;

use takt_tracer::control::osnoise::{Flag, Param};

use super::{INSTANCES, Instance, expired, first, following, timerlat};
use crate::clock::{AtomicInstant, Instant};
use crate::config::{MAX_CPUS, cpu_index};
use crate::error::Error;
use crate::task::timerlat::{self as tasks, Source};
use crate::trace::osnoise::threads::{has, reaches, stop};
use crate::trace_event_irqs_on;

const USER_RETURN: u32 = 2;

static SOURCE: Source = Source {
    opened: |cpu| {
        place(cpu).0.store(first(cpu));
        Ok(())
    },
    expired,
    next,
    woken: Some(woken),
    closed: |_| {},
};

/// The time of each CPU's activation.
static ACTIVATIONS: [AtomicInstant; MAX_CPUS] =
    [const { AtomicInstant::new(Instant::ZERO) }; MAX_CPUS];

fn place(cpu: usize) -> (&'static AtomicInstant, &'static Instance) {
    (&ACTIVATIONS[cpu_index(cpu)], &INSTANCES[cpu_index(cpu)])
}

/// Threads of tasks may be measured from now on, if the tracer has none of its own.
pub(super) fn begin() -> Result<(), Error> {
    match has(Flag::Workload) {
        true => Ok(()),
        false => tasks::offer(&SOURCE),
    }
}

/// They may not any more.
pub(super) fn end() {
    tasks::withdraw(&SOURCE);
}

fn next(cpu: usize, back: Option<Instant>, _ran_at: Instant) -> Option<Instant> {
    let (activation, instance) = place(cpu);
    let mut due = activation.load();
    let seqnum = instance.seqnum.load(Relaxed);
    if let Some(now) = back {
        let latency = now.wrapping_since(due);
        trace_event_irqs_on!(timerlat, USER_RETURN, seqnum, latency.get());
        if reaches(Param::StopTracingTotal, latency) {
            stop(cpu);
        }
    }
    // Of one that waits for the first time the next counts: what came before is no latency of its.
    if back.is_some() || due <= Instant::now() {
        due = following(due);
        activation.store(due);
    }
    instance.seqnum.store(seqnum.wrapping_add(1), Relaxed);
    Some(due)
}

fn woken(cpu: usize, due: Instant, now: Instant) {
    place(cpu).1.thread_ran(cpu, due, now);
}
