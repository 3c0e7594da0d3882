//! Walks along a chain of owners that come between the steps of another.

use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering::Relaxed};

use takt_kernel::Error;
use takt_kernel::sync::{Mutex, Semaphore};
use takt_kernel::thread::{self, Thread};
use takt_kernel::time::{Cycles, Expiry, Instant, Nanos, Timer, sleep_until};
use takt_tests::harness::{Outcome, PRIORITY};
use takt_tests::worker::{after_us, burn, join, spawn, times};
use takt_tests::{check, check_eq, target_test};

use crate::arrivals::{END, PERMITS, THREADS, at_every_instruction, end, gives};

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
        let _ = sleep_until(Instant::after(Nanos::new(3_000 + 7 * n)));
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

static WANTED: Mutex<()> = Mutex::new(());
static GO: Semaphore = Semaphore::new(0, 1);
static HELD: Semaphore = Semaphore::new(0, 1);
static IS_LOCKING: AtomicU32 = AtomicU32::new(0);
static NR_RAISED: AtomicU32 = AtomicU32::new(0);
static NR_KEPT_FROM_RUNNING: AtomicU32 = AtomicU32::new(0);
/// How often the test's thread was switched to, before it was raised.
static NR_BEFORE: AtomicUsize = AtomicUsize::new(0);
/// What the test's thread is raised to.
const RAISED: u8 = PRIORITY + 5;

/// The least important of all: holds the mutex that the test's thread wants, and gives it back when it is waited for.
fn holds_until_wanted(_: usize) {
    while GO.take().is_ok() && END.load(Relaxed) == 0 {
        let guard = WANTED.lock();
        let _ = HELD.give();
        drop(guard);
    }
}

/// Raises the test's thread above itself, and has another woken meanwhile or soon after.
fn raises(_: usize) {
    let Ok(wakes) = Timer::new(gives, 1) else {
        return;
    };
    let mut round = 0;
    while PERMITS[0].take().is_ok() && END.load(Relaxed) == 0 {
        round += 1;
        wakes.arm(Instant::now() + Cycles::new(100 + round * 13 % 500));
        if let Some(thread) = THREADS[0].get() {
            NR_BEFORE.store(nr_switches(thread), Relaxed);
            NR_RAISED.fetch_add(IS_LOCKING.load(Relaxed), Relaxed);
            let _ = thread.set_priority(RAISED);
        }
    }
}

fn nr_switches(thread: &Thread) -> usize {
    times(thread).map_or(0, |times| times.switches as usize)
}

/// More important than the one that raises: where the test's thread has begun to wait after it was raised, the owner of its
/// mutex has to be as important.
fn looks_at_the_owner(_: usize) {
    while PERMITS[1].take().is_ok() && END.load(Relaxed) == 0 {
        let [waiter, owner] = [0, 1].map(|number| {
            let thread: Option<&Thread> = THREADS[number].get();
            thread.and_then(|thread| thread.priority().ok())
        });
        let has_run = THREADS[0]
            .get()
            .is_some_and(|thread| nr_switches(thread) != NR_BEFORE.load(Relaxed));
        if IS_LOCKING.load(Relaxed) != 0 && waiter == Some(RAISED) && has_run && owner != waiter {
            NR_KEPT_FROM_RUNNING.fetch_add(1, Relaxed);
        }
    }
}

/// Lowers the test's thread, with the whole walk, and has it raised again.
fn lowers_and_has_raised(slot: usize, expiry: Expiry) {
    if let Some(thread) = THREADS[0].get() {
        let _ = thread.set_priority(PRIORITY);
    }
    gives(slot, expiry);
}

