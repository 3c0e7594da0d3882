//! Loads to measure against, all below the measured threads in priority and repeatable to the instruction.
//!
//! | load | what it does on every measured CPU |
//! |---|---|
//! | `cpu` | one thread computes without end |
//! | `irq` | a timer interrupts every 37 to 100 µs, in a pseudo-random order, and works a little |
//! | `lock` | two threads contend for a mutex with priority inheritance, exchange messages and disable preemption |
//! | `mix` | these three |
//! | `plant` | a thread has interrupts off and preemption off in turn, for `plant_ns` each time (see `plant`) |
//!
//! A load that leaves no idle time hands recorded trace over itself, since the idle thread never runs.

use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

use takt_kernel::config::{WORKLOAD_STACK_SIZE, cpu_index};
use takt_kernel::sync::{Mutex, Queue};
use takt_kernel::thread::{Builder, Stack};
use takt_kernel::time::{Expiry, Instant, Nanos, Timer, sleep};
use takt_kernel::{Error, preempt, smp, thread_stack};

use super::{hooks, plant};
use crate::config::{Config, LOAD_PRIORITY, Load};
use crate::stats::MAX_CPUS;

pub(crate) const CPU_PRIO: u8 = 1;
pub(crate) const LOW_PRIO: u8 = 2;
pub(crate) const HIGH_PRIO: u8 = LOAD_PRIORITY;

/// Threads that `mix` starts on a CPU, the most of all.
const NR_THREADS: usize = 4;

thread_stack!(static STACKS: [WORKLOAD_STACK_SIZE; NR_THREADS * MAX_CPUS]);
static NR_STACKS: AtomicUsize = AtomicUsize::new(0);

fn next_stack() -> Result<&'static Stack<WORKLOAD_STACK_SIZE>, Error> {
    STACKS
        .get(NR_STACKS.fetch_add(1, Relaxed))
        .ok_or(Error::OutOfResources)
}

/// Starts the configured load on every measured CPU.
pub(super) fn start(config: &Config) -> Result<(), Error> {
    let has = |load| config.load == load || config.load == Load::Mix;
    for cpu in (0..MAX_CPUS).filter(|cpu| config.cpus.has(*cpu) && smp::is_online(*cpu)) {
        if has(Load::Cpu) {
            Builder::new("load/cpu", CPU_PRIO)?
                .cpu(cpu)
                .spawn(next_stack()?, compute, cpu)?;
        }
        if has(Load::Irq) {
            Builder::new("load/irq", HIGH_PRIO)?.cpu(cpu).spawn(
                next_stack()?,
                start_interrupts,
                cpu,
            )?;
        }
        if config.load == Load::Plant {
            let section = usize::try_from(config.plant_ns).unwrap_or(usize::MAX);
            Builder::new("load/plant", HIGH_PRIO)?.cpu(cpu).spawn(
                next_stack()?,
                planted,
                section,
            )?;
        }
        if has(Load::Lock) {
            Builder::new("load/low", LOW_PRIO)?
                .cpu(cpu)
                .spawn(next_stack()?, lock_low, cpu)?;
            Builder::new("load/high", HIGH_PRIO)?
                .cpu(cpu)
                .spawn(next_stack()?, lock_high, cpu)?;
        }
    }
    Ok(())
}

/// One step of a generator of pseudo-random numbers (xorshift64, G. Marsaglia 2003).
pub(super) const fn step(mut x: u64) -> u64 {
    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
    x
}

fn work(state: &AtomicU64, rounds: u32) {
    let mut x = state.load(Relaxed) | 1;
    for _ in 0..rounds {
        x = step(x);
    }
    state.store(x, Relaxed);
}

/// What the generators begin with.
pub(super) const SEED: u64 = COMPUTED_SEED;
const COMPUTED_SEED: u64 = 0x9e37_79b9_7f4a_7c15;
const INTERRUPTED_SEED: u64 = 0x2545_f491_4f6c_dd1d;

static COMPUTED: [AtomicU64; MAX_CPUS] = [const { AtomicU64::new(COMPUTED_SEED) }; MAX_CPUS];
static INTERRUPTED: [AtomicU64; MAX_CPUS] = [const { AtomicU64::new(INTERRUPTED_SEED) }; MAX_CPUS];

/// Has the loads of a CPU begin anew, with the same numbers, and the queue at the same place in its ring.
pub(crate) fn reset(cpu: usize) {
    let cpu = cpu_index(cpu);
    COMPUTED[cpu].store(COMPUTED_SEED, Relaxed);
    INTERRUPTED[cpu].store(INTERRUPTED_SEED, Relaxed);
    while QUEUES[cpu].try_receive().is_ok() {}
    while !NR_SENT[cpu].load(Relaxed).is_multiple_of(QUEUE_LEN as u64) {
        send(cpu, 0);
        let _ = QUEUES[cpu].try_receive();
    }
}

