//! Stretches made of the kernel's primitives, alone and with others waiting.
//!
//! Each is a function that runs it once; the threads that it needs stand ready before it begins and stand there again
//! after it has ended.

use core::sync::atomic::{AtomicU8, AtomicU32, Ordering::Relaxed};

use takt_kernel::machine::marks;
use takt_kernel::sync::{Condvar, EventFlags, Mode, Mutex, Queue, Semaphore};
use takt_kernel::thread::{self, Builder, Policy, Thread};
use takt_kernel::time::{AtomicInstant, Cycles, Expiry, Instant, Nanos, Timer, sleep};
use takt_kernel::{Error, thread_stack, trace, yield_now};

use super::driver::repeat;

/// The stretch's own thread.
const MAIN: u8 = 50;
const LOW: u8 = 40;
const HIGH: u8 = 60;

/// What workloads whose names end in `-low` take off all of these: the run queue has a second word for priorities below 36.
const DOWN: u8 = 28;
static TAKEN_OFF: AtomicU8 = AtomicU8::new(0);

/// The measured thread is above all that a workload starts.
pub(super) const LEAST_PRIORITY: u8 = HIGH + 10;

/// Threads that wait for one object.
const WAITERS: usize = 8;
/// Owners in a chain of mutexes.
const CHAIN: usize = 4;
/// Timers that are queued besides the one in use.
const TIMERS: usize = 64;
/// Timers that expire at once.
const AT_ONCE: usize = 16;

/// Time for all threads to come to rest.
pub(super) const SETTLE: Nanos = Nanos::from_micros(5);
/// Later than the end of any run.
const LATER: Nanos = Nanos::from_secs(3);
/// Between two deadlines of several timers.
const NEAR: Nanos = Nanos::from_millis(1);

const STACK_SIZE: usize = 8192;
thread_stack!(static STACKS: [STACK_SIZE; AT_ONCE + 1]);
/// The stack that the thread under test uses again and again.
const OWN_STACK: usize = AT_ONCE;

fn spawn(slot: usize, priority: u8, entry: fn(usize)) -> Result<Thread, Error> {
    builder(priority)?.spawn(&STACKS[slot], entry, slot)
}

fn builder(priority: u8) -> Result<Builder, Error> {
    Builder::new("subject", priority - TAKEN_OFF.load(Relaxed))
}

pub(super) fn settle() {
    // It fails in interrupts only.
    let _ = sleep(SETTLE);
}

/// Calls that cannot fail as they are used here: what they give would show as a stretch that is not the same each time.
fn ignore<T, E>(_: Result<T, E>) {}

