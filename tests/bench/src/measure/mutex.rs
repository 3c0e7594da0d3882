//! Mutexes.

use takt_kernel::sync::Mutex;

use super::ROUNDS;
use crate::clock::{START, Value, stamp};
use crate::report::{fail, insn};
use crate::threads::{MAIN, create, join, must, spawn};

static MUTEX: Mutex<u32> = Mutex::new(0);

static LOCK: Value = Value::new();
static UNLOCK: Value = Value::new();

pub(super) fn all() {
    uncontended();
    contended();
}

fn uncontended() {
    let (mut lock, mut unlock) = (0, 0);
    for _ in 0..ROUNDS {
        let before = stamp();
        let locked = MUTEX.lock();
        let between = stamp();
        let guard = locked.unwrap_or_else(|error| fail("lock", error));
        let again = stamp();
        drop(guard);
        let after = stamp();
        lock = between.wrapping_sub(before);
        unlock = after.wrapping_sub(again);
    }
    insn("mutex-lock", lock);
    insn("mutex-unlock", unlock);
}

/// The less important thread owns the mutex and starts the more important one, which wants it: the owner inherits and
/// goes on. Then it unlocks, loses what it inherited, and the other one goes on.
fn contended() {
    for _ in 0..ROUNDS {
        let owner = spawn(0, MAIN + 1, |_| {
            let waiter = create(1, MAIN + 3, |_| {
                START.set();
                let locked = MUTEX.lock();
                UNLOCK.take();
                drop(locked);
            });
            let guard = MUTEX.lock().unwrap_or_else(|error| fail("lock", error));
            let started = waiter.start();
            LOCK.take();
            must("start", started);
            START.set();
            drop(guard);
            join(waiter);
        });
        join(owner);
    }
    insn("mutex-lock-contended", LOCK.get());
    insn("mutex-unlock-contended", UNLOCK.get());
}
