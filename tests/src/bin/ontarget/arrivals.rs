//! What is done in several sections, with an interrupt that does something to the same object at every instruction of
//! it: no wake-up is lost, none comes twice.

use core::sync::atomic::{AtomicU32, AtomicUsize, Ordering::Relaxed};

use takt_kernel::sync::{Condvar, EventFlags, Mode, Mutex, Semaphore};
use takt_kernel::thread::{self, Thread};
use takt_kernel::time::{Cycles, Expiry, Instant, Nanos, Timer};
use takt_tests::harness::{Outcome, PRIORITY};
use takt_tests::journal::{note, take};
use takt_tests::worker::{NR, after_us, burn, join, spawn};
use takt_tests::{check, check_eq, target_test};

/// Waiting threads.
pub(crate) const WAITERS: usize = 5;
/// Instructions from the reading of the clock to the last arrival; longer than any of the operations.
const WINDOW: u64 = 3_000;
/// Threads that came back from a wait.
static WOKEN: [AtomicU32; NR] = [const { AtomicU32::new(0) }; NR];
/// The waiting threads end the next time.
pub(crate) static END: AtomicU32 = AtomicU32::new(0);
/// What the interrupt changes the priority of.
pub(crate) static THREADS: [spin::Once<Thread>; 2] = [const { spin::Once::new() }; 2];

pub(crate) fn woken() -> [u32; WAITERS] {
    core::array::from_fn(|slot| WOKEN[slot].load(Relaxed))
}

/// Runs `operation` again and again, with the timer's interrupt an instruction later each time; `check` looks at what
/// became of it, when all has come to rest.
pub(crate) fn at_every_instruction(
    interrupt: fn(usize, Expiry),
    mut operation: impl FnMut(),
    mut check: impl FnMut(u64) -> Outcome,
) -> Outcome {
    let timer = Timer::new(interrupt, 0)?;
    for arrival in 0..WINDOW {
        let begin = Instant::now();
        timer.arm(begin + Cycles::new(100 + arrival));
        operation();
        burn(WINDOW + 500);
        check!(!timer.cancel(), "the interrupt at {arrival} did not come");
        check(arrival)?;
    }
    Ok(())
}

pub(crate) static FLAGS: EventFlags = EventFlags::new(0);

/// Waits for its own flag, and takes it.
pub(crate) fn waits_for_its_flag(slot: usize) {
    while END.load(Relaxed) == 0 {
        if FLAGS
            .wait(1 << slot, Mode::AllClear, Instant::NEVER)
            .is_ok()
        {
            WOKEN[slot].fetch_add(1, Relaxed);
        }
    }
}

/// Waits for a flag that all wait for, and clears it as soon as it is woken.
fn waits_for_one_flag(slot: usize) {
    while END.load(Relaxed) == 0 {
        if FLAGS.wait(1, Mode::Any, Instant::NEVER).is_ok() {
            FLAGS.clear(1);
            WOKEN[slot].fetch_add(1, Relaxed);
        }
    }
}

/// Ends the waiting threads, which `wake` wakes.
pub(crate) fn end(threads: &[Thread], wake: impl FnOnce()) -> Outcome {
    END.store(1, Relaxed);
    wake();
    join(threads)?;
    END.store(0, Relaxed);
    for woken in &WOKEN {
        woken.store(0, Relaxed);
    }
    FLAGS.clear(u32::MAX);
    Ok(())
}

/// Threads of three priorities above the test's.
pub(crate) fn spawn_waiters(entry: fn(usize)) -> Result<[Thread; WAITERS], takt_kernel::Error> {
    let mut threads = [thread::current(); WAITERS];
    for (slot, thread) in threads.iter_mut().enumerate() {
        *thread = spawn(slot, PRIORITY + 1 + (slot % 3) as u8, entry, slot)?;
    }
    Ok(threads)
}

static DEADLINE_OF_FIRST: AtomicUsize = AtomicUsize::new(0);
static CALLS: AtomicU32 = AtomicU32::new(0);

/// Waits until the time-out that the test has chosen; the others of the queue wait for ever.
fn waits_with_time_out(slot: usize) {
    while END.load(Relaxed) == 0 {
        let deadline = Instant::from_cycles(DEADLINE_OF_FIRST.load(Relaxed) as u64);
        let _ = FLAGS.wait(1, Mode::Any, deadline);
        WOKEN[slot].fetch_add(1, Relaxed);
        // Until the test has looked.
        let _ = thread::park(Instant::NEVER);
    }
}

