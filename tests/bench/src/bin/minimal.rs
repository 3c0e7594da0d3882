//! The smallest useful image: a periodic timer gives a semaphore, and a second thread waits for it each time.
#![no_std]
#![no_main]

use takt_kernel::sync::Semaphore;
use takt_kernel::thread::Builder;
use takt_kernel::thread_stack;
use takt_kernel::time::{Expiry, Instant, Nanos, Timer};

takt_board::entry!(main);

const PERIOD: Nanos = Nanos::from_millis(1);
const NR_TICKS: u32 = 10;
/// More important than the first thread.
const PRIORITY: u8 = 60;

static TICK: Semaphore = Semaphore::new(0, 1);
static DONE: Semaphore = Semaphore::new(0, 1);

thread_stack!(static STACK: 4096);

fn expired(_: usize, _: Expiry) {
    // Full: the thread has not taken the last one yet.
    let _ = TICK.give();
}

/// Leaves [`DONE`] as it is if anything fails.
fn ticks(_: usize) {
    let Ok(timer) = Timer::new(expired, 0) else {
        return;
    };
    let mut next = Instant::now();
    for _ in 0..NR_TICKS {
        next += PERIOD.to_cycles();
        timer.arm(next);
        if TICK.take().is_err() {
            return;
        }
    }
    let _ = DONE.give();
}

fn main(_: &'static str) {
    let ticker =
        Builder::new("ticks", PRIORITY).and_then(|builder| builder.spawn(&STACK, ticks, 0));
    assert!(ticker.is_ok());
    // For ever, should the other thread have failed.
    assert!(DONE.take().is_ok());
}
