//! Patching while everything runs.

use core::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};

use takt_kernel::sync::{Mutex, Semaphore};
use takt_kernel::thread::{Builder, Thread};
use takt_kernel::time::{Expiry, Instant, Nanos, Timer, sleep};
use takt_kernel::trace::function::{
    self, Filter, entry, register_function_hook, unregister_function_hook,
};
use takt_kernel::trace::{self, Event, Mode, events};
use takt_kernel::{Error, thread_stack, yield_now};
use takt_tests::harness::{Failure, PRIORITY};
use takt_tests::{check, check_eq, note, target_test};

thread_stack!(static STACKS: [16384; 5]);

/// How often everything is switched on and off.
const TIMES: u32 = 1_000;

static GO_ON: AtomicBool = AtomicBool::new(true);
static PINGS: AtomicU32 = AtomicU32::new(0);
static LOCKED: AtomicU32 = AtomicU32::new(0);
static TICKS: AtomicU32 = AtomicU32::new(0);
static HOOKED: AtomicU32 = AtomicU32::new(0);
static THERE: Semaphore = Semaphore::new(0, 10);
static BACK: Semaphore = Semaphore::new(0, 10);
static MUTEX: Mutex<u32> = Mutex::new(0);

fn before_long() -> Instant {
    Instant::after(Nanos::from_secs(60))
}

fn ping(_: usize) {
    while GO_ON.load(Relaxed) {
        if THERE.give().is_err() || BACK.take_until(before_long()).is_err() {
            return;
        }
        PINGS.fetch_add(1, Relaxed);
    }
    let _ = THERE.give();
}

fn pong(_: usize) {
    while GO_ON.load(Relaxed) {
        if THERE.take_until(before_long()).is_err() || BACK.give().is_err() {
            return;
        }
    }
    let _ = BACK.give();
}

fn locks(_: usize) {
    while GO_ON.load(Relaxed) {
        if let Ok(mut number) = MUTEX.lock() {
            *number += 1;
            LOCKED.fetch_add(1, Relaxed);
            yield_now();
        }
        let _ = sleep(Nanos::from_micros(3));
    }
}

fn hooked(_: usize, _: usize) {
    HOOKED.fetch_add(1, Relaxed);
}

fn ticks(_: usize, _: Expiry) {
    TICKS.fetch_add(1, Relaxed);
}

#[inline(never)]
fn spawn(slot: usize, cpu: usize, entry: fn(usize)) -> Result<Thread, Error> {
    Builder::new("busy", PRIORITY - 1)?
        .cpu(cpu)
        .spawn(&STACKS[slot], entry, 0)
}

/// Runs `change` at least [`TIMES`] times while threads and timers on CPU 0 and on the last one are at work, and for as
/// long as one of them has not got on `least` times yet, or fewer than so many records were made: a host that is busy may
/// let one CPU stand still for a while, and lets a short sleep be over before it begins.
fn at_work(last: usize, least: u32, change: fn(u32) -> Result<(), Failure>) -> Result<(), Failure> {
    trace::set_mode(Mode::Overwrite);
    trace::tracing_on();
    let threads = [
        spawn(0, 0, ping)?,
        spawn(1, last, pong)?,
        spawn(2, 0, locks)?,
        spawn(3, last, locks)?,
    ];
    let timer = Timer::new(ticks, 0)?;
    let before = trace::counters_of(0).entries;
    let recorded = || trace::counters_of(0).entries - before;
    let work_done = || [&PINGS, &LOCKED, &TICKS].map(|counter| counter.load(Relaxed));
    let is_enough = || work_done().iter().all(|&n| n >= least) && recorded() > u64::from(TIMES);
    let mut too_late = before_long();
    let mut number = 0;
    while number < TIMES || (!is_enough() && Instant::now() < too_late) {
        timer.arm(Instant::after(Nanos::from_micros(7)));
        change(number)?;
        number += 1;
        if number == TIMES {
            too_late = before_long();
        }
        if number >= TIMES {
            // Longer than the sleeps of a change: in those the others may not have run at all.
            sleep(Nanos::from_millis(1))?;
        }
    }
    let recorded = recorded();
    GO_ON.store(false, Relaxed);
    for thread in threads {
        thread.join(before_long())?;
    }
    trace::tracing_off();
    let [pings, locked, ticks] = work_done();
    note!("{recorded} records on CPU 0, {pings} round trips, {locked} times locked, {ticks} ticks");
    check!(pings >= least && locked >= least && ticks >= least);
    check!(recorded > u64::from(TIMES), "{recorded} records");
    Ok(())
}

/// The tracer and a hook, at all functions.
fn functions(number: u32) -> Result<(), Failure> {
    let is_looked_at = number.is_multiple_of(16);
    function::start()?;
    check!(!is_looked_at || entry::nr_patched() > 50);
    sleep(Nanos::from_micros(10))?;
    if number.is_multiple_of(4) {
        let before = HOOKED.load(Relaxed);
        // SAFETY: it counts, in an atomic of this module's.
        let hook = unsafe { register_function_hook(hooked, &Filter::ALL)? };
        sleep(Nanos::from_micros(10))?;
        unregister_function_hook(hook)?;
        check!(HOOKED.load(Relaxed) != before);
    }
    function::stop()?;
    check!(!is_looked_at || entry::nr_patched() == 0);
    sleep(Nanos::from_micros(5))?;
    Ok(())
}

/// The function graph, at all functions. In real time the machine first translates what was patched, which takes longer
/// than a short sleep; others have the CPU only if the thread does sleep.
fn graph(_: u32) -> Result<(), Failure> {
    function::start_graph()?;
    sleep(Nanos::from_micros(200))?;
    function::stop()?;
    sleep(Nanos::from_micros(50))?;
    Ok(())
}

/// The kernel's own events at places where threads and interrupts pass all the time.
fn keys(number: u32) -> Result<(), Failure> {
    let ids = [
        events::sched_switch::Event::id(),
        events::irq_disable::Event::id(),
        events::irq_enable::Event::id(),
    ];
    for id in ids {
        check!(trace::enable(id.number(), number.is_multiple_of(2))? > 0);
    }
    sleep(Nanos::from_micros(5))?;
    Ok(())
}

target_test! {
    /// All functions on and off a thousand times while threads, interrupts and timers are at work.
    fn a_thousand_times_on_and_off(Alone) {
        at_work(0, TIMES / 2, functions)?;
        Ok(())
    }

    /// The same with two CPUs that run at the same time: the other stands still whenever code is rewritten.
    fn a_thousand_times_on_and_off_with_two_cpus(TwoCpus) {
        check_eq!(takt_board::smp::start(2), 2);
        at_work(1, 1, functions)?;
        Ok(())
    }

    /// The function graph likewise, with one CPU.
    fn a_thousand_graphs(Alone) {
        at_work(0, TIMES / 2, graph)?;
        Ok(())
    }

    /// And with two.
    fn a_thousand_graphs_with_two_cpus(TwoCpus) {
        check_eq!(takt_board::smp::start(2), 2);
        at_work(1, 1, graph)?;
        Ok(())
    }

    /// Static keys likewise.
    fn events_on_and_off_with_two_cpus(TwoCpus) {
        check_eq!(takt_board::smp::start(2), 2);
        at_work(1, 1, keys)?;
        Ok(())
    }
}
