//! A thread that goes on although another CPU has suspended it: it has preemption disabled.

use core::sync::atomic::{AtomicU32, Ordering::Relaxed};

use takt_kernel::sync::{Mutex, Queue};
use takt_kernel::thread::{Builder, Thread};
use takt_kernel::time::{Instant, Nanos, sleep};
use takt_kernel::{Error, preempt, thread_stack, yield_now};
use takt_tests::harness::PRIORITY;
use takt_tests::journal::{note, take};
use takt_tests::{check, check_eq, target_test};

thread_stack!(static STACKS: [16384; 3]);

static LOCK: Mutex<u32> = Mutex::new(0);
static STEP: AtomicU32 = AtomicU32::new(0);

/// Goes round until the others are so far.
fn until(step: u32) {
    while STEP.load(Relaxed) != step {
        core::hint::spin_loop();
    }
}

/// Waits until the others are so far.
fn wait_until(step: u32) -> Result<(), Error> {
    while STEP.load(Relaxed) != step {
        sleep(Nanos::from_millis(1))?;
    }
    Ok(())
}

fn on_second(slot: usize, priority: u8, entry: fn(usize)) -> Result<Thread, Error> {
    Builder::new("suspended", priority)?
        .cpu(1)
        .spawn(&STACKS[slot], entry, 0)
}

fn owner(_: usize) {
    let guard = LOCK.lock();
    STEP.store(1, Relaxed);
    until(2);
    let preemption = preempt::disable();
    STEP.store(3, Relaxed);
    until(4);
    drop(guard);
    drop(preemption);
    note(9);
}

static QUEUE: Queue<u32, 2> = Queue::new();

fn heir(_: usize) {
    drop(LOCK.lock());
    note(1);
    // Nobody sends.
    if QUEUE.receive_until(Instant::after(Nanos::from_millis(20))) == Err(Error::TimedOut) {
        note(2);
    }
}

fn equal(_: usize) {
    note(7);
}

static FIRST: Mutex<u32> = Mutex::new(0);
static SECOND: Mutex<u32> = Mutex::new(0);
static ENDS: AtomicU32 = AtomicU32::new(0);
static NR_EQUALS: AtomicU32 = AtomicU32::new(0);
static NR_CIRCLES: AtomicU32 = AtomicU32::new(0);

/// Holds the first mutex and wants the second again and again, which would close a circle.
fn circle(_: usize) {
    let first = FIRST.lock();
    STEP.store(1, Relaxed);
    while ENDS.load(Relaxed) == 0 {
        if SECOND.lock().is_err() {
            NR_CIRCLES.fetch_add(1, Relaxed);
        }
        yield_now();
    }
    drop(first);
}

fn waits(_: usize) {
    let second = SECOND.lock();
    drop(FIRST.lock());
    drop(second);
}

fn yields(_: usize) {
    while ENDS.load(Relaxed) == 0 {
        NR_EQUALS.fetch_add(1, Relaxed);
        yield_now();
    }
}

target_test! {
    /// It comes back at a higher priority before a switch, and then gives back the mutex by which it has that: who gets the mutex runs at
    /// its own level, and who was ready beside it still is.
    fn a_mutex_given_back_by_one_that_was_suspended(TwoCpus) {
        check_eq!(takt_board::smp::start(2), 2);
        let owner = on_second(0, PRIORITY, owner)?;
        wait_until(1)?;
        let heir = on_second(1, PRIORITY + 5, heir)?;
        while owner.priority()? != PRIORITY + 5 {
            sleep(Nanos::from_millis(1))?;
        }
        let equal = on_second(2, PRIORITY + 5, equal)?;
        sleep(Nanos::from_millis(1))?;
        STEP.store(2, Relaxed);
        wait_until(3)?;
        owner.suspend()?;
        heir.set_priority(PRIORITY + 10)?;
        owner.resume()?;
        sleep(Nanos::from_millis(1))?;
        STEP.store(4, Relaxed);
        for thread in [equal, heir, owner] {
            check_eq!(thread.join(Instant::after(Nanos::from_millis(500))), Ok(0));
        }
        let mut notes = take();
        notes.sort_unstable();
        check_eq!(notes, [1, 2, 7, 9]);
        Ok(())
    }

    /// A mutex that it cannot have is no window in which it goes on: its equals stay ready, whatever it does next.
    fn a_failed_lock_of_one_that_is_suspended(TwoCpus) {
        check_eq!(takt_board::smp::start(2), 2);
        let circle = on_second(0, PRIORITY, circle)?;
        wait_until(1)?;
        let waits = on_second(1, PRIORITY, waits)?;
        sleep(Nanos::from_millis(2))?;
        let equal = on_second(2, PRIORITY, yields)?;
        for round in 0..20_000 {
            circle.suspend()?;
            circle.resume()?;
            for _ in 0..round % 97 {
                core::hint::spin_loop();
            }
            if round % 20 != 0 {
                continue;
            }
            let before = (NR_EQUALS.load(Relaxed), NR_CIRCLES.load(Relaxed));
            let patience = Instant::after(Nanos::from_secs(5));
            while NR_EQUALS.load(Relaxed) == before.0 || NR_CIRCLES.load(Relaxed) == before.1 {
                check!(Instant::now() < patience, "round {}: one runs no more", round);
                core::hint::spin_loop();
            }
        }
        ENDS.store(1, Relaxed);
        for thread in [circle, waits, equal] {
            check_eq!(thread.join(Instant::after(Nanos::from_secs(1))), Ok(0));
        }
        Ok(())
    }
}