static LOCK: Mutex<u32> = Mutex::new(0);
pub(crate) static CHANGED: Condvar = Condvar::new();

pub(crate) fn waits_for_change(slot: usize) {
    let Ok(mut guard) = LOCK.lock() else { return };
    while END.load(Relaxed) == 0 {
        if CHANGED.wait(&mut guard).is_ok() {
            WOKEN[slot].fetch_add(1, Relaxed);
        }
    }
}

/// Moves two of the waiting threads: each time the one to the other's place.
fn moves_waiters(_: usize, _: Expiry) {
    let turn = CALLS.fetch_add(1, Relaxed) as u8 % 2;
    for (number, thread) in THREADS.iter().enumerate() {
        if let Some(thread) = thread.get() {
            let priority = PRIORITY + 1 + 4 * ((number as u8 + turn) % 2);
            let _ = thread.set_priority(priority);
        }
    }
}

pub(crate) static PERMITS: [Semaphore; 2] = [const { Semaphore::new(0, 9) }; 2];

fn takes_permits(slot: usize) {
    while END.load(Relaxed) == 0 {
        if PERMITS[slot].take().is_ok() {
            WOKEN[slot].fetch_add(1, Relaxed);
        }
    }
}

pub(crate) fn gives(slot: usize, _: Expiry) {
    let _ = PERMITS[slot].give();
}

/// Two threads, of which the second is more important, take what interrupts give while the test's thread runs: so the one
/// that waits again goes over to a thread that an interrupt has preempted. Another interrupt comes meanwhile, and does
/// `second`; then each is to have had as many permits as `expected` says.
fn permits_meanwhile(second: fn(usize, Expiry), expected: [u32; 2]) -> Outcome {
    let threads = [
        spawn(0, PRIORITY + 1, takes_permits, 0)?,
        spawn(1, PRIORITY + 2, takes_permits, 1)?,
    ];
    THREADS[0].call_once(|| threads[0]);
    let first = Timer::new(gives, 0)?;
    let mut rounds = 0;
    at_every_instruction(
        second,
        || first.arm(Instant::now() + Cycles::new(400)),
        |arrival| {
            rounds += 1;
            let had = [0, 1].map(|slot| WOKEN[slot].load(Relaxed));
            check!(
                had == expected.map(|each| each * rounds),
                "arrival {arrival}: {had:?} after {rounds} rounds"
            );
            check_eq!(PERMITS[0].count() + PERMITS[1].count(), 0);
            Ok(())
        },
    )?;
    end(&threads, || {
        for permits in &PERMITS {
            let _ = permits.give();
        }
    })
}

/// Armed among many: what the interrupt does to their queue.
const TIMERS: usize = 40;
static TIMERS_ARMED: [spin::Once<Timer>; TIMERS] = [const { spin::Once::new() }; TIMERS];
/// An hour from the beginning, in cycles.
static FAR: AtomicUsize = AtomicUsize::new(0);

fn nothing(_: usize, _: Expiry) {}

/// When the timer of this number is due.
fn far(number: usize) -> Instant {
    Instant::from_cycles((FAR.load(Relaxed) + 1_000 * number) as u64)
}

fn armed(number: usize) -> Timer {
    *TIMERS_ARMED[number].call_once(|| Timer::new(nothing, 0).expect("there are timers left"))
}

/// Takes some out, among them the neighbours of the place that is looked for, and puts others where they were.
fn moves_timers(_: usize, _: Expiry) {
    let turn = CALLS.fetch_add(1, Relaxed) as usize;
    for number in [0, TIMERS / 2 - 1, TIMERS / 2, turn % TIMERS] {
        let _ = armed(number).cancel();
        armed(number).arm(far((number + turn % 3) % TIMERS));
    }
}

static ENDING: spin::Mutex<Option<Thread>> = spin::Mutex::new(None);
static MADE: spin::Mutex<Option<Thread>> = spin::Mutex::new(None);

fn runs_once(slot: usize) {
    WOKEN[slot].fetch_add(1, Relaxed);
}

/// Begins when an interrupt gives a permit, so beside a preempted thread.
fn takes_one_and_ends(slot: usize) {
    if PERMITS[slot].take().is_ok() {
        runs_once(slot);
    }
}

