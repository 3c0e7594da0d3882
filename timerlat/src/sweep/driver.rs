//! What moves the interrupt over the stretch.
//!
//! Three times the stretch is run undisturbed, with the timer armed as always but far away: that gives its length, and
//! shows whether it is the same each time. Then each run has one arrival.

use core::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};

use takt_kernel::machine::marks;
use takt_kernel::sync::Semaphore;
use takt_kernel::thread::{self, Builder, Thread};
use takt_kernel::time::{AtomicCycles, AtomicInstant, Cycles, Expiry, Instant, Nanos, Timer};
use takt_kernel::{Error, irq, preempt, thread_stack, trace};

use super::block::{Column, ROOM, SweepBlock, SweepState, VERSION};
use super::{WORKLOADS, loads, workloads};

/// A function without arguments that is swept from its call to its return.
pub type Entry = extern "C" fn();

/// What is swept.
#[derive(Clone, Copy, Debug)]
pub enum Subject {
    /// What the application marks with [`begin`] and [`end`].
    Marked,
    /// The workload with this number in [`WORKLOADS`].
    Workload(usize),
    /// Calls of a function.
    Entry(Entry),
}

/// Which arrivals are measured.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Position of the first one: instructions from the beginning of the stretch.
    pub first: u32,
    /// How many; none has the stretch run undisturbed only.
    pub count: u32,
    /// Instructions from one arrival to the next, 1 at least.
    pub step: u32,
    /// Priority of the measured thread, 1 to 99.
    pub priority: u8,
    /// Length of the stretch of a load, in nanoseconds.
    pub window_ns: u64,
    /// Ends the system; is told whether the sweep went well.
    pub end: fn(bool),
}

/// Priority of the thread that keeps the CPU from halting: below all loads.
const BUSY: u8 = 0;

/// Runs without an arrival, before those with one.
const UNDISTURBED: u32 = 3;

/// From the planning of a run to its beginning: more than arming the timer takes.
const LEAD: Cycles = Cycles::new(4_000);

/// The first arrival is so long before the position that was asked for: how late the timer's hardware says so is
/// for the host to find out, which asks for as many arrivals more.
const EARLY: Cycles = Cycles::new(super::EARLY as u64);

/// How long until the timer would expire in an undisturbed run: before any time that a workload waits for.
const FAR: Cycles = Cycles::new(1_000_000_000);

/// What the thread that runs the stretch, the interrupt and the measured thread share.
struct Shared {
    is_on: AtomicBool,
    is_under_way: AtomicBool,
    first: AtomicU32,
    count: AtomicU32,
    step: AtomicU32,
    window: AtomicCycles,
    /// The number of the run.
    run: AtomicU32,
    /// When the run under way is to begin; [`Instant::ZERO`] while none is planned.
    planned: AtomicInstant,
    begun: AtomicInstant,
    ended: AtomicInstant,
    deadline: AtomicInstant,
    irq_latency: AtomicCycles,
    ip: AtomicU32,
    preempt_depth: AtomicU32,
    thread_latency: AtomicCycles,
}

static SHARED: Shared = Shared {
    is_on: AtomicBool::new(false),
    is_under_way: AtomicBool::new(false),
    first: AtomicU32::new(0),
    count: AtomicU32::new(0),
    step: AtomicU32::new(1),
    window: AtomicCycles::new(Cycles::ZERO),
    run: AtomicU32::new(0),
    planned: AtomicInstant::new(Instant::ZERO),
    begun: AtomicInstant::new(Instant::ZERO),
    ended: AtomicInstant::new(Instant::ZERO),
    deadline: AtomicInstant::new(Instant::ZERO),
    irq_latency: AtomicCycles::new(Cycles::ZERO),
    ip: AtomicU32::new(0),
    preempt_depth: AtomicU32::new(0),
    thread_latency: AtomicCycles::new(Cycles::ZERO),
};

static BLOCK: spin::Once<&'static SweepBlock> = spin::Once::new();
static TIMER: spin::Once<Timer> = spin::Once::new();
/// Is never waited for.
static OTHER: spin::Once<Timer> = spin::Once::new();
static END: spin::Once<fn(bool)> = spin::Once::new();

