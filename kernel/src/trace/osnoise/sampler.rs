//! The tracer `osnoise`: a thread on each CPU that reads the clock over and over. Two readings that are farther apart than
//! the threshold are noise, and the kernel's own counters say what came in between: interrupts, NMIs, other threads. Noise
//! with none of them is the hardware's, or whatever runs beneath.

use takt_tracer::{event, event_class};

use super::noise::Interference;
use super::threads::{ENDS, end, get, has, names, reaches, start, stop};
use crate::arch::proof;
use crate::clock::{Cycles, Instant, Nanos};
use crate::config::MAX_CPUS;
use crate::error::Error;
use crate::preempt;
use crate::trace::latency;
use crate::trace::tracer::Tracer;
use crate::trace_event;
use takt_tracer::control::Tracer as Name;
use takt_tracer::control::osnoise::{Flag, Param};

event_class! {
    /// What one sampling has shown.
    pub class Sample = "osnoise", wide {
        runtime: 64 cycles, noise: 64 cycles, max_sample: 32 cycles,
        irq_count: 32 u, hw_count: 16 u, nmi_count: 16 u, softirq_count: 12 u, thread_count: 20 u,
    }
    print "{runtime} {noise} {max_sample} {hw_count} {nmi_count} {irq_count} {softirq_count} {thread_count}";
}
event! {
    /// Emitted by the tracer's thread after each sampling.
    pub osnoise: Sample = wide "ftrace:osnoise";
}
event_class! {
    /// A noise.
    pub class Noise = "sample_threshold", wide { start: 64 cycles, duration: 64 cycles, interference: 32 u }
    print "start {start:time} duration {duration} ns interference {interference}";
}
event! {
    /// Emitted by the tracer's thread after a noise that is longer than the threshold.
    pub sample_threshold: Noise = wide "osnoise:sample_threshold";
}

/// Below everything that is to be measured against, as Linux's threads, which are not real-time threads at first; but above
/// what only computes, or it would never run again once it has slept.
const PRIO: u8 = 2;
/// The threshold while `tracing_thresh` is 0, as in Linux.
const DEFAULT_THRESH: Nanos = Nanos::from_micros(1);
/// How long the thread sleeps at least between two samplings, as in Linux.
const PAUSE: Nanos = Nanos::from_millis(1);

static NAMES: [&str; MAX_CPUS] = names!("osnoise");

pub(in crate::trace) static OSNOISE: Tracer =
    Tracer::new(Name::Osnoise, &[&osnoise::ID], begin, end);

fn begin() -> Result<(), Error> {
    start(&NAMES, PRIO, true, body)
}

fn body(cpu: usize) {
    while !ENDS.load(core::sync::atomic::Ordering::Relaxed) {
        let begun = Instant::now();
        sample(cpu);
        let period = Nanos::new(get(Param::Period)).to_cycles();
        let pause = PAUSE.to_cycles();
        let next = (begun + period).max(Instant::now() + pause);
        // Woken early it ends.
        let _ = crate::thread::park::park(next);
    }
}

/// What was seen in a sampling.
#[derive(Default)]
struct Seen {
    noise: Cycles,
    longest: Cycles,
    nr_hw: u32,
}

/// Samples for the runtime.
fn sample(cpu: usize) {
    let runtime = Nanos::new(get(Param::Runtime)).to_cycles();
    let before = Interference::now();
    let (seen, took) = if has(Flag::IrqDisable) {
        let _guard = preempt::irq_save();
        watch(cpu, runtime)
    } else if has(Flag::PreemptDisable) {
        let _guard = preempt::disable();
        watch(cpu, runtime)
    } else {
        watch(cpu, runtime)
    };
    let during = Interference::now().since(before);
    trace_event!(
        osnoise,
        took.get(),
        seen.noise.get(),
        at_most(seen.longest.get(), 32),
        during.irqs,
        at_most(seen.nr_hw.into(), 16),
        at_most(during.nmis.into(), 16),
        at_most(during.softirqs.into(), 12),
        at_most(during.threads.into(), 20)
    );
    if reaches(Param::StopTracingTotal, seen.noise) {
        stop(cpu);
    }
}

/// A number in so many bits: what is more is the most of them.
fn at_most(number: u64, bits: u32) -> u32 {
    number.min(u64::MAX >> (64 - bits)) as u32
}

/// The clock, and what had come between by then: nothing has while both were read.
fn look() -> (Instant, Interference) {
    let mut met = Interference::now();
    loop {
        let now = Instant::now();
        let meets = Interference::now();
        if meets == met {
            return (now, met);
        }
        proof::bounded!("interrupts and threads that come between two looks at the clock");
        met = meets;
    }
}

/// Reads the clock for so long; says what it has seen and how long it was.
fn watch(cpu: usize, runtime: Cycles) -> (Seen, Cycles) {
    let mut seen = Seen::default();
    let thresh = latency::thresh_or(|| DEFAULT_THRESH.to_cycles());
    let (begun, mut met) = look();
    let mut last = begun;
    loop {
        // With several CPUs under icount QEMU lets another one run only where one pauses.
        core::hint::spin_loop();
        proof::bounded!("looks at the clock in osnoise's runtime");
        let (now, meets) = look();
        let noise = now.wrapping_since(last);
        let interference = meets.since(met).sum();
        met = meets;
        if noise > thresh {
            seen.nr_hw += u32::from(interference == 0);
            seen.noise = Cycles::new(seen.noise.get() + noise.get());
            seen.longest = seen.longest.max(noise);
            trace_event!(sample_threshold, last.cycles(), noise.get(), interference);
            if reaches(Param::StopTracing, noise) {
                proof::apart!("recording ends at osnoise's limit, with a text that says so");
                stop(cpu);
            }
            // What this took is no noise.
            (last, met) = look();
        } else {
            last = now;
        }
        let took = now.wrapping_since(begun);
        if took >= runtime || ENDS.load(core::sync::atomic::Ordering::Relaxed) {
            return (seen, took);
        }
    }
}