target_test! {
    /// A timer is armed among many while an interrupt moves others: each is armed once, and in its place.
    fn armed_meanwhile(Alone) {
        FAR.store(Instant::after(Nanos::from_secs(3_600)).cycles() as usize, Relaxed);
        for number in 0..TIMERS {
            armed(number).arm(far(number));
        }
        let subject = Timer::new(nothing, 0)?;
        at_every_instruction(
            moves_timers,
            || subject.arm(far(TIMERS / 2)),
            |arrival| {
                check!(subject.cancel(), "{arrival}: it is not armed");
                check!(!subject.cancel(), "{arrival}: it is armed twice");
                for number in 0..TIMERS {
                    check!(armed(number).cancel(), "{arrival}: {number} is lost");
                    check!(!armed(number).cancel(), "{arrival}: {number} is there twice");
                    armed(number).arm(far(number));
                }
                Ok(())
            },
        )?;
        for number in 0..TIMERS {
            armed(number).cancel();
        }
        Ok(())
    }

    /// A thread ends beside one that was preempted, while an interrupt makes another on the same stack, as soon as it is
    /// free: every thread runs, and can be joined.
    fn ended_meanwhile(Alone) {
        let begin_it = Timer::new(|_, _| gives(0, Expiry { deadline: Instant::from_cycles(0), at: Instant::from_cycles(0) }), 0)?;
        let (mut rounds, mut nr_made) = (0, 0);
        at_every_instruction(
            |_, _| *MADE.lock() = spawn(0, PRIORITY + 2, runs_once, 1).ok(),
            || {
                *ENDING.lock() = spawn(0, PRIORITY + 1, takes_one_and_ends, 0).ok();
                begin_it.arm(Instant::now() + Cycles::new(400));
            },
            |arrival| {
                rounds += 1;
                let (ending, made) = (ENDING.lock().take(), MADE.lock().take());
                nr_made += u32::from(made.is_some());
                for thread in [ending, made].into_iter().flatten() {
                    thread.join(after_us(1_000))?;
                }
                let ran = [0, 1].map(|slot| WOKEN[slot].load(Relaxed));
                check!(ran == [rounds, nr_made], "{arrival}: {ran:?} after {rounds} rounds, {nr_made} made");
                Ok(())
            },
        )?;
        check!(nr_made > 1_000 && nr_made < rounds, "{nr_made} made in {rounds} rounds");
        Ok(())
    }

    /// A thread that waits for a permit again gets the one that an interrupt gives at any instruction of that.
    fn permit_given_meanwhile(Alone) {
        permits_meanwhile(|_, expiry| gives(0, expiry), [2, 0])
    }

    /// The same where the interrupt wakes a more important thread, which comes in between.
    fn other_permit_given_meanwhile(Alone) {
        permits_meanwhile(|_, expiry| gives(1, expiry), [1, 1])
    }

    /// And where it does both, and suspends and resumes the one that is about to wait.
    fn suspended_and_resumed_meanwhile(Alone) {
        permits_meanwhile(|_, expiry| {
            if let Some(thread) = THREADS[0].get() {
                let _ = thread.suspend();
                gives(0, expiry);
                gives(1, expiry);
                let _ = thread.resume();
            }
        }, [2, 1])
    }

    /// Flags that an interrupt sets while others are being set: each wakes its own, once.
    fn flags_set_meanwhile(Alone) {
        let threads = spawn_waiters(waits_for_its_flag)?;
        let mut rounds = 0;
        at_every_instruction(|_, _| FLAGS.set(0b10101), || FLAGS.set(0b01010), |arrival| {
            rounds += 1;
            check!(woken() == [rounds; WAITERS], "arrival {arrival}: {:?} of {rounds}", woken());
            check_eq!(FLAGS.get(), 0);
            Ok(())
        })?;
        end(&threads, || FLAGS.set(u32::MAX))
    }

    /// A flag that the first thread that it wakes clears at once wakes the others all the same, wherever an interrupt
    /// moves two of them in the queue.
    fn flag_cleared_by_the_woken(Alone) {
        let threads = spawn_waiters(waits_for_one_flag)?;
        THREADS[0].call_once(|| threads[1]);
        THREADS[1].call_once(|| threads[3]);
        let mut rounds = 0;
        at_every_instruction(moves_waiters, || FLAGS.set(1), |arrival| {
            rounds += 1;
            check!(woken() == [rounds; WAITERS], "arrival {arrival}: {:?} of {rounds}", woken());
            check_eq!(FLAGS.get(), 0);
            Ok(())
        })?;
        end(&threads, || FLAGS.set(1))
    }

    /// A waiter whose time-out comes while the flag is being set is woken once, by the one or the other, and those
    /// behind it are woken.
    fn time_out_meanwhile(Alone) {
        DEADLINE_OF_FIRST.store(usize::MAX, Relaxed);
        let threads = spawn_waiters(waits_with_time_out)?;
        for arrival in 0..WINDOW {
            // All come to wait again, with a deadline that lies in the operation.
            FLAGS.set(1);
            burn(200);
            FLAGS.clear(1);
            let before = woken();
            let deadline = Instant::now() + Cycles::new(4_000 + arrival);
            DEADLINE_OF_FIRST.store(usize::MAX, Relaxed);
            for (slot, thread) in threads.iter().enumerate() {
                let mine = if slot == 1 { deadline.cycles() as usize } else { usize::MAX };
                DEADLINE_OF_FIRST.store(mine, Relaxed);
                thread.unpark()?;
            }
            while Instant::now() < Instant::from_cycles(deadline.cycles() - arrival) {}
            FLAGS.set(1);
            burn(WINDOW + 500);
            let after = woken();
            check!(after == before.map(|n| n + 1), "arrival {arrival}: {before:?}, then {after:?}");
            FLAGS.clear(1);
        }
        END.store(1, Relaxed);
        for thread in &threads {
            thread.unpark()?;
        }
        end(&threads, || FLAGS.set(1))
    }

    /// All are notified once more by an interrupt meanwhile: each is woken at least once and at most twice, and no one
    /// is left behind.
    fn notified_meanwhile(Alone) {
        let threads = spawn_waiters(waits_for_change)?;
        let mut before = woken();
        at_every_instruction(|_, _| { CHANGED.notify_all(); }, || { CHANGED.notify_all(); }, |arrival| {
            let now = woken();
            for (before, now) in before.iter().zip(now) {
                check!((1..=2).contains(&(now - before)), "arrival {arrival}: woken {} times", now - before);
            }
            before = now;
            Ok(())
        })?;
        end(&threads, || { CHANGED.notify_all(); })
    }

    /// Wherever an interrupt moves two of them in the queue, notifying all wakes each once.
    fn notified_and_moved(Alone) {
        let threads = spawn_waiters(waits_for_change)?;
        THREADS[0].call_once(|| threads[1]);
        THREADS[1].call_once(|| threads[3]);
        let mut rounds = 0;
        at_every_instruction(moves_waiters, || { CHANGED.notify_all(); }, |arrival| {
            rounds += 1;
            check!(woken() == [rounds; WAITERS], "arrival {arrival}: {:?} of {rounds}", woken());
            Ok(())
        })?;
        end(&threads, || { CHANGED.notify_all(); })
    }

    /// Timers that expire at once do so in the order in which they were armed, and a thread that one of them wakes runs once,
    /// when all are done.
    fn timers_at_once(Alone) {
        static LAST: AtomicUsize = AtomicUsize::new(0);
        fn expired(number: usize, expiry: Expiry) {
            let last = LAST.swap(expiry.at.cycles() as usize, Relaxed) as u64;
            note(if expiry.at.cycles() >= last { number as u32 } else { 99 });
        }
        fn woken_by_timer(_: usize) {
            let result = thread::park(Instant::NEVER);
            note(if result.is_ok() { 50 } else { 98 });
        }
        let thread = spawn(0, PRIORITY + 1, woken_by_timer, 0)?;
        let first = Timer::waking(thread, expired, 0)?;
        let others: [Result<Timer, takt_kernel::Error>; 7] = core::array::from_fn(|n| Timer::new(expired, n + 1));
        let at = after_us(50);
        first.arm(at);
        for timer in &others {
            if let Ok(timer) = timer {
                timer.arm(at);
            }
        }
        burn(60_000);
        let order = take();
        check_eq!(order.len(), 9);
        check_eq!(order.iter().filter(|number| **number == 50).count(), 1);
        check!(order.iter().filter(|number| **number != 50).copied().eq(0..8), "{order:?}");
        join(&[thread])
            .map_err(Into::into)
    }
}