/// The test's thread, of priority `base`, locks a mutex, and an interrupt at any instruction of that has it raised to
/// [`RAISED`] by one that is then less important: nobody in between keeps the mutex's owner from running.
fn is_raised_meanwhile(base: u8, interrupt: fn(usize, Expiry)) -> Outcome {
    thread::count_times(true)?;
    let threads = [
        spawn(0, PRIORITY - 10, holds_until_wanted, 0)?,
        spawn(1, PRIORITY + 2, raises, 0)?,
        spawn(2, PRIORITY + 3, looks_at_the_owner, 0)?,
    ];
    THREADS[0].call_once(thread::current);
    THREADS[1].call_once(|| threads[0]);
    thread::current().set_priority(base)?;
    at_every_instruction(
        interrupt,
        || {
            let _ = GO.give();
            let _ = HELD.take();
            IS_LOCKING.store(1, Relaxed);
            drop(WANTED.lock());
            IS_LOCKING.store(0, Relaxed);
        },
        |_| Ok(thread::current().set_priority(base)?),
    )?;
    thread::current().set_priority(PRIORITY)?;
    let (inversions, raised) = (NR_KEPT_FROM_RUNNING.load(Relaxed), NR_RAISED.load(Relaxed));
    check!(
        inversions == 0 && raised > 300,
        "{inversions} inversions, raised {raised} times"
    );
    thread::count_times(false)?;
    end(&threads, || {
        let _ = GO.give();
        for permits in &PERMITS {
            let _ = permits.give();
        }
    })
}

/// Shared by the threads of `lowered_before_its_wait`, each of which waits for its own.
static TURNS: [Semaphore; 4] = [const { Semaphore::new(0, 9) }; 4];
/// How often the one that waits in the middle has had the mutex.
static NR_HAD: AtomicU32 = AtomicU32::new(0);

const OWNS: usize = 0;
const BEHIND: usize = 1;
const IN_FRONT: usize = 2;
const GIVES_BACK: usize = 3;

fn gives_turn(turn: usize, _: Expiry) {
    let _ = TURNS[turn].give();
}

fn holds_until_stopped(_: usize) {
    while TURNS[OWNS].take().is_ok() && END.load(Relaxed) == 0 {
        let guard = WANTED.lock();
        let _ = TURNS[GIVES_BACK].take();
        drop(guard);
    }
}

fn wants_in_turn(turn: usize) {
    while TURNS[turn].take().is_ok() && END.load(Relaxed) == 0 {
        let guard = WANTED.lock();
        NR_HAD.fetch_add(u32::from(turn == BEHIND), Relaxed);
        drop(guard);
    }
}

/// Lowers the thread that is to be the first of those who wait, and has the mutex given back meanwhile or soon after.
fn lowers(_: usize) {
    let Ok(stops) = Timer::new(gives_turn, GIVES_BACK) else {
        return;
    };
    let mut round = 0;
    while PERMITS[0].take().is_ok() && END.load(Relaxed) == 0 {
        round += 1;
        stops.arm(Instant::now() + Cycles::new(100 + round * 13 % 500));
        if let Some(thread) = THREADS[0].get() {
            let _ = thread.set_priority(PRIORITY - 5);
        }
    }
}

/// Has mutex 0 and waits for 1.
fn has_0_wants_1(_: usize) {
    let zero = MUTEXES[0].lock();
    let _ = GO.give();
    drop(MUTEXES[1].lock());
    drop(zero);
}

fn wants_0(_: usize) {
    drop(MUTEXES[0].lock());
}

static STORM: spin::Once<Timer> = spin::Once::new();
/// How often the storm's timer has come.
static NR_EXPIRED: AtomicU32 = AtomicU32::new(0);
static NR_FOUND: AtomicU32 = AtomicU32::new(0);
/// So often it comes at most.
const LONGEST_STORM: u32 = 500;
/// From the storm's timer to the next: that leaves some time to a thread, but none beside a step of a walk.
const BETWEEN: Cycles = Cycles::new(450);

/// Comes again and again, as long as the test's thread is about to wait.
fn storms(_: usize, _: Expiry) {
    let nr = NR_EXPIRED.fetch_add(1, Relaxed);
    if IS_LOCKING.load(Relaxed) != 0
        && nr < LONGEST_STORM
        && let Some(storm) = STORM.get()
    {
        storm.arm(Instant::now() + BETWEEN);
    }
}

