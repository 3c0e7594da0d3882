//! Semaphores.

use takt_kernel::sync::Semaphore;

use super::ROUNDS;
use crate::clock::{START, Value, stamp};
use crate::report::insn;
use crate::threads::{MAIN, join, must, spawn};

static FREE: Semaphore = Semaphore::new(0, 10);
static WAITED: Semaphore = Semaphore::new(0, 1);

static TAKE: Value = Value::new();
static GIVE: Value = Value::new();

pub(super) fn all() {
    without_switch();
    with_switch();
}

fn without_switch() {
    let (mut give, mut take) = (0, 0);
    for _ in 0..ROUNDS {
        let before = stamp();
        let given = FREE.give();
        let between = stamp();
        must("give", given);
        let again = stamp();
        let taken = FREE.take();
        let after = stamp();
        must("take", taken);
        give = between.wrapping_sub(before);
        take = after.wrapping_sub(again);
    }
    insn("semaphore-give", give);
    insn("semaphore-take", take);
}

/// The more important thread takes and waits, the other one goes on; that one gives, and the first goes on.
fn with_switch() {
    let waiter = spawn(0, MAIN + 1, |_| {
        for _ in 0..ROUNDS {
            START.set();
            let taken = WAITED.take();
            GIVE.take();
            must("take", taken);
        }
    });
    for round in 0..ROUNDS {
        START.set();
        let given = WAITED.give();
        if round + 1 < ROUNDS {
            TAKE.take();
        }
        must("give", given);
    }
    insn("semaphore-take-switch", TAKE.get());
    insn("semaphore-give-switch", GIVE.get());
    join(waiter);
}