/// Sweeps the workload of this name.
pub(super) fn sweep(name: &str) -> Result<(), Error> {
    let (name, taken_off) = match name.strip_suffix("-low") {
        Some(name) => (name, DOWN),
        None => (name, 0),
    };
    TAKEN_OFF.store(taken_off, Relaxed);
    thread::current().set_priority(MAIN - taken_off)?;
    match name {
        "semaphore" => simple(|| {
            ignore(THERE.give());
            ignore(THERE.try_take());
        }),
        "semaphore-contended" => {
            spawn(0, HIGH, |_| while THERE.take().is_ok() {})?;
            simple(|| ignore(THERE.give()));
        }
        "semaphore-timeout" => {
            simple(|| ignore(THERE.take_until(Instant::after(Nanos::from_micros(1)))))
        }
        "mutex" => simple(|| drop(MUTEXES[0].lock())),
        "mutex-contended" => chain(1)?,
        "mutex-chain" => chain(CHAIN)?,
        "queue" => simple(|| {
            ignore(QUEUE.send(1));
            ignore(QUEUE.receive());
        }),
        "queue-contended" => {
            spawn(0, HIGH, |_| while QUEUE.receive().is_ok() {})?;
            simple(|| ignore(QUEUE.send(1)));
        }
        "event-flags" => event_flags()?,
        "condvar" => condvar()?,
        "timer" => arm_and_cancel()?,
        "timer-many" => {
            for number in 0..TIMERS as u64 {
                Timer::new(|_, _| {}, 0)?.arm(Instant::after(LATER * (1 + number % 7)));
            }
            arm_and_cancel()?;
        }
        "timer-between" => {
            for number in 0..10 {
                Timer::new(|_, _| {}, 0)?.arm(Instant::after(LATER + NEAR * number));
            }
            // Always the same time: it is not to come nearer to the others'.
            let deadline = Instant::after(LATER + NEAR * 15 / 2);
            let timer = Timer::new(|_, _| {}, 0)?;
            simple(|| {
                timer.arm(deadline);
                timer.cancel();
            });
        }
        "timer-rearm" => rearm()?,
        "timers-at-once" => timers_at_once()?,
        "sleep" => simple(|| ignore(sleep(Nanos::from_micros(1)))),
        "thread" => simple(|| create_and_join(LOW)),
        "thread-contended" => simple(|| create_and_join(HIGH)),
        "thread-end" => thread_end()?,
        "priority" => {
            let thread = spawn(0, LOW, |_| ignore(thread::park(Instant::NEVER)))?;
            repeat(
                SETTLE * 2,
                |_| settle(),
                || {
                    ignore(thread.set_priority(HIGH));
                    ignore(thread.set_priority(LOW));
                },
            );
        }
        "switch" => {
            spawn(0, MAIN, |_| {
                loop {
                    yield_now();
                }
            })?;
            repeat(Nanos::ZERO, |_| yield_now(), yield_now);
        }
        "suspend" => {
            let thread = spawn(0, LOW, |_| {
                loop {
                    core::hint::spin_loop();
                }
            })?;
            repeat(
                Nanos::ZERO,
                |_| {},
                || {
                    ignore(thread.suspend());
                    ignore(thread.resume());
                },
            );
        }
        "suspend-contended" => {
            let thread = spawn(0, HIGH, |_| while thread::current().suspend().is_ok() {})?;
            simple(|| ignore(thread.resume()));
        }
        "round-robin" => round_robin()?,
        "timeout-race" => timeout_race()?,
        "waiter-suspended" => {
            let waiter = spawn(0, HIGH, |_| while THERE.take().is_ok() {})?;
            simple(|| {
                ignore(waiter.suspend());
                ignore(THERE.give());
                ignore(waiter.resume());
            });
        }
        "waiter-moved" => waiter_moved()?,
        "circle" => circle()?,
        "errors" => errors()?,
        "trace" => {
            fill();
            // Its first record opens a sub-buffer, which is a stretch of its own.
            let prepare = |_| trace::record_marker("none");
            repeat(Nanos::ZERO, prepare, || {
                trace::record_marker("one");
                trace::record_marker("another, longer");
            });
        }
        "trace-slow" => trace_slow(),
        _ => return Err(Error::InvalidArgument),
    }
    Ok(())
}

fn simple(stretch: impl FnMut()) {
    repeat(Nanos::ZERO, |_| {}, stretch);
}

static THERE: Semaphore = Semaphore::new(0, 1);
static QUEUE: Queue<u32, 4> = Queue::new();

static MUTEXES: [Mutex<u32>; CHAIN] = [const { Mutex::new(0) }; CHAIN];
static GO: [Semaphore; CHAIN] = [const { Semaphore::new(0, 1) }; CHAIN];
static RELEASE: Semaphore = Semaphore::new(0, 1);

/// Owner number `slot` locks its mutex and waits for the next owner's; the first one waits to be let go.
fn owner(slot: usize) {
    while GO[slot].take().is_ok() {
        let mine = MUTEXES[slot].lock();
        match slot.checked_sub(1) {
            None => ignore(RELEASE.take()),
            Some(next) => drop(MUTEXES[next].lock()),
        }
        drop(mine);
    }
}

fn chain(length: usize) -> Result<(), Error> {
    for slot in 0..length {
        spawn(slot, LOW + slot as u8, owner)?;
    }
    let prepare = |_| {
        for go in &GO[..length] {
            ignore(go.give());
            settle();
        }
    };
    repeat(SETTLE * (2 * length as u64), prepare, || {
        // The first owner is ready then, but less important than this thread.
        ignore(RELEASE.give());
        drop(MUTEXES[length - 1].lock());
    });
    Ok(())
}

/// The owners of [`chain`] from this one on, which stay. Gives the last.
fn standing_chain(first: usize) -> Result<Thread, Error> {
    let mut last = thread::current();
    for (slot, go) in GO.iter().enumerate().skip(first) {
        last = spawn(slot, LOW + slot as u8, owner)?;
        go.give()?;
        settle();
    }
    Ok(last)
}