/// Given once by the measured thread when it is there, and then for each arrival.
static MEASURED: Semaphore = Semaphore::new(0, 1);

thread_stack!(static STACKS: [8192; 2]);

fn block() -> &'static SweepBlock {
    BLOCK.get().expect("set by `start` before any run")
}

fn fail(what: &str) {
    defmt::error!("sweep: {=str}", what);
    block().state.store(SweepState::Failed as u32, Relaxed);
    SHARED.is_on.store(false, Relaxed);
    if let Some(end) = END.get() {
        end(false);
    }
}

/// Starts the measured thread and sweeps `subject`: what the application marks, in its own time; everything else before
/// this returns.
///
/// # Errors
/// What creating a thread or a timer may fail with; [`Error::InvalidArgument`] if a number is out of range.
///
/// # Context
/// A thread, once. Other threads of the application should not run yet.
pub fn start(plan: &Plan, subject: Subject, block: &'static SweepBlock) -> Result<(), Error> {
    if plan.count as usize > ROOM || plan.step == 0 || plan.priority < workloads::LEAST_PRIORITY {
        return Err(Error::InvalidArgument);
    }
    let other = Timer::new(|_, _| {}, 0)?;
    // Nobody comes in between who would wait for the end of these.
    let alone = preempt::irq_save();
    BLOCK.call_once(|| block);
    OTHER.call_once(|| other);
    END.call_once(|| plan.end);
    drop(alone);
    SHARED.first.store(plan.first, Relaxed);
    SHARED.count.store(plan.count, Relaxed);
    SHARED.step.store(plan.step, Relaxed);
    SHARED.window.store(Nanos::new(plan.window_ns).to_cycles());
    Builder::new("sweep", plan.priority)?.spawn(&STACKS[0], measured, 0)?;
    MEASURED.take()?;
    // A halted CPU executes nothing that an interrupt could come between, and time passes all the same.
    Builder::new("busy", BUSY)?.spawn(&STACKS[1], |_| busy(), 0)?;
    block.version.store(VERSION, Relaxed);
    block.state.store(SweepState::Running as u32, Relaxed);
    SHARED.is_on.store(true, Relaxed);
    match subject {
        Subject::Marked => Ok(()),
        Subject::Entry(entry) => {
            repeat(Nanos::ZERO, |_| {}, || entry());
            Ok(())
        }
        Subject::Workload(number) => {
            let workload = WORKLOADS.get(number).ok_or(Error::InvalidArgument)?;
            if workload.is_load {
                loads::sweep(workload.name, SHARED.window.load())
            } else {
                workloads::sweep(workload.name)
            }
        }
    }
}

fn busy() {
    // One instruction: a thread that left a longer loop would come back into the middle of it, another one each run.
    marks::stand_still()
}

/// Runs a stretch until all arrivals are measured. `prepare` is told when it will begin, at least `within`
/// later.
pub(super) fn repeat(within: Nanos, mut prepare: impl FnMut(Instant), mut stretch: impl FnMut()) {
    while SHARED.is_on.load(Relaxed) {
        prepare(plan(within.to_cycles()));
        begin();
        stretch();
        end();
    }
}

/// Says when the next run begins: so many cycles from now, and those that arming the timer takes.
fn plan(within: Cycles) -> Instant {
    // The same place in the ring each time.
    if trace::is_on() {
        trace::forget(|_| {});
    }
    // And the queue of timers: whoever arms one among others leaves it prepared.
    let timers = || [&TIMER, &OTHER].into_iter().filter_map(spin::Once::get);
    for timer in timers() {
        timer.arm(Instant::now() + FAR);
    }
    for timer in timers() {
        timer.cancel();
    }
    let begin = Instant::now() + within + LEAD;
    SHARED.planned.store(begin);
    begin
}

/// Whether a sweep is under way.
#[must_use]
pub fn is_on() -> bool {
    SHARED.is_on.load(Relaxed)
}

/// Begins the stretch under test. Without effect in a system that was not started for a sweep, and until all arrivals of
/// a sweep are measured.
///
/// # Context
/// Threads that may wait, one at a time.
#[inline]
pub fn begin() {
    if SHARED.is_on.load(Relaxed) {
        begin_run();
    }
}

