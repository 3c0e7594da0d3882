//! The workloads: what is measured and against which load.
//!
//! [`run`] starts the measured threads and the loads, waits for the end (the duration, a threshold, or the host's
//! command), and leaves the results in the [`Status`] block.

pub mod events;

mod cyclictest;
pub(crate) mod load;
mod plant;
mod timerlat;
#[cfg(feature = "tasks")]
mod user;

use core::sync::atomic::Ordering::Relaxed;

use takt_kernel::config::{self, WORKLOAD_STACK_SIZE};
use takt_kernel::sync::{Semaphore, SetOnce};
use takt_kernel::time::{self, AtomicCycles, AtomicInstant, Cycles, Instant, Nanos};
use takt_kernel::{Error, smp, thread, thread_stack, trace, trace_event_irqs_on};

use crate::config::{self as measurement, Config, LOAD_PRIORITY, Load, Workload};
use crate::stats::{MAX_CPUS, MAX_SLOTS, MAX_THREADS, Measure, RunState, SlotStats, Status};

/// What a workload needs of its surroundings.
#[derive(Clone, Copy)]
pub struct Hooks {
    /// Takes a command byte of the host (`s`: stop).
    pub command: fn() -> Option<u8>,
    /// Hands recorded trace over, for loads that never let the CPU go idle.
    pub hand_over: fn(),
    /// Starts tasks, whose threads are measured then instead of the kernel's own.
    #[cfg(feature = "tasks")]
    pub tasks: Option<StartTasks>,
}

/// Starts tasks; gives how many of them are measured, or 0 where that shows: then the run lasts for as long as it is to.
#[cfg(feature = "tasks")]
pub type StartTasks = fn(&Config) -> Result<u32, Error>;

thread_stack!(
    /// Stacks of the measured threads.
    static STACKS: [WORKLOAD_STACK_SIZE; MAX_SLOTS]
);

/// No section that the load `plant` plants is longer: nothing else runs on its CPU.
const LONGEST_SECTION: Nanos = Nanos::from_secs(10);

/// No other time of a configuration is longer: a year, so that sums of them do not wrap.
const LONGEST: Nanos = Nanos::from_secs(365 * 24 * 3600);

// The host knows the status block's layout, so its room does not grow with the kernel's.
const _: () = assert!(
    config::MAX_CPUS <= MAX_CPUS,
    "TAKT_MAX_CPUS is above what the status block has room for: takt_timerlat::stats::MAX_CPUS"
);
const _: () = assert!(
    config::MAX_THREADS <= MAX_THREADS,
    "TAKT_MAX_THREADS is above what the status block has room for: takt_timerlat::stats::MAX_THREADS"
);
const _: () = assert!(
    MAX_CPUS <= MAX_SLOTS,
    "timerlat has a slot for each CPU that the status block has room for"
);

/// What the measured threads share, as plain words so that the interrupt reads them without ado.
struct Shared {
    /// An interrupt's latency that is longer is looked at: above [`stop_irq`](Self::stop_irq), or above what a record has room for.
    long_irq: AtomicCycles,
    /// The same of a thread.
    long_thread: AtomicCycles,
    stop_irq: AtomicCycles,
    stop_thread: AtomicCycles,
    period: AtomicCycles,
    start: AtomicInstant,
    measure_from: AtomicInstant,
    /// [`Instant::ZERO`] where it was stopped.
    end: AtomicInstant,
}

static SHARED: Shared = Shared {
    long_irq: AtomicCycles::new(Cycles::MAX),
    long_thread: AtomicCycles::new(Cycles::MAX),
    stop_irq: AtomicCycles::new(Cycles::MAX),
    stop_thread: AtomicCycles::new(Cycles::MAX),
    period: AtomicCycles::new(Cycles::ZERO),
    start: AtomicInstant::new(Instant::ZERO),
    measure_from: AtomicInstant::new(Instant::ZERO),
    end: AtomicInstant::new(Instant::NEVER),
};

static STATUS: SetOnce<&'static Status> = SetOnce::new();
static HOOKS: SetOnce<Hooks> = SetOnce::new();

fn status() -> &'static Status {
    STATUS.get().expect("set by `run` before any thread starts")
}

fn hooks() -> &'static Hooks {
    HOOKS.get().expect("set by `run` before any thread starts")
}

/// Whether the run is over.
fn is_over(now: Instant) -> bool {
    now >= SHARED.end.load()
}

/// Ends the run at once.
fn stop_now() {
    SHARED.end.store(Instant::ZERO);
}

/// The thread of that slot, whose activation was due then, ran: records its latency, and ends the run if that is above the threshold.
#[inline(always)]
fn thread_ran(slot: usize, seq: u32, due: Instant, ran_at: Instant) {
    let latency = ran_at.wrapping_since(due);
    if latency > SHARED.long_thread.load() {
        return thread_ran_late(slot, seq, due, ran_at);
    }
    trace_event_irqs_on!(
        events::timerlat_thread,
        slot as u32,
        seq,
        latency.get() as u32
    );
}