/// Begins such a storm, and a walk from who wants mutex 0.
fn storms_and_walks(_: usize, _: Expiry) {
    NR_EXPIRED.store(0, Relaxed);
    if let (Some(storm), Some(thread)) = (STORM.get(), THREADS[0].get()) {
        storm.arm(Instant::now());
        let priority = thread.priority().unwrap_or(0);
        let _ = thread.set_priority(if priority == PRIORITY - 20 {
            PRIORITY - 21
        } else {
            PRIORITY - 20
        });
    }
}

target_test! {
    /// A walk in interrupts comes upon a circle of owners that its last thread has yet to find: it ends, however little time
    /// other interrupts leave, and that thread finds the circle.
    fn around_a_circle(Alone) {
        STORM.call_once(|| Timer::new(storms, 0).expect("there are timers left"));
        let one = MUTEXES[1].lock()?;
        let threads = [
            spawn(0, PRIORITY + 1, has_0_wants_1, 0)?,
            spawn(1, PRIORITY + 1, wants_0, 0)?,
        ];
        GO.take()?;
        threads[0].set_priority(PRIORITY - 10)?;
        threads[1].set_priority(PRIORITY - 20)?;
        THREADS[0].call_once(|| threads[1]);
        at_every_instruction(
            storms_and_walks,
            || {
                IS_LOCKING.store(1, Relaxed);
                let result = MUTEXES[0].lock();
                IS_LOCKING.store(0, Relaxed);
                NR_FOUND.fetch_add(u32::from(result.err() == Some(Error::Deadlock)), Relaxed);
            },
            |arrival| {
                check_eq!((arrival + 1) as u32, NR_FOUND.load(Relaxed));
                check!(NR_EXPIRED.load(Relaxed) < LONGEST_STORM, "a walk without an end, {arrival}");
                Ok(())
            },
        )?;
        drop(one);
        join(&threads)?;
        Ok(())
    }

    /// A thread that is about to wait for a mutex is raised at any instruction of that.
    fn raised_before_its_wait(Alone) {
        is_raised_meanwhile(PRIORITY, |_, expiry| gives(0, expiry))
    }

    /// The same of a thread that was lowered before: it comes to wait at the priority that it had when it announced its
    /// wait, and the owner has another one all the same.
    fn lowered_and_raised_before_its_wait(Alone) {
        is_raised_meanwhile(RAISED, |_, expiry| lowers_and_has_raised(0, expiry))
    }

    /// A thread that is about to wait for a mutex as the first of all is lowered at any instruction of that, and the mutex
    /// given back meanwhile: if it is the next owner, it is as important as the one that waits behind it.
    fn lowered_before_its_wait(Alone) {
        let threads = [
            spawn(0, PRIORITY + 9, holds_until_stopped, 0)?,
            spawn(1, PRIORITY + 8, lowers, 0)?,
            spawn(2, PRIORITY + 5, wants_in_turn, IN_FRONT)?,
            spawn(3, PRIORITY + 4, wants_in_turn, BEHIND)?,
        ];
        THREADS[0].call_once(|| threads[2]);
        let begin = || {
            let _ = TURNS[OWNS].give();
            let _ = TURNS[BEHIND].give();
        };
        begin();
        let (mut rounds, mut inversions) = (0, 0);
        at_every_instruction(
            |_, expiry| gives(0, expiry),
            || {
                let _ = TURNS[IN_FRONT].give();
            },
            |_| {
                burn(2_000);
                rounds += 1;
                inversions += u32::from(NR_HAD.load(Relaxed) != rounds);
                // The less important ones come to an end as well.
                sleep_until(after_us(20))?;
                check!(NR_HAD.load(Relaxed) == rounds, "{} of {rounds}", NR_HAD.load(Relaxed));
                threads[2].set_priority(PRIORITY + 5)?;
                begin();
                Ok(())
            },
        )?;
        check!(inversions == 0, "{inversions} inversions in {rounds} rounds");
        end(&threads, || {
            let _ = TURNS[GIVES_BACK].give();
            let _ = PERMITS[0].give();
            for turn in &TURNS {
                let _ = turn.give();
            }
        })
    }

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
