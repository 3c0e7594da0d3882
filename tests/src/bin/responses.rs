//! Periodic threads in many phasings: how long each took at most, beside what a bound of that needs to know. Logged for the host.
#![no_std]
#![no_main]

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

use takt_kernel::time::{Cycles, Instant, Nanos, sleep_until};
use takt_kernel::{Error, preempt, thread};
use takt_tests::worker::{burn, join, spawn};

takt_board::entry!(main);

/// A thread, in nanoseconds: with icount an instruction takes one.
struct Plan {
    priority: u8,
    period: u64,
    work: u64,
    /// Of it with preemption off.
    blocking: u64,
}

const fn plan(priority: u8, period: u64, work: u64, blocking: u64) -> Plan {
    Plan {
        priority,
        period,
        work,
        blocking,
    }
}

const NR: usize = 3;
const SETS: [[Plan; NR]; 2] = [
    [
        plan(70, 20_000, 3_000, 0),
        plan(50, 35_000, 5_000, 0),
        plan(30, 70_000, 9_000, 0),
    ],
    [
        plan(70, 25_000, 2_000, 0),
        plan(50, 40_000, 6_000, 3_000),
        plan(30, 60_000, 8_000, 7_000),
    ],
];
/// What a turn takes beside its work, outside of sections of the kernel.
const BESIDE: u64 = 500;
/// How long a phasing goes on. What is activated in its second half is not looked at: there threads end.
const LENGTH: u64 = 400_000;
/// From one phase of the first two threads to the next.
const STEPS: [u64; 2] = [1_499, 3_989];
/// Room for the beginning of the threads.
const AHEAD: u64 = 50_000;

static SET: AtomicU64 = AtomicU64::new(0);
static BEGINS: [AtomicU64; NR] = [const { AtomicU64::new(0) }; NR];
static WORST: [AtomicU64; NR] = [const { AtomicU64::new(0) }; NR];

fn cycles(ns: u64) -> Cycles {
    Nanos::new(ns).to_cycles()
}

fn turns(nr: usize) {
    let plan = &SETS[SET.load(Relaxed) as usize % SETS.len()][nr];
    let mut at = Instant::from_cycles(BEGINS[nr].load(Relaxed));
    let (middle, end) = (at + cycles(LENGTH / 2), at + cycles(LENGTH));
    while at < end {
        if sleep_until(at).is_err() {
            return;
        }
        if plan.blocking != 0 {
            let _guard = preempt::disable();
            // The guard's own instructions are part of what it takes.
            burn(plan.blocking - BESIDE / 5);
        }
        burn(plan.work - plan.blocking);
        let response = (Instant::now() - at).to_nanos().get();
        if at < middle {
            WORST[nr].fetch_max(response, Relaxed);
        }
        at += cycles(plan.period);
    }
}

/// All phasings of a set.
fn measure(set: usize) -> Result<(), Error> {
    SET.store(set as u64, Relaxed);
    let [first, second, _] = &SETS[set];
    for a in (0..first.period).step_by(STEPS[0] as usize) {
        for b in (0..second.period).step_by(STEPS[1] as usize) {
            let begin = Instant::after(Nanos::new(AHEAD));
            let mut threads = [thread::current(); NR];
            for (nr, phase) in [a, b, 0].into_iter().enumerate() {
                BEGINS[nr].store((begin + cycles(phase)).cycles(), Relaxed);
                threads[nr] = spawn(nr, SETS[set][nr].priority, turns, nr)?;
            }
            join(&threads)?;
        }
    }
    for (plan, worst) in SETS[set].iter().zip(&WORST) {
        defmt::info!(
            "set {=usize} priority {=u8} period {=u64} wcet {=u64} blocking {=u64} worst {=u64}",
            set,
            plan.priority,
            plan.period,
            plan.work + BESIDE,
            plan.blocking,
            worst.swap(0, Relaxed)
        );
    }
    Ok(())
}

fn main(_: &'static str) {
    let measured = thread::current()
        .set_priority(1)
        .and_then(|()| (0..SETS.len()).try_for_each(measure));
    if measured.is_err() {
        defmt::error!("the threads could not be started");
    }
}