#[cold]
#[inline(never)]
fn thread_ran_late(slot: usize, seq: u32, due: Instant, ran_at: Instant) {
    if ran_at < due {
        // Somebody else has woken it.
        return;
    }
    let latency = ran_at.wrapping_since(due);
    trace_event_irqs_on!(events::timerlat_thread, slot as u32, seq, recorded(latency));
    if latency > SHARED.stop_thread.load() {
        threshold_hit(Measure::Thread, slot, latency, u64::from(seq));
    }
}

/// The longest latency that a record has room for.
const LONGEST_RECORDED: Cycles = Cycles::new(u32::MAX as u64);

/// A latency as it is recorded: what is longer than there is room for is the longest of them.
fn recorded(latency: Cycles) -> u32 {
    latency.min(LONGEST_RECORDED).get() as u32
}

/// A latency above its threshold: stops tracing first, so that the trace ends with the culprit.
#[cold]
fn threshold_hit(which: Measure, slot: usize, latency: Cycles, seq: u64) {
    // What comes while warming up does not count. An activation's latency reaches back to its time, so the time of the
    // sample is late enough to tell.
    let activation = Instant::now().wrapping_sub(latency);
    if activation < SHARED.measure_from.load() {
        return;
    }
    trace::tracing_off();
    let status = status();
    if status.state.load(Relaxed) == RunState::Running as u32 {
        status.set_state(RunState::Threshold);
        let cpu = status.slot(slot).map_or(0, |slot| slot.cpu.load(Relaxed));
        status
            .stop
            .set(which, cpu, slot as u32, latency.to_nanos().get(), seq);
    }
    stop_now();
}

/// One sample: statistics in nanoseconds, and the missed activations that it shows. Returns the next activation.
///
/// Never inlined: function tracers have one call for each sample.
#[inline(never)]
fn account(
    slot: &SlotStats,
    irq: Option<Cycles>,
    abs: Instant,
    now: Instant,
    period: Cycles,
) -> Instant {
    record(slot, irq, abs, now);
    advance(slot, abs, period)
}

/// Whether an activation at that time counts.
#[inline(always)]
fn is_measured(abs: Instant) -> bool {
    abs >= SHARED.measure_from.load()
}

#[inline(always)]
fn record(slot: &SlotStats, irq: Option<Cycles>, abs: Instant, now: Instant) {
    if is_measured(abs) {
        if now < abs {
            slot.negative
                .store(slot.negative.load(Relaxed) + 1, Relaxed);
        } else {
            if let Some(irq) = irq {
                slot.irq.record(irq.to_nanos().get());
            }
            slot.thread.record(now.wrapping_since(abs).to_nanos().get());
        }
    }
}

/// The activation behind the one at `abs`.
#[inline(always)]
fn advance(slot: &SlotStats, abs: Instant, period: Cycles) -> Instant {
    let next = abs.wrapping_add(period);
    let after = Instant::now();
    if next <= after {
        return skip(slot, next, after, period);
    }
    next
}

/// Activations whose time has passed are skipped and counted, as rtla and cyclictest do, not made up for: those from `next`
/// to `after`. What lies in the measurement is so either a sample or missed. Returns the next activation.
#[cold]
fn skip(slot: &SlotStats, next: Instant, after: Instant, period: Cycles) -> Instant {
    let nr = after.wrapping_since(next).get() / period.get() + 1;
    let resumed = next.wrapping_add(Cycles::new(nr * period.get()));
    let end = match SHARED.end.load() {
        // Stopped early: at this activation.
        Instant::ZERO => resumed,
        end => end.min(resumed),
    };
    let nr_before = |time: Instant| (time - next).get().div_ceil(period.get());
    let missed = nr_before(end).saturating_sub(nr_before(SHARED.measure_from.load()));
    slot.missed
        .store(slot.missed.load(Relaxed) + missed, Relaxed);
    resumed
}

