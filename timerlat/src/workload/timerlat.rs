//! timerlat: one thread a CPU, woken by a timer at absolute times.
//!
//! Both latencies count from the absolute time of the activation: the interrupt's to the time stamp taken by the third
//! instruction of the interrupt entry, the thread's to its own reading of the clock, the first thing it does when it
//! runs. The sequence number relates the two.
//!
//! Source: Linux, `Documentation/trace/timerlat-tracer.rst`.

use core::sync::atomic::{AtomicU32, Ordering::Relaxed};

use takt_kernel::thread;
use takt_kernel::time::{AtomicCycles, Cycles, Expiry, Instant, Timer};
use takt_kernel::{Error, smp, trace_event_irqs_off};

use super::{
    SHARED, account, ended, events, is_over, recorded, spawn, status, thread_ran, threshold_hit,
};
use crate::config::Config;
use crate::stats::{MAX_SLOTS, Measure};

/// What the interrupt and the thread of one CPU share.
#[repr(align(64))]
pub(super) struct Instance {
    pub(super) seq: AtomicU32,
    pub(super) irq_latency: AtomicCycles,
}

pub(super) static INSTANCES: [Instance; MAX_SLOTS] = [const {
    Instance {
        seq: AtomicU32::new(0),
        irq_latency: AtomicCycles::new(Cycles::ZERO),
    }
}; MAX_SLOTS];

const NAMES: [&str; MAX_SLOTS] = [
    "timerlat/0",
    "timerlat/1",
    "timerlat/2",
    "timerlat/3",
    "timerlat/4",
    "timerlat/5",
    "timerlat/6",
    "timerlat/7",
];

/// Starts a thread on every measured CPU; says how many.
pub(super) fn start(config: &Config) -> Result<u32, Error> {
    let mut nr = 0;
    for (cpu, name) in NAMES.iter().enumerate() {
        if config.cpus.has(cpu) && takt_kernel::smp::is_online(cpu) {
            spawn(name, config.prio, config, cpu, cpu, thread_main)?;
            nr += 1;
        }
    }
    Ok(nr)
}

/// In the timer's interrupt.
pub(super) fn expired(slot: usize, expiry: Expiry) {
    let instance = &INSTANCES[slot % MAX_SLOTS];
    let latency = expiry.at.wrapping_since(expiry.deadline);
    instance.irq_latency.store(latency);
    let seq = instance.seq.load(Relaxed);
    if latency > SHARED.long_irq.load() {
        return expired_late(slot, seq, latency);
    }
    trace_event_irqs_off!(events::timerlat_irq, slot as u32, seq, latency.get() as u32);
}

/// The sample above the threshold is recorded, and then nothing more.
#[cold]
fn expired_late(slot: usize, seq: u32, latency: Cycles) {
    trace_event_irqs_off!(events::timerlat_irq, slot as u32, seq, recorded(latency));
    if latency > SHARED.stop_irq.load() {
        threshold_hit(Measure::Irq, slot, latency, u64::from(seq));
    }
}

fn thread_main(slot: usize) {
    if run(slot).is_err() {
        defmt::error!("timerlat: CPU {=usize} has no timer left", slot);
    }
    ended();
}

/// The time of a CPU's first activation. Staggered over the CPUs: activations on several CPUs at once would measure one another
/// (and under icount, where all CPUs share one count of instructions, wait for one another).
#[inline(always)]
pub(super) fn first(cpu: usize) -> Instant {
    let period = SHARED.period.load();
    let stagger = period.get() / u64::from(smp::nr_online()) * cpu as u64;
    SHARED.start.load().wrapping_add(Cycles::new(stagger))
}

fn run(slot: usize) -> Result<(), Error> {
    let instance = &INSTANCES[slot % MAX_SLOTS];
    let timer = Timer::waking(thread::current(), expired, slot)?;
    let status = status();
    let Some(stats) = status.slot(slot) else {
        return Err(Error::InvalidArgument);
    };
    let period = SHARED.period.load();
    let me = thread::current();
    let prio = me.priority()?;
    let cpu = smp::this_cpu();
    stats.open(
        cpu as u32,
        u32::from(me.id()),
        u32::from(prio),
        period.to_nanos().get(),
    );
    let mut abs = first(cpu);
    while !is_over(abs) {
        let seq = instance.seq.load(Relaxed).wrapping_add(1);
        instance.seq.store(seq, Relaxed);
        super::housekeeping(cpu, abs);
        timer.arm(abs);
        thread::park(Instant::NEVER)?;
        let now = Instant::now();
        thread_ran(slot, seq, abs, now);
        let irq = instance.irq_latency.load();
        abs = account(stats, Some(irq), abs, now, period);
    }
    Ok(())
}
