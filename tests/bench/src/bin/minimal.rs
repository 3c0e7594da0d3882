//! The smallest useful image: a thread that waits for a semaphore which a periodic timer gives.
#![no_std]
#![no_main]

use takt_kernel::sync::Semaphore;
use takt_kernel::time::{Expiry, Instant, Timer, nanos_to_cycles};

takt_board::entry!(main);

const PERIOD_NS: u64 = 1_000_000;
const NR_TICKS: u32 = 10;

static TICK: Semaphore = Semaphore::new(0, 1);

fn expired(_: usize, _: Expiry) {
    // Full: the thread has not taken the last one yet.
    let _ = TICK.give();
}

fn main(_: &'static str) {
    let Ok(timer) = Timer::new(expired, 0) else {
        return;
    };
    let mut next = Instant::now();
    for _ in 0..NR_TICKS {
        next = next + nanos_to_cycles(PERIOD_NS);
        timer.arm(next);
        if TICK.take().is_err() {
            return;
        }
    }
}