/// Runs the workload to its end; the results are in `status`.
///
/// # Errors
/// What creating a thread or timer may fail with; [`Error::InvalidArgument`] if no measured CPU runs or a number is
/// out of range; [`Error::InvalidState`] if a workload has begun in this boot.
///
/// # Context
/// A thread of middling priority: below the measured ones, above the loads. Once in a boot.
pub fn run(config: &Config, status: &'static Status, hooks: Hooks) -> Result<(), Error> {
    let cpus = (0..MAX_SLOTS)
        .filter(|cpu| config.cpus.has(*cpu) && smp::is_online(*cpu))
        .count();
    // Loads run below the measured threads.
    let lowest = match config.workload {
        Workload::Timerlat | Workload::None => config.prio,
        Workload::Cyclictest => config.prio_of((config.threads as u8).saturating_sub(1)),
    };
    if config.load != Load::None && lowest <= LOAD_PRIORITY {
        return Err(Error::InvalidArgument);
    }
    // Nobody would look for the host's command to stop.
    let is_endless = config.workload == Workload::None && config.duration_ns == 0;
    let cycles = |ns: u64| Nanos::new(ns).to_cycles();
    let period = cycles(config.period_ns);
    let times = [
        config.period_ns,
        config.offset_ns,
        config.align_ns,
        config.warmup_ns,
        config.duration_ns,
        config.stagger_ns,
        config.interval_of(u64::from(config.threads).saturating_sub(1)),
    ];
    let is_too_long =
        times.into_iter().any(|ns| ns > LONGEST.get()) || config.plant_ns > LONGEST_SECTION.get();
    let has_slots = config.workload != Workload::Cyclictest
        || (1..=MAX_SLOTS).contains(&(config.threads as usize));
    if is_endless
        || is_too_long
        || !has_slots
        || cpus == 0
        || period == Cycles::ZERO
        || config.prio == 0
        || config.prio > 99
    {
        return Err(Error::InvalidArgument);
    }
    if STATUS.get().is_some() {
        return Err(Error::InvalidState);
    }
    STATUS.set(status);
    HOOKS.set(hooks);
    let limit = |ns: u64| match ns {
        0 => Cycles::MAX,
        ns => cycles(ns),
    };
    let (stop_irq, stop_thread) = (limit(config.stop_irq_ns), limit(config.stop_thread_ns));
    SHARED.stop_irq.store(stop_irq);
    SHARED.stop_thread.store(stop_thread);
    SHARED.long_irq.store(stop_irq.min(LONGEST_RECORDED));
    SHARED.long_thread.store(stop_thread.min(LONGEST_RECORDED));
    SHARED.period.store(period);
    // The threads are set up before the first activation.
    let lead = cycles(1_000_000).max(period);
    let align = match config.align_ns {
        0 => period,
        ns => cycles(ns),
    };
    let start = Instant::now()
        .wrapping_add(lead)
        .next_multiple_of(align.max(Cycles::new(1)))
        .wrapping_add(cycles(config.offset_ns));
    let measure_from = start.wrapping_add(cycles(config.warmup_ns));
    SHARED.start.store(start);
    SHARED.measure_from.store(measure_from);
    if config.duration_ns != 0 {
        SHARED
            .end
            .store(measure_from.wrapping_add(cycles(config.duration_ns)));
    }
    status.started_tsc.store(measure_from.cycles(), Relaxed);
    load::start(config)?;
    let nr_threads = match config.workload {
        #[cfg(feature = "tasks")]
        Workload::Timerlat if let Some(tasks) = hooks.tasks => user::start(config, tasks)?,
        Workload::Timerlat => timerlat::start(config)?,
        #[cfg(feature = "tasks")]
        Workload::Cyclictest if let Some(tasks) = hooks.tasks => {
            user::start_cyclictest(config, tasks)?
        }
        Workload::Cyclictest => cyclictest::start(config)?,
        Workload::None => 0,
    };
    status.set_state(RunState::Running);
    #[cfg(feature = "tasks")]
    if nr_threads == 0 && hooks.tasks.is_some() {
        user::wait_for_end()?;
        user::withdraw();
        return wait(0);
    }
    if nr_threads == 0 {
        // Without a look at the host in between: it would be noise.
        time::sleep_until(SHARED.end.load())?;
    }
    wait(nr_threads)?;
    #[cfg(feature = "tasks")]
    user::withdraw();
    Ok(())
}

/// Waits until all measured threads have ended.
///
/// Without a timer of its own: in an idle system nothing but the measured timers is armed.
fn wait(nr_threads: u32) -> Result<(), Error> {
    for _ in 0..nr_threads {
        ENDED.take()?;
    }
    let status = status();
    status.ended_tsc.store(Instant::now().cycles(), Relaxed);
    if status.state.load(Relaxed) == RunState::Running as u32 {
        status.set_state(RunState::Done);
    }
    Ok(())
}

/// Given by each measured thread at its end.
static ENDED: Semaphore = Semaphore::new(0, MAX_SLOTS as u32);

/// Before the activation at `next`, and after the sample of the one before: a command of the host's, a sign of life, and
/// room for the records of that activation, all for when the idle thread never runs.
fn housekeeping(cpu: usize, next: Instant) {
    if (hooks().command)() == Some(b's') {
        stop_now();
    }
    if let Some(of_cpu) = status().cpus.get(cpu) {
        of_cpu
            .heartbeat
            .store(takt_kernel::irq::count(cpu), Relaxed);
    }
    takt_kernel::trace::prepare(next);
}

/// Marks the calling thread as ended.
fn ended() {
    // No more than MAX_SLOTS threads are started.
    let _ = ENDED.give();
}

/// How long a turn of a measured thread is under round robin: Linux's default.
const QUANTUM: Nanos = Nanos::from_millis(100);

/// Creates the thread of slot `slot` on `cpu`.
fn spawn(
    name: &'static str,
    prio: u8,
    config: &Config,
    cpu: usize,
    slot: usize,
    entry: fn(usize),
) -> Result<thread::Thread, Error> {
    let stack = STACKS.get(slot).ok_or(Error::OutOfResources)?;
    thread::Builder::new(name, prio)?
        .policy(match config.policy {
            measurement::Policy::Fifo => thread::Policy::Fifo,
            measurement::Policy::RoundRobin => thread::Policy::RoundRobin(QUANTUM),
        })
        .cpu(cpu)
        .spawn(stack, entry, slot)
}
