//! A stretch with a section of known length at a place that the command line chooses: what `latency-sweep` has to find.
//!
//! | word | meaning |
//! |---|---|
//! | `plant=KIND` | `plain`, `nested` (with preemption off around it), `lock` (with a mutex held), `interrupt` (a timer's), `large` (none, but a call of a function with a large result), `none` |
//! | `plant_long=1` | the timer's function takes longer by as many instructions |
//! | `sample_hours=N` | no sweep: samples for so many hours, as other tools do, and logs the worst |
//! | `plant_at=N` | how far from the beginning, in rounds of a loop |
#![no_std]
#![no_main]

use core::arch::asm;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use takt_board::cmdline::CommandLine;
use takt_kernel::sync::Mutex;
use takt_kernel::time::{Cycles, Expiry, Instant, Nanos, Timer, sleep_until};
use takt_kernel::{preempt, thread};
use takt_timerlat::{sweep_begin, sweep_end};

takt_board::entry!(main);

/// How long an interrupt has to wait: from behind the `cli` on, with the `sti` and the instruction in its shadow.
const LENGTH: usize = 37;

/// Priority of the thread that runs the stretch.
const PRIORITY: u8 = 50;

#[inline(never)]
fn planted() {
    // SAFETY: interrupts are on before and after it, and nothing is touched in between.
    unsafe { asm!("cli", ".rept {nops}", "nop", ".endr", "sti", "nop", nops = const LENGTH - 2) };
}

#[inline(never)]
fn filler(rounds: u64) {
    for round in 0..rounds {
        core::hint::black_box(round);
    }
}

/// Its result does not fit into registers, so whoever calls it says where it goes.
#[inline(never)]
fn large() -> [u64; 8] {
    core::hint::black_box([1; 8])
}

static LOCK: Mutex<()> = Mutex::new(());
static HAS_EXPIRED: AtomicBool = AtomicBool::new(false);

/// In the timer's interrupt.
fn expired(_: usize, _: Expiry) {
    HAS_EXPIRED.store(true, Relaxed);
}

/// The same, longer by as many instructions.
fn expired_late(_: usize, _: Expiry) {
    // SAFETY: touches nothing.
    unsafe { asm!(".rept {nops}", "nop", ".endr", nops = const LENGTH) };
    HAS_EXPIRED.store(true, Relaxed);
}

/// The highest latency of the sampled timer's interrupt, in cycles.
static WORST: AtomicU64 = AtomicU64::new(0);
static SAMPLES: AtomicU64 = AtomicU64::new(0);
static SAMPLER: spin::Once<Timer> = spin::Once::new();

/// Time between two samples, in nanoseconds.
const PERIOD: u64 = 40_000_000;

fn sampled(_: usize, expiry: Expiry) {
    WORST.fetch_max(expiry.at.cycles() - expiry.deadline.cycles(), Relaxed);
    SAMPLES.fetch_add(1, Relaxed);
    if let Some(timer) = SAMPLER.get() {
        timer.arm(expiry.deadline + Nanos::new(PERIOD).to_cycles());
    }
}

/// What every other tool does: a periodic interrupt, while the stretch runs as often, for so many hours. It never arrives
/// in the section, since both have the same period.
fn sample(hours: u64, at: u64) {
    let Ok(timer) = Timer::new(sampled, 0) else {
        return;
    };
    SAMPLER.call_once(|| timer);
    let begin = Instant::after(Nanos::new(PERIOD));
    timer.arm(begin);
    for round in 0..hours * 3_600_000_000_000 / PERIOD {
        let offset = Nanos::new(round * PERIOD + PERIOD / 2).to_cycles();
        if sleep_until(begin + offset).is_err() {
            return;
        }
        filler(at);
        planted();
    }
    defmt::info!(
        "sampled {=u64} times, worst IRQ latency {=u64}",
        SAMPLES.load(Relaxed),
        WORST.load(Relaxed)
    );
}

fn main(command_line: &'static str) {
    takt_board::sweep::start();
    let line = CommandLine(command_line);
    let at = line.number("plant_at", 20).unwrap_or(20);
    let kind = line.get("plant").unwrap_or("none");
    if let Ok(hours) = line.number("sample_hours", 0)
        && hours != 0
    {
        return sample(hours, at);
    }
    let is_long = line.get("plant_long").is_some();
    let Ok(timer) = Timer::new(if is_long { expired_late } else { expired }, 0) else {
        return;
    };
    if thread::current().set_priority(PRIORITY).is_err() {
        return;
    }
    loop {
        HAS_EXPIRED.store(false, Relaxed);
        sweep_begin!();
        filler(at);
        match kind {
            "plain" => planted(),
            "nested" => {
                let _guard = preempt::disable();
                planted();
            }
            "lock" => {
                let guard = LOCK.lock();
                planted();
                drop(guard);
            }
            "interrupt" => {
                timer.arm(Instant::now() + Cycles::new(300));
                while !HAS_EXPIRED.load(Relaxed) {
                    core::hint::spin_loop();
                }
            }
            "large" => {
                core::hint::black_box(large());
            }
            _ => {}
        }
        filler(10);
        sweep_end!();
    }
}
