//! Switches between equals.

use takt_kernel::yield_now;

use super::ROUNDS;
use crate::clock::{START, Value, average};
use crate::report::insn;
use crate::threads::{MAIN, join, spawn};

static RESULT: Value = Value::new();

pub(super) fn all() {
    insn("yield", yield_to_equal());
    insn("cooperative-switch", cooperative());
}

/// From before one thread's yield to after the other's.
pub(super) fn yield_to_equal() -> u32 {
    let other = spawn(0, MAIN, |_| {
        for _ in 0..ROUNDS {
            RESULT.take();
            yield_now();
        }
    });
    for _ in 0..ROUNDS {
        START.set();
        yield_now();
    }
    yield_now();
    join(other);
    RESULT.get()
}

static COUNT: Value = Value::new();
static BALANCE: Value = Value::new();
const NR_SWITCHES: u32 = 10_000;

/// The average of many switches between two threads that yield to each other, their loops included.
fn cooperative() -> u32 {
    COUNT.set(0);
    let other = spawn(0, MAIN, |_| {
        while COUNT.get() < NR_SWITCHES {
            yield_now();
            COUNT.count();
            BALANCE.set(BALANCE.get().wrapping_add(1));
        }
    });
    yield_now();
    START.set();
    while COUNT.get() < NR_SWITCHES {
        yield_now();
        COUNT.count();
        BALANCE.set(BALANCE.get().wrapping_sub(1));
    }
    let total = START.since();
    join(other);
    average(total, NR_SWITCHES)
}