fn waiter_moved() -> Result<(), Error> {
    let last = standing_chain(0)?;
    simple(|| {
        ignore(last.set_priority(MAIN - 1));
        ignore(last.set_priority(LOW));
    });
    Ok(())
}

/// What the last owner of [`standing_chain`] has waits for what the first one has, which waits for this thread's.
fn circle() -> Result<(), Error> {
    static OWN: Mutex<u32> = Mutex::new(0);
    let own = OWN.lock()?;
    spawn(CHAIN, LOW - 1, |_| {
        let first = MUTEXES[0].lock();
        drop(OWN.lock());
        drop(first);
    })?;
    settle();
    standing_chain(1)?;
    simple(|| drop(MUTEXES[CHAIN - 1].lock()));
    drop(own);
    Ok(())
}

fn errors() -> Result<(), Error> {
    let own = MUTEXES[0].lock()?;
    let gone = spawn(OWN_STACK, HIGH, |_| {})?;
    gone.join(Instant::NEVER)?;
    let me = thread::current();
    simple(|| {
        ignore(THERE.try_take());
        ignore(THERE.take_until(Instant::ZERO));
        ignore(QUEUE.try_receive());
        ignore(QUEUE.receive_until(Instant::ZERO));
        ignore(FLAGS.try_wait(1, Mode::AllClear));
        ignore(FLAGS.wait(1, Mode::AllClear, Instant::ZERO));
        drop(MUTEXES[0].lock());
        ignore(me.join(Instant::NEVER));
        ignore(gone.resume());
        ignore(gone.set_priority(LOW));
        ignore(gone.unpark());
        ignore(thread::park(Instant::ZERO));
    });
    drop(own);
    Ok(())
}

/// Later than any time for which the measured timer is armed, so that it finds the same place in the queue each time.
const QUANTUM: Nanos = Nanos::from_secs(2);

fn round_robin() -> Result<(), Error> {
    const POLICY: Policy = Policy::RoundRobin(QUANTUM);
    let equal = |_| {
        loop {
            yield_now();
        }
    };
    builder(MAIN)?.policy(POLICY).spawn(&STACKS[0], equal, 0)?;
    let subject = |_| {
        repeat(
            Nanos::ZERO,
            |_| yield_now(),
            || {
                yield_now();
                drop(MUTEXES[0].lock());
                ignore(sleep(Nanos::from_micros(1)));
                yield_now();
            },
        );
    };
    let subject = builder(MAIN)?
        .policy(POLICY)
        .spawn(&STACKS[1], subject, 0)?;
    subject.join(Instant::NEVER)?;
    Ok(())
}

/// From the beginning of [`timeout_race`] to the time-out: within the section of the `give`.
const RACE: Cycles = Cycles::new(40);

fn timeout_race() -> Result<(), Error> {
    static UNTIL: AtomicInstant = AtomicInstant::new(Instant::ZERO);
    spawn(0, HIGH, |_| {
        while RELEASE.take().is_ok() {
            ignore(THERE.take_until(UNTIL.load()));
        }
    })?;
    let prepare = |begin| {
        ignore(THERE.try_take());
        UNTIL.store(begin + marks::BEGIN_LEN + RACE);
        ignore(RELEASE.give());
    };
    repeat(SETTLE, prepare, || {
        ignore(THERE.give());
        ignore(THERE.try_take());
        ignore(THERE.give());
    });
    Ok(())
}

static FLAGS: EventFlags = EventFlags::new(0);

fn event_flags() -> Result<(), Error> {
    for slot in 0..WAITERS {
        spawn(slot, HIGH, |slot| {
            while FLAGS
                .wait(1 << slot, Mode::AllClear, Instant::NEVER)
                .is_ok()
            {}
        })?;
    }
    repeat(SETTLE * 2, |_| settle(), || FLAGS.set((1 << WAITERS) - 1));
    Ok(())
}

static CHANGED: Condvar = Condvar::new();

