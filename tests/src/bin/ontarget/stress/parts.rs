//! The workers that have a part each, and wait without bound: a wake-up that is lost is noticed, since nobody else
//! wakes them for good.

use core::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};

use takt_kernel::sync::{Condvar, Mode, Mutex, Semaphore};
use takt_kernel::thread::{self, Builder, Policy, Stack, Thread};
use takt_kernel::time::{Instant, Nanos, sleep_until};
use takt_kernel::{Error, thread_stack};

use super::model::{
    self, END, FLAGS, NR_CPUS, PERMIT, PING, PONG, QUEUE, Random, Step, WORKERS, demand, stops,
};

/// Counts an operation, and lets less important workers run now and then.
fn done(number: usize, random: &mut Random) {
    WORKERS[number].done();
    if random.below(3) == 0 {
        WORKERS[number].steps(Step::Sleeps);
        let until = Instant::after(Nanos::new(random.below(200_000)));
        demand(sleep_until(until).is_ok(), "a thread cannot sleep");
    }
}

/// Sends without bound.
pub(super) fn sends(number: usize) {
    let (me, mut random) = (&WORKERS[number], Random::of(number));
    while !stops() {
        me.steps(Step::Sends);
        let message = model::message(number);
        match QUEUE.send(message) {
            Ok(()) => model::sent(message),
            Err(_) => demand(false, "a send without end fails"),
        }
        done(number, &mut random);
    }
}

/// Receives without bound, up to [`END`].
pub(super) fn receives(number: usize) {
    let (me, mut random) = (&WORKERS[number], Random::of(number));
    loop {
        me.steps(Step::Receives);
        match QUEUE.receive() {
            Ok(END) => return,
            Ok(message) => model::received(number, message),
            Err(_) => return demand(false, "a receive without end fails"),
        }
        done(number, &mut random);
    }
}

/// A store with room for one thing, so that each notification counts.
struct Stock {
    nr: u32,
    is_closed: bool,
}

static STOCK: Mutex<Stock> = Mutex::new(Stock {
    nr: 0,
    is_closed: false,
});
static NOT_EMPTY: Condvar = Condvar::new();
static NOT_FULL: Condvar = Condvar::new();
pub(super) static NR_STORED: AtomicU32 = AtomicU32::new(0);
pub(super) static NR_FETCHED: AtomicU32 = AtomicU32::new(0);

pub(super) fn stores(number: usize) {
    let (me, mut random) = (&WORKERS[number], Random::of(number));
    loop {
        me.steps(Step::Locks);
        let Ok(mut stock) = STOCK.lock() else {
            return demand(false, "a mutex cannot be locked");
        };
        me.steps(Step::WaitsForCondvar);
        while stock.nr == 1 {
            demand(
                NOT_FULL.wait(&mut stock).is_ok(),
                "a condvar cannot be waited for",
            );
        }
        stock.is_closed = stops();
        stock.nr += 1;
        NR_STORED.fetch_add(1, Relaxed);
        NOT_EMPTY.notify_one();
        if stock.is_closed {
            return;
        }
        drop(stock);
        me.has_its_own_priority();
        done(number, &mut random);
    }
}

pub(super) fn fetches(number: usize) {
    let (me, mut random) = (&WORKERS[number], Random::of(number));
    loop {
        me.steps(Step::Locks);
        let Ok(mut stock) = STOCK.lock() else {
            return demand(false, "a mutex cannot be locked");
        };
        me.steps(Step::WaitsForCondvar);
        while stock.nr == 0 {
            if stock.is_closed {
                return;
            }
            demand(
                NOT_EMPTY.wait(&mut stock).is_ok(),
                "a condvar cannot be waited for",
            );
        }
        stock.nr -= 1;
        NR_FETCHED.fetch_add(1, Relaxed);
        NOT_FULL.notify_one();
        drop(stock);
        me.has_its_own_priority();
        done(number, &mut random);
    }
}

static NR_PINGS: AtomicU32 = AtomicU32::new(0);
static NR_PONGS: AtomicU32 = AtomicU32::new(0);
static LAST_PING: AtomicBool = AtomicBool::new(false);

fn await_flag(number: usize, flag: u32, mode: Mode) {
    WORKERS[number].steps(Step::WaitsForFlags);
    let got = FLAGS.wait(flag, mode, Instant::NEVER);
    demand(
        got.is_ok_and(|flags| flags & flag != 0),
        "a wait for a flag ends without it",
    );
}

pub(super) fn pings(number: usize) {
    let mut random = Random::of(number);
    loop {
        let is_last = stops();
        LAST_PING.store(is_last, Relaxed);
        let nr = NR_PINGS.fetch_add(1, Relaxed) + 1;
        FLAGS.set(PING);
        await_flag(number, PONG, Mode::AllClear);
        demand(
            NR_PONGS.load(Relaxed) == nr,
            "a flag is lost, or comes twice",
        );
        if is_last {
            return;
        }
        done(number, &mut random);
    }
}