#[inline(never)]
fn begin_run() {
    let begin = match SHARED.planned.swap(Instant::ZERO) {
        Instant::ZERO => {
            let begin = plan(Cycles::ZERO);
            SHARED.planned.store(Instant::ZERO);
            begin
        }
        planned => planned,
    };
    SHARED.is_under_way.store(true, Relaxed);
    let run = SHARED.run.load(Relaxed);
    let distance = match run.checked_sub(UNDISTURBED) {
        None => FAR,
        Some(arrival) => {
            let steps = u64::from(arrival) * u64::from(SHARED.step.load(Relaxed));
            Cycles::new(u64::from(SHARED.first.load(Relaxed)) + steps)
        }
    };
    let deadline = begin + marks::BEGIN_LEN + distance - EARLY;
    SHARED.deadline.store(deadline);
    if let Some(timer) = TIMER.get() {
        timer.arm(deadline);
    }
    marks::begin(&SHARED.begun, begin);
}

/// Ends the stretch under test.
///
/// # Context
/// As [`begin`]; another thread may do it.
#[inline]
pub fn end() {
    if SHARED.is_on.load(Relaxed) {
        marks::end(&SHARED.ended);
        end_run();
    }
}

#[inline(never)]
fn end_run() {
    if !SHARED.is_under_way.swap(false, Relaxed) {
        return;
    }
    let began = SHARED.begun.load() + marks::BEGIN_LEN;
    let took = SHARED.ended.load().wrapping_since(began).get() as u32;
    let block = block();
    let run = SHARED.run.load(Relaxed);
    SHARED.run.store(run + 1, Relaxed);
    if let Some(arrival) = run.checked_sub(UNDISTURBED) {
        // An arrival behind the end of the stretch is still to come.
        if MEASURED.take().is_err() {
            return fail("the stretch ends where threads may not wait");
        }
        record(arrival as usize, began, took);
        block.nr.store(arrival + 1, Relaxed);
    } else {
        if let Some(timer) = TIMER.get() {
            timer.cancel();
        }
        block
            .length_before
            .store(block.length.load(Relaxed), Relaxed);
        block.length.store(took, Relaxed);
    }
    if run + 1 == UNDISTURBED + SHARED.count.load(Relaxed) {
        SHARED.is_on.store(false, Relaxed);
        block.state.store(SweepState::Done as u32, Relaxed);
        if let Some(end) = END.get() {
            end(true);
        }
    }
}

fn record(arrival: usize, began: Instant, took: u32) {
    let Some(entry) = block().entries.get(arrival) else {
        return;
    };
    let position = SHARED.deadline.load().wrapping_since(began);
    entry.set(Column::Position, position.get() as u32);
    entry.set(Column::Irq, SHARED.irq_latency.load().get() as u32);
    entry.set(Column::Thread, SHARED.thread_latency.load().get() as u32);
    entry.set(Column::Ip, SHARED.ip.load(Relaxed));
    entry.set(Column::PreemptDepth, SHARED.preempt_depth.load(Relaxed));
    entry.set(Column::Took, took);
}

/// In the timer's interrupt.
fn expired(_: usize, expiry: Expiry) {
    SHARED
        .irq_latency
        .store(expiry.at.wrapping_since(expiry.deadline));
    let interrupted = irq::interrupted();
    SHARED.ip.store(interrupted.ip as u32, Relaxed);
    SHARED
        .preempt_depth
        .store(interrupted.preempt_depth.into(), Relaxed);
}

fn measured(_: usize) {
    let me: Thread = thread::current();
    let Ok(timer) = Timer::waking(me, expired, 0) else {
        return fail("no timer is left");
    };
    TIMER.call_once(|| timer);
    // Never above its maximum: it is taken before the next arrival.
    let _ = MEASURED.give();
    loop {
        if thread::park(Instant::NEVER).is_err() {
            return fail("the measured thread may not wait");
        }
        let latency = Instant::now().wrapping_since(SHARED.deadline.load());
        SHARED.thread_latency.store(latency);
        let _ = MEASURED.give();
    }
}