fn condvar() -> Result<(), Error> {
    for slot in 0..WAITERS {
        spawn(slot, HIGH, |_| {
            if let Ok(mut guard) = MUTEXES[0].lock() {
                while CHANGED.wait(&mut guard).is_ok() {}
            }
        })?;
    }
    repeat(
        SETTLE * 2,
        |_| settle(),
        || {
            CHANGED.notify_all();
        },
    );
    Ok(())
}

fn arm_and_cancel() -> Result<(), Error> {
    let timer = Timer::new(|_, _| {}, 0)?;
    simple(|| {
        timer.arm(Instant::after(LATER));
        timer.cancel();
    });
    Ok(())
}

fn rearm() -> Result<(), Error> {
    for number in 0..TIMERS as u64 {
        Timer::new(|_, _| {}, 0)?.arm(Instant::after(LATER * (1 + number % 7)));
    }
    let timer = Timer::new(|_, _| {}, 0)?;
    // Always the same times: none is to come nearer to the others'.
    let [sooner, between, later] = [LATER * 2 / 3, LATER * 9 / 2, LATER * 9].map(Instant::after);
    simple(|| {
        timer.arm(later);
        timer.arm(sooner);
        timer.arm(between);
        timer.arm(later);
        timer.cancel();
    });
    Ok(())
}

static EXPIRED: AtomicU32 = AtomicU32::new(0);

fn timers_at_once() -> Result<(), Error> {
    let mut timers = [const { None }; AT_ONCE];
    for (slot, timer) in timers.iter_mut().enumerate() {
        let thread = spawn(slot, LOW, |_| while thread::park(Instant::NEVER).is_ok() {})?;
        let expired = |_, _: Expiry| {
            EXPIRED.fetch_add(1, Relaxed);
        };
        *timer = Some(Timer::waking(thread, expired, 0)?);
    }
    let prepare = |begin| {
        settle();
        EXPIRED.store(0, Relaxed);
        for timer in timers.iter().flatten() {
            timer.arm(begin + Cycles::new(200));
        }
    };
    repeat(SETTLE * 2, prepare, || {
        while EXPIRED.load(Relaxed) < AT_ONCE as u32 {
            core::hint::spin_loop();
        }
    });
    Ok(())
}

fn create_and_join(priority: u8) {
    if let Ok(thread) = spawn(OWN_STACK, priority, |_| {}) {
        ignore(thread.join(Instant::NEVER));
    }
}

static NEXT: [Semaphore; WAITERS] = [const { Semaphore::new(0, 1) }; WAITERS];
/// The thread that ends.
static ENDING: spin::Mutex<Option<Thread>> = spin::Mutex::new(None);

/// Several threads wait for the end of one.
fn thread_end() -> Result<(), Error> {
    for slot in 0..WAITERS {
        spawn(slot, HIGH, |slot| {
            while NEXT[slot].take().is_ok() {
                let ending = *ENDING.lock();
                if let Some(thread) = ending {
                    ignore(thread.join(Instant::NEVER));
                }
            }
        })?;
    }
    let prepare = |_| {
        let thread = spawn(OWN_STACK, LOW, |_| ignore(RELEASE.take()));
        *ENDING.lock() = thread.ok();
        settle();
        for next in &NEXT {
            ignore(next.give());
        }
    };
    repeat(SETTLE * 3, prepare, || {
        ignore(RELEASE.give());
        // The thread ends while this one sleeps.
        settle();
    });
    Ok(())
}

/// A text as long as a marker may be.
const LONG: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

/// Goes round the ring once, so that all runs find it full.
fn fill() {
    trace::tracing_on();
    for _ in 0..2 * takt_kernel::config::TRACE_NR_SUBS {
        trace::record_marker(LONG);
        trace::forget(|_| {});
    }
}

/// Fills the open sub-buffer up to a place where the next record has no room.
fn trace_slow() {
    trace::tracing_on();
    let per_record = {
        let before = trace::counters_of(0).bytes;
        trace::record_marker(LONG);
        trace::counters_of(0).bytes - before
    };
    fill();
    let room = takt_kernel::config::TRACE_SUB_SIZE as u64 - 64;
    let prepare = |_| {
        for _ in 0..room / per_record.max(1) {
            trace::record_marker(LONG);
        }
    };
    repeat(Nanos::from_micros(20), prepare, || {
        trace::record_marker(LONG);
        trace::record_marker(LONG);
    });
}
