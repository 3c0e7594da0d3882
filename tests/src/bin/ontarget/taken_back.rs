//! A wait for a mutex that is taken back, while timers are armed that are due soon: what it lent ends all the same, whoever
//! comes in between.

use core::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};

use takt_kernel::Error;
use takt_kernel::sync::{Mutex, Semaphore};
use takt_kernel::thread::{self, Thread};
use takt_kernel::time::{Cycles, Expiry, Instant, Timer, sleep_until};
use takt_tests::harness::PRIORITY;
use takt_tests::worker::{after_ms, after_us, join, spawn};
use takt_tests::{check, check_eq, target_test};

use crate::arrivals::at_every_instruction;

static MUTEXES: [Mutex<()>; 2] = [const { Mutex::new(()) }; 2];
static GO: Semaphore = Semaphore::new(0, 1);
static WAKE: Semaphore = Semaphore::new(0, 9);
static END: AtomicBool = AtomicBool::new(false);
static OWNER: spin::Once<Thread> = spin::Once::new();
static TESTS: spin::Once<Thread> = spin::Once::new();
/// As many as a queue of timers has in front of its list.
static TIMERS: [spin::Once<Timer>; 4] = [const { spin::Once::new() }; 4];
/// It arms those.
static LAST: spin::Once<Timer> = spin::Once::new();
/// So many cycles behind the raise: before the wait is taken back.
const BEHIND: u64 = 700;
/// How often the owner was as important as the test's thread when that was stopped.
static NR_LENT: AtomicU32 = AtomicU32::new(0);
/// How often it still was when that was no longer waiting.
static NR_KEPT: AtomicU32 = AtomicU32::new(0);
const RAISED: u8 = PRIORITY + 10;

/// Has mutex 0 and waits for 1.
fn has_0_wants_1(_: usize) {
    let zero = MUTEXES[0].lock();
    let _ = GO.give();
    drop(MUTEXES[1].lock());
    drop(zero);
}

fn nothing(_: usize, _: Expiry) {}

/// Raises the test's thread, and has timers armed when the kernel is done with what follows from that.
fn raises(_: usize, _: Expiry) {
    if let Some(thread) = TESTS.get() {
        let _ = thread.set_priority(RAISED);
    }
    if let Some(last) = LAST.get() {
        last.arm(Instant::now() + Cycles::new(BEHIND));
    }
}

/// Arms as many timers as the front of a queue has room for, so that room has to be made for a further one.
fn arms(_: usize, _: Expiry) {
    let timers = || TIMERS.iter().filter_map(spin::Once::get);
    for timer in timers() {
        timer.cancel();
    }
    for timer in timers() {
        timer.arm(after_ms(1));
    }
}

fn wakes(_: usize, _: Expiry) {
    let _ = WAKE.give();
}

/// Keeps the test's thread from running for a while, and looks whether the owner is as important as that one then. Another
/// change of its priority tells whether it is waiting.
fn looks(_: usize) {
    let (Some(owner), Some(tests)) = (OWNER.get(), TESTS.get()) else {
        return;
    };
    let important = || owner.priority().unwrap_or(0);
    while WAKE.take().is_ok() && !END.load(Relaxed) {
        let _ = tests.suspend();
        let _ = sleep_until(after_us(30));
        let before = important();
        let _ = tests.set_priority(RAISED + 1);
        let after = important();
        let _ = tests.set_priority(RAISED);
        if before > PRIORITY {
            NR_LENT.fetch_add(1, Relaxed);
            NR_KEPT.fetch_add(u32::from(after == before), Relaxed);
        }
        let _ = tests.resume();
    }
}

target_test! {
    /// A thread finds that its wait would be a deadlock, after it was raised, and takes the wait back; at any instruction of
    /// that it is kept from running.
    fn beside_timers(Alone) {
        for timer in &TIMERS {
            timer.call_once(|| Timer::new(nothing, 0).expect("there are timers left"));
        }
        LAST.call_once(|| Timer::new(arms, 0).expect("there are timers left"));
        TESTS.call_once(thread::current);
        let one = MUTEXES[1].lock()?;
        let owner = spawn(0, PRIORITY + 1, has_0_wants_1, 0)?;
        OWNER.call_once(|| owner);
        GO.take()?;
        owner.set_priority(PRIORITY - 10)?;
        let looker = spawn(1, PRIORITY + 20, looks, 0)?;
        let first = Timer::new(raises, 0)?;
        // At some instructions between the announcement of the wait and its end.
        for delay in (80..360).step_by(40) {
            at_every_instruction(
                wakes,
                || {
                    first.arm(Instant::now() + Cycles::new(delay));
                    let result = MUTEXES[0].lock().map(drop);
                    NR_KEPT.fetch_add(u32::from(result != Err(Error::Deadlock)), Relaxed);
                },
                |arrival| {
                    thread::current().set_priority(PRIORITY)?;
                    check_eq!(NR_KEPT.load(Relaxed), 0);
                    check!(owner.priority()? == PRIORITY - 10, "at {arrival}, {delay}");
                    Ok(())
                },
            )?;
        }
        check!(NR_LENT.load(Relaxed) > 100, "{} of all arrivals", NR_LENT.load(Relaxed));
        END.store(true, Relaxed);
        WAKE.give()?;
        drop(one);
        join(&[owner, looker])?;
        Ok(())
    }
}
