//! timerlat and cyclictest of threads of tasks: each waits for its next activation by a call, and says by the next one that its
//! work is done.
//!
//! cyclictest's threads read the clock themselves, in user space, and say by the next call when they ran.
//!
//! Source: Linux, `Documentation/trace/timerlat-tracer.rst`, "User-space interface".

use core::sync::atomic::{AtomicU32, Ordering::Relaxed};

use takt_kernel::task::abi;
use takt_kernel::task::timerlat::{self, Source};
use takt_kernel::time::{AtomicCycles, AtomicInstant, Cycles, Instant, Nanos, sleep};
use takt_kernel::{Error, smp, thread, trace_event_irqs_on};

use super::timerlat::{INSTANCES, expired, first};
use super::{
    SHARED, StartTasks, advance, ended, events, hooks, is_measured, is_over, record, recorded,
    skip, status, stop_now, thread_ran, threshold_hit,
};
use crate::config::{Config, CpuMask};
use crate::stats::{MAX_SLOTS, Measure, SlotStats};

/// The time of each CPU's activation.
static ACTIVATIONS: [AtomicInstant; MAX_SLOTS] =
    [const { AtomicInstant::new(Instant::ZERO) }; MAX_SLOTS];
/// The time between two of them.
static PERIODS: [AtomicCycles; MAX_SLOTS] = [const { AtomicCycles::new(Cycles::ZERO) }; MAX_SLOTS];
/// The CPUs that are measured.
static CPUS: AtomicU32 = AtomicU32::new(0);

static TIMERLAT: Source = Source {
    opened,
    expired,
    next,
    woken: Some(woken),
    closed: |_| ended(),
};

static CYCLICTEST: Source = Source {
    opened,
    expired: |_, _| {},
    next: next_cycle,
    woken: None,
    closed: |_| ended(),
};

/// timerlat measures threads of tasks from now on, which are started. Returns how many are waited for.
pub(super) fn start(config: &Config, start: StartTasks) -> Result<u32, Error> {
    status().has_user.store(1, Relaxed);
    for cpu in 0..MAX_SLOTS {
        let period = SHARED.period.load();
        set(cpu, first(cpu), period);
    }
    start_as(&TIMERLAT, config, start)
}

/// The same of cyclictest, which has a thread on each CPU.
pub(super) fn start_cyclictest(config: &Config, start: StartTasks) -> Result<u32, Error> {
    if config.threads != config.cpus.0.count_ones() {
        return Err(Error::InvalidArgument);
    }
    let cpus = (0..MAX_SLOTS).filter(|cpu| config.cpus.has(*cpu));
    for (n, cpu) in cpus.enumerate() {
        let stagger = Nanos::new(n as u64 * config.stagger_ns).to_cycles();
        let interval = config.interval_of(n as u64);
        let interval = Nanos::new(interval).to_cycles();
        set(cpu, SHARED.start.load() + stagger, interval);
    }
    start_as(&CYCLICTEST, config, start)
}

fn set(cpu: usize, first: Instant, period: Cycles) {
    ACTIVATIONS[cpu].store(first);
    PERIODS[cpu].store(period);
}

fn start_as(source: &'static Source, config: &Config, start: StartTasks) -> Result<u32, Error> {
    CPUS.store(config.cpus.0, Relaxed);
    timerlat::offer(source)?;
    start(config)
}

/// How often it is looked whether a run is over whose threads nobody waits for.
const LOOK: Nanos = Nanos::from_millis(100);

/// Waits until the run is over, whoever is measured.
pub(super) fn wait_for_end() -> Result<(), Error> {
    while !is_over(Instant::now()) {
        sleep(LOOK)?;
        if (hooks().command)() == Some(b's') {
            stop_now();
        }
    }
    Ok(())
}

/// No thread of a task is measured any more.
pub(super) fn withdraw() {
    timerlat::withdraw(&TIMERLAT);
    timerlat::withdraw(&CYCLICTEST);
}

fn slot(cpu: usize) -> (&'static AtomicInstant, Option<&'static SlotStats>) {
    (&ACTIVATIONS[cpu % MAX_SLOTS], status().slot(cpu))
}

