//! Stretches made of the loads that `latency-run` offers.
//!
//! A load has no end, so the stretch is a window of time. In each run the loads' threads begin anew, with the same
//! numbers, and stop at the end of the round in which the window ends.

use core::sync::atomic::{AtomicBool, Ordering::Relaxed};

use takt_kernel::sync::Semaphore;
use takt_kernel::thread::{self, Builder};
use takt_kernel::time::{self, AtomicInstant, Cycles, Expiry, Instant, Timer, sleep_until};
use takt_kernel::{Error, thread_stack};

use super::driver::repeat;
use super::workloads::{SETTLE, settle};
use crate::config::LOAD_PRIORITY;
use crate::workload::load;

/// The thread that begins and ends the window: more important than all loads.
const MAIN: u8 = LOAD_PRIORITY + 1;

const NR_THREADS: usize = 3;
thread_stack!(static STACKS: [8192; NR_THREADS]);

static GO: [Semaphore; NR_THREADS] = [const { Semaphore::new(0, 1) }; NR_THREADS];
static STOPPED: Semaphore = Semaphore::new(0, NR_THREADS as u32);
static IS_ON: AtomicBool = AtomicBool::new(false);
static WINDOW_END: AtomicInstant = AtomicInstant::new(Instant::ZERO);
static TIMER: spin::Once<Timer> = spin::Once::new();

/// Runs one thread's rounds whenever a window begins.
fn rounds(slot: usize, round: fn()) {
    while GO[slot].take().is_ok() {
        while IS_ON.load(Relaxed) {
            round();
        }
        // Never above its maximum: one for each thread.
        let _ = STOPPED.give();
    }
}

fn interrupt(_: usize, expiry: Expiry) {
    let pause = load::interrupt_work(0);
    if IS_ON.load(Relaxed)
        && let Some(timer) = TIMER.get()
    {
        timer.arm(expiry.at + (pause / PAUSE_PART).to_cycles());
    }
}

/// The loads' pauses are made for runs of seconds. In a window they are shorter by this factor.
const PAUSE_PART: u64 = 8;

/// Sweeps the load of this name, a window of that length.
pub(super) fn sweep(name: &str, window: Cycles) -> Result<(), Error> {
    let has = |load| name == load || name == "load-mix";
    thread::current().set_priority(MAIN)?;
    let mut nr = 0;
    let mut spawn = |priority, entry: fn(usize)| {
        let slot = nr;
        nr += 1;
        Builder::new("load", priority)?
            .spawn(&STACKS[slot], entry, slot)
            .map(|_| ())
    };
    if has("load-cpu") {
        spawn(load::CPU_PRIO, |slot| {
            rounds(slot, || load::compute_round(0, 100))
        })?;
    }
    if has("load-lock") {
        spawn(load::LOW_PRIO, |slot| {
            rounds(slot, || load::lock_low_round(0, PAUSE_PART));
        })?;
        spawn(load::HIGH_PRIO, |slot| {
            rounds(slot, || load::lock_high_round(0, PAUSE_PART));
        })?;
    }
    let timer = Timer::new(interrupt, 0)?;
    TIMER.call_once(|| timer);
    let prepare = |begin| {
        // The loads' threads, which are less important, come to wait for the window; a second time, so that they do so
        // in the same way whenever the window before has ended.
        settle();
        for go in &GO[..nr] {
            let _ = go.give();
        }
        for _ in 0..nr {
            let _ = STOPPED.take();
        }
        settle();
        load::reset(0);
        // All timers rest by now: none is armed for a time before the window.
        time::forget(begin);
        IS_ON.store(true, Relaxed);
        if has("load-irq") {
            timer.arm(begin + Cycles::new(1_000));
        }
        WINDOW_END.store(begin + window);
    };
    repeat(SETTLE * 4, prepare, || {
        for go in &GO[..nr] {
            let _ = go.give();
        }
        let _ = sleep_until(WINDOW_END.load());
        IS_ON.store(false, Relaxed);
        crate::sweep::end();
        timer.cancel();
        for _ in 0..nr {
            let _ = STOPPED.take();
        }
    });
    Ok(())
}