pub(super) fn pongs(number: usize) {
    let mut random = Random::of(number);
    loop {
        await_flag(number, PING, Mode::AnyClear);
        let nr = NR_PONGS.fetch_add(1, Relaxed) + 1;
        demand(
            NR_PINGS.load(Relaxed) == nr,
            "a flag is lost, or comes twice",
        );
        let is_last = LAST_PING.load(Relaxed);
        FLAGS.set(PONG);
        if is_last {
            return;
        }
        done(number, &mut random);
    }
}

/// Whose turn it is, by the lowest bit; others may unpark both at any time.
static TURN: AtomicU32 = AtomicU32::new(0);
static LAST_TURN: AtomicBool = AtomicBool::new(false);

/// Two of them park in turn; the other is the next worker of an even one.
pub(super) fn parks(number: usize) {
    let (me, mut random) = (&WORKERS[number], Random::of(number));
    let Some(other) = WORKERS[number ^ 1].thread.get() else {
        return demand(false, "a worker is missing");
    };
    let mine = (number & 1) as u32;
    loop {
        me.steps(Step::Parks);
        while TURN.load(Relaxed) & 1 != mine {
            demand(thread::park(Instant::NEVER).is_ok(), "a worker cannot park");
        }
        let is_last = LAST_TURN.load(Relaxed);
        if stops() {
            LAST_TURN.store(true, Relaxed);
        }
        TURN.fetch_add(1, Relaxed);
        demand(
            other.unpark().is_ok() || stops(),
            "a worker cannot be unparked",
        );
        if is_last || LAST_TURN.load(Relaxed) {
            return;
        }
        done(number, &mut random);
    }
}

static ONE: Semaphore = Semaphore::new(1, 1);
static NR_ASKED: AtomicU32 = AtomicU32::new(0);
static LAST_SERVED: AtomicU32 = AtomicU32::new(0);

/// Equals, on one CPU, that take turns at a semaphore: they get it in the order in which they have asked. Between the number
/// and the call comes none of the others, since they are equals.
pub(super) fn waits_with_equals(number: usize) {
    let (me, mut random) = (&WORKERS[number], Random::of(number));
    loop {
        me.steps(Step::Takes);
        let nr = NR_ASKED.fetch_add(1, Relaxed) + 1;
        demand(ONE.take().is_ok(), "a take without end fails");
        let last = LAST_SERVED.swap(nr, Relaxed);
        demand(nr > last, "one that has waited longer comes later");
        let stops = stops();
        // So that the others come to wait.
        if random.below(2) == 0 {
            me.steps(Step::Sleeps);
            demand(sleep_until(random.soon()).is_ok(), "a thread cannot sleep");
        }
        demand(ONE.give().is_ok(), "a semaphore cannot be given back");
        if stops {
            return;
        }
        done(number, &mut random);
    }
}

thread_stack!(static CHILDREN: [8192; 2]);
pub(super) static NR_CHILDREN: AtomicU32 = AtomicU32::new(0);
static NR_RUNS: AtomicU32 = AtomicU32::new(0);

fn child(number: usize) {
    NR_RUNS.fetch_add(1, Relaxed);
    match number % 3 {
        0 => demand(
            PERMIT.take().is_ok() && PERMIT.give().is_ok(),
            "a child gets no permit",
        ),
        1 => demand(
            sleep_until(Instant::after(Nanos::new(number as u64 % 20_000))).is_ok(),
            "a child cannot sleep",
        ),
        _ => {}
    }
    // SAFETY: there is nothing to drop.
    unsafe { thread::exit(number) }
}

fn create(
    stack: &'static Stack<8192>,
    number: usize,
    random: &mut Random,
) -> Result<Thread, Error> {
    let mut builder = Builder::new("child", random.priority())?.cpu(number % NR_CPUS.load(Relaxed));
    if random.below(2) == 0 {
        builder = builder.policy(Policy::RoundRobin(Nanos::from_micros(20)));
    }
    let thread = builder.create(stack, child, number)?;
    if random.below(2) == 0 {
        thread.suspend()?;
        thread.start()?;
        thread.resume()?;
    } else {
        thread.start()?;
    }
    Ok(thread)
}

/// Has children, two at a time.
pub(super) fn creates(number: usize) {
    let (me, mut random) = (&WORKERS[number], Random::of(number));
    while !stops() {
        me.steps(Step::Creates);
        let children = [0, 1].map(|at| {
            let number = NR_CHILDREN.fetch_add(1, Relaxed) as usize;
            (number, create(&CHILDREN[at], number, &mut random))
        });
        me.steps(Step::Joins);
        for (number, thread) in children {
            let Ok(thread) = thread else {
                return demand(false, "a child cannot be created");
            };
            demand(
                thread.join(Instant::NEVER) == Ok(number),
                "a child ends otherwise",
            );
            demand(
                thread.resume() == Err(Error::NoSuchThread),
                "a child is still there",
            );
        }
        demand(
            NR_RUNS.load(Relaxed) == NR_CHILDREN.load(Relaxed),
            "a child has not run once",
        );
        done(number, &mut random);
    }
}
