//! cyclictest: threads of growing interval that sleep until an absolute time.
//!
//! Source: rt-tests, `cyclictest(8)`.

use takt_kernel::time::{AtomicCycles, AtomicInstant, Cycles, Instant, Nanos, sleep_until};
use takt_kernel::{Error, smp, thread};

use super::{SHARED, account, ended, is_over, spawn, status, thread_ran};
use crate::config::Config;
use crate::stats::MAX_SLOTS;

static INTERVALS: [AtomicCycles; MAX_SLOTS] =
    [const { AtomicCycles::new(Cycles::ZERO) }; MAX_SLOTS];
static STARTS: [AtomicInstant; MAX_SLOTS] =
    [const { AtomicInstant::new(Instant::ZERO) }; MAX_SLOTS];

const NAMES: [&str; MAX_SLOTS] = [
    "cyclic/0", "cyclic/1", "cyclic/2", "cyclic/3", "cyclic/4", "cyclic/5", "cyclic/6", "cyclic/7",
];

/// Starts the threads, spread over the measured CPUs; says how many.
pub(super) fn start(config: &Config) -> Result<u32, Error> {
    let is_measured = |cpu: &usize| config.cpus.has(*cpu) && takt_kernel::smp::is_online(*cpu);
    let mut cpus = (0..MAX_SLOTS).filter(is_measured).cycle();
    for (n, name) in NAMES.iter().enumerate().take(config.threads as usize) {
        let interval = config.interval_of(n as u64);
        INTERVALS[n].store(Nanos::new(interval).to_cycles());
        let start = SHARED
            .start
            .load()
            .wrapping_add(Nanos::new(n as u64 * config.stagger_ns).to_cycles());
        STARTS[n].store(start);
        let cpu = cpus.next().unwrap_or(0);
        spawn(name, config.prio_of(n as u8), config, cpu, n, thread_main)?;
    }
    Ok(config.threads)
}

fn thread_main(slot: usize) {
    if run(slot).is_err() {
        defmt::error!("cyclictest: thread {=usize} could not run", slot);
    }
    ended();
}

fn run(slot: usize) -> Result<(), Error> {
    let status = status();
    let Some(stats) = status.slot(slot) else {
        return Err(Error::InvalidArgument);
    };
    let interval = INTERVALS[slot % MAX_SLOTS].load();
    let me = thread::current();
    let prio = me.priority()?;
    let cpu = smp::this_cpu();
    stats.open(
        cpu as u32,
        u32::from(me.id()),
        u32::from(prio),
        interval.to_nanos().get(),
    );
    let mut abs = STARTS[slot % MAX_SLOTS].load();
    let mut seq = 0u32;
    while !is_over(abs) {
        seq = seq.wrapping_add(1);
        super::housekeeping(cpu, abs);
        sleep_until(abs)?;
        let now = Instant::now();
        thread_ran(slot, seq, abs, now);
        abs = account(stats, None, abs, now, interval);
    }
    Ok(())
}