fn period(cpu: usize) -> Cycles {
    PERIODS[cpu % MAX_SLOTS].load()
}

fn opened(cpu: usize) -> Result<(), abi::Error> {
    let now = Instant::now();
    let (_, Some(stats)) = slot(cpu) else {
        return Err(abi::Error::InvalidArgument);
    };
    if !CpuMask(CPUS.load(Relaxed)).has(cpu) {
        return Err(abi::Error::InvalidArgument);
    }
    if is_over(now) {
        // The run may wait for it: another CPU's thread was too late, or the host said so, before it came.
        ended();
        return Err(abi::Error::InvalidArgument);
    }
    let (me, period) = (thread::current(), period(cpu));
    let prio = me.priority().map_err(|_| abi::Error::InvalidArgument)?;
    stats.open(
        smp::this_cpu() as u32,
        u32::from(me.id()),
        u32::from(prio),
        period.to_nanos().get(),
    );
    first_of(cpu, stats, now);
    Ok(())
}

/// The first activation of a thread that comes now: what there was before is missed.
fn first_of(cpu: usize, stats: &SlotStats, now: Instant) -> Instant {
    let activation = &ACTIVATIONS[cpu % MAX_SLOTS];
    let due = activation.load();
    if due > now {
        return due;
    }
    let due = skip(stats, due, now, period(cpu));
    activation.store(due);
    due
}

fn next(cpu: usize, back: Option<Instant>, _ran_at: Instant) -> Option<Instant> {
    let (activation, Some(stats)) = slot(cpu) else {
        return None;
    };
    let mut due = activation.load();
    if let Some(now) = back {
        let latency = now.wrapping_since(due);
        let seq = INSTANCES[cpu % MAX_SLOTS].seq.load(Relaxed);
        if latency > SHARED.long_thread.load() {
            returned_late(cpu, seq, due, now);
        } else {
            trace_event_irqs_on!(events::timerlat_user, cpu as u32, seq, latency.get() as u32);
        }
        if is_measured(due) && now >= due {
            status().user[cpu % MAX_SLOTS].record(latency.to_nanos().get());
        }
        due = advance(stats, due, period(cpu));
    } else {
        due = first_of(cpu, stats, Instant::now());
    }
    next_activation(cpu, due)
}

#[cold]
#[inline(never)]
fn returned_late(cpu: usize, seq: u32, due: Instant, now: Instant) {
    if now < due {
        return;
    }
    let latency = now.wrapping_since(due);
    trace_event_irqs_on!(events::timerlat_user, cpu as u32, seq, recorded(latency));
    if latency > SHARED.stop_thread.load() {
        threshold_hit(Measure::User, cpu, latency, u64::from(seq));
    }
}

/// The thread says when it ran.
fn next_cycle(cpu: usize, back: Option<Instant>, ran_at: Instant) -> Option<Instant> {
    let (activation, Some(stats)) = slot(cpu) else {
        return None;
    };
    let mut due = activation.load();
    if back.is_some() {
        let seq = INSTANCES[cpu % MAX_SLOTS].seq.load(Relaxed);
        thread_ran(cpu, seq, due, ran_at);
        record(stats, None, due, ran_at);
        due = advance(stats, due, period(cpu));
    }
    next_activation(cpu, due)
}

/// The next activation is at that time, unless the run is over then.
fn next_activation(cpu: usize, due: Instant) -> Option<Instant> {
    if is_over(due) {
        return None;
    }
    let seq = &INSTANCES[cpu % MAX_SLOTS].seq;
    ACTIVATIONS[cpu % MAX_SLOTS].store(due);
    seq.store(seq.load(Relaxed).wrapping_add(1), Relaxed);
    super::housekeeping(cpu, due);
    Some(due)
}

fn woken(cpu: usize, due: Instant, now: Instant) {
    let instance = &INSTANCES[cpu % MAX_SLOTS];
    thread_ran(cpu, instance.seq.load(Relaxed), due, now);
    if let Some(stats) = status().slot(cpu) {
        record(stats, Some(instance.irq_latency.load()), due, now);
    }
}
