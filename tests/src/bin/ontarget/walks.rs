//! Walks along a chain of owners that come between the steps of another.

use core::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use takt_kernel::sync::{Mutex, Semaphore};
use takt_kernel::thread::Thread;
use takt_kernel::time::{Instant, sleep_until};
use takt_tests::harness::PRIORITY;
use takt_tests::worker::{after_us, join, spawn};
use takt_tests::{check, target_test};

static MUTEXES: [Mutex<()>; 2] = [const { Mutex::new(()) }; 2];

/// Holds mutex 0 and waits for a permit.
fn holds(_: usize) {
    let guard = MUTEXES[0].lock();
    let _ = STOP.take();
    drop(guard);
}

/// Holds mutex 1 and wants 0.
fn waits_and_holds(_: usize) {
    let one = MUTEXES[1].lock();
    let zero = MUTEXES[0].lock();
    drop(zero);
    drop(one);
}

static STOP: Semaphore = Semaphore::new(0, 1);
static LOOK: Semaphore = Semaphore::new(0, 1000);
static OWNER: spin::Mutex<Option<Thread>> = spin::Mutex::new(None);
static IS_WAITING: AtomicBool = AtomicBool::new(false);
static IS_OVER: AtomicBool = AtomicBool::new(false);
static NR_LOOKS: AtomicU64 = AtomicU64::new(0);
static NR_INVERSIONS: AtomicU64 = AtomicU64::new(0);

/// Waits for mutex 1 now and then, for a short time.
fn wants(_: usize) {
    for n in 0..1500 {
        let _ = sleep_until(Instant::after_nanos(3_000 + 7 * n));
        let _ = LOOK.give();
        IS_WAITING.store(true, Relaxed);
        let _ = MUTEXES[1].lock_until(after_us(20));
        IS_WAITING.store(false, Relaxed);
    }
    IS_OVER.store(true, Relaxed);
    let _ = LOOK.give();
}

/// Whenever that one waits: whether the owner at the chain's end is as important.
fn looks(_: usize) {
    let Some(owner) = *OWNER.lock() else { return };
    while !IS_OVER.load(Relaxed) {
        let _ = LOOK.take();
        if IS_WAITING.load(Relaxed) {
            NR_LOOKS.fetch_add(1, Relaxed);
            if owner.priority().unwrap_or(0) < PRIORITY + 20 {
                NR_INVERSIONS.fetch_add(1, Relaxed);
            }
        }
    }
}

target_test! {
    /// A thread in the middle of a chain is raised by one that is preempted on its way along the chain: whoever waits for
    /// the one in the middle then lends its priority to those behind it all the same.
    fn a_walk_past_an_interrupted_one(Alone) {
        let owner = spawn(0, PRIORITY - 15, holds, 0)?;
        sleep_until(after_us(50))?;
        let middle = spawn(1, PRIORITY - 5, waits_and_holds, 0)?;
        sleep_until(after_us(50))?;
        *OWNER.lock() = Some(owner);
        let observer = spawn(2, PRIORITY + 10, looks, 0)?;
        let high = spawn(3, PRIORITY + 20, wants, 0)?;
        while !IS_OVER.load(Relaxed) {
            middle.set_priority(PRIORITY + 30)?;
            middle.set_priority(PRIORITY - 5)?;
        }
        STOP.give()?;
        join(&[owner, middle, observer, high])?;
        let (inversions, looks) = (NR_INVERSIONS.load(Relaxed), NR_LOOKS.load(Relaxed));
        check!(inversions == 0 && looks > 1000, "{inversions} inversions of {looks}");
        Ok(())
    }
}