/// Computes for a while.
pub(crate) fn compute_round(cpu: usize, rounds: u32) {
    work(&COMPUTED[cpu_index(cpu)], rounds);
}

/// Rounds from one look at what was recorded to the next.
const ROUNDS: u32 = 2000;
/// Rounds of a turn, some thousand instructions.
const TURN: u32 = 100;

fn compute(cpu: usize) {
    if smp::nr_online() > 1 {
        compute_in_turns(cpu);
    }
    loop {
        compute_round(cpu, ROUNDS);
        (hooks().hand_over)();
    }
}

/// Under icount QEMU lets one CPU run after the other, and goes on to the next where one halts or pauses: without pauses
/// the first one that computes would leave the others none of the time.
fn compute_in_turns(cpu: usize) -> ! {
    loop {
        for _ in 0..ROUNDS / TURN {
            compute_round(cpu, TURN);
            core::hint::spin_loop();
        }
        (hooks().hand_over)();
    }
}

static TIMERS: [spin::Once<Timer>; MAX_CPUS] = [const { spin::Once::new() }; MAX_CPUS];

/// The timer has to be created on its CPU; the thread that does so ends then.
fn start_interrupts(cpu: usize) {
    let Ok(timer) = Timer::new(interrupt, cpu) else {
        defmt::error!("load: no timer left");
        return;
    };
    TIMERS[cpu_index(cpu)].call_once(|| timer);
    timer.arm(Instant::after(Nanos::from_micros(100)));
}

/// The interrupt's work; says how long it is to be until the next one.
pub(crate) fn interrupt_work(cpu: usize) -> Nanos {
    let state = &INTERRUPTED[cpu_index(cpu)];
    work(state, 8);
    Nanos::new(37_000 + state.load(Relaxed) % 63_000)
}

fn interrupt(cpu: usize, expiry: Expiry) {
    let pause = interrupt_work(cpu);
    if let Some(timer) = TIMERS[cpu_index(cpu)].get() {
        timer.arm(expiry.at + pause.to_cycles());
    }
}

static LOCKS: [Mutex<u64>; MAX_CPUS] = [const { Mutex::new(0) }; MAX_CPUS];
static QUEUES: [Queue<u64, QUEUE_LEN>; MAX_CPUS] = [const { Queue::new() }; MAX_CPUS];
static NR_SENT: [AtomicU64; MAX_CPUS] = [const { AtomicU64::new(0) }; MAX_CPUS];

/// How many messages each queue has room for.
const QUEUE_LEN: usize = 4;

/// Sends a message, if there is room.
fn send(cpu: usize, message: u64) {
    if QUEUES[cpu].try_send(message).is_ok() {
        NR_SENT[cpu].fetch_add(1, Relaxed);
    }
}

/// One round of the less important thread: it holds the mutex most of the time, so that the other one has to wait and
/// lends its priority. It sleeps for a `part` of what it does in a run of seconds.
pub(crate) fn lock_low_round(cpu: usize, part: u64) {
    let cpu = cpu_index(cpu);
    if let Ok(mut count) = LOCKS[cpu].lock() {
        work(&COMPUTED[cpu], 400);
        *count += 1;
    }
    {
        let _guard = preempt::disable();
        work(&COMPUTED[cpu], 4);
    }
    // Full is fine: the receiver is slower on purpose.
    send(cpu, COMPUTED[cpu].load(Relaxed));
    let _ = sleep(Nanos::new(23_000 / part));
}

/// One round of the more important thread.
pub(crate) fn lock_high_round(cpu: usize, part: u64) {
    let cpu = cpu_index(cpu);
    if let Ok(mut count) = LOCKS[cpu].lock() {
        work(&COMPUTED[cpu], 50);
        *count += 1;
    }
    let _ = QUEUES[cpu].try_receive();
    let _ = sleep(Nanos::new(31_000 / part));
}

fn planted(section_ns: usize) {
    if plant::run(Nanos::new(section_ns as u64)).is_err() {
        defmt::error!("load: the planting thread cannot sleep");
    }
}

fn lock_low(cpu: usize) {
    loop {
        lock_low_round(cpu, 1);
        (hooks().hand_over)();
    }
}

fn lock_high(cpu: usize) {
    loop {
        lock_high_round(cpu, 1);
    }
}
