//! Two threads that wake each other by two semaphores: the measure of what function tracing costs.

use takt_kernel::sync::Semaphore;

use crate::clock::{START, Value, average};
use crate::report::insn;
use crate::threads::{MAIN, join, must, spawn};

static THERE: Semaphore = Semaphore::new(0, 1);
static BACK: Semaphore = Semaphore::new(0, 1);
static RESULT: Value = Value::new();

const ROUNDS: u32 = 1_000;

pub(super) fn all() {
    insn("ping-pong", round_trip());
}

/// The average of a round trip: two gives and two takes, each with a switch.
pub(super) fn round_trip() -> u32 {
    let other = spawn(0, MAIN + 1, |_| {
        // One more: before the first the loops have not been through.
        for _ in 0..=ROUNDS {
            must("take", THERE.take());
            must("give", BACK.give());
        }
    });
    for round in 0..=ROUNDS {
        if round == 1 {
            START.set();
        }
        must("give", THERE.give());
        must("take", BACK.take());
    }
    RESULT.take();
    join(other);
    average(RESULT.get(), ROUNDS)
}
