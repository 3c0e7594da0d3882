//! The workers that do random things, and the periodic timer beside them.

use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};

use takt_kernel::sync::Mode;
use takt_kernel::thread;
use takt_kernel::time::{Cycles, Expiry, Instant, Nanos, Timer, sleep, sleep_until};
use takt_kernel::{irq, preempt, yield_now};
use takt_tests::worker::{burn, times};

use super::model::{
    self, CHANGED, EQUALS, FLAGS, HOLDERS, NR, NR_ACTORS, PAIRS, PERMIT, PERMITS, QUEUE, Random,
    SHARED, STORM, Step, WORKERS, Worker, demand, stops,
};

pub(super) fn run(number: usize) {
    let mut random = Random::of(number);
    let timer = match Timer::new(expired, number) {
        Ok(timer) => *TIMERS[number].timer.call_once(|| timer),
        Err(_) => return demand(false, "there is no timer left"),
    };
    while !stops() {
        act(number, timer, &mut random);
        let worker = &WORKERS[number];
        worker.has_its_own_priority();
        worker.done();
    }
}

fn act(number: usize, timer: Timer, random: &mut Random) {
    let me = &WORKERS[number];
    match random.below(16) {
        0 | 1 => chain(number, random),
        2 => {
            me.steps(Step::Takes);
            match random.below(2) {
                0 => demand(PERMIT.take().is_ok(), "a take without end fails"),
                _ => {
                    let soon = random.soon();
                    if let Err(error) = PERMIT.take_until(soon) {
                        return model::is_late(error, soon);
                    }
                }
            }
            demand(
                HOLDERS.fetch_add(1, Relaxed) < PERMITS,
                "more hold a permit than there are",
            );
            burn(random.below(2_000));
            HOLDERS.fetch_sub(1, Relaxed);
            demand(PERMIT.give().is_ok(), "a permit cannot be given back");
        }
        3 => {
            me.steps(Step::Sends);
            let (message, soon) = (model::message(number), random.soon());
            match QUEUE.send_until(message, soon) {
                Ok(()) => model::sent(message),
                Err((back, error)) => {
                    demand(back == message, "another message comes back");
                    model::is_late(error, soon);
                }
            }
        }
        4 => {
            me.steps(Step::Receives);
            let soon = random.soon();
            match QUEUE.receive_until(soon) {
                Ok(message) => model::received(number, message),
                Err(error) => model::is_late(error, soon),
            }
        }
        5 => {
            me.steps(Step::Sleeps);
            let soon = random.soon();
            demand(sleep_until(soon).is_ok(), "a thread cannot sleep");
            demand(Instant::now() >= soon, "a sleep ends early");
        }
        6 => {
            me.steps(Step::Yields);
            yield_now();
        }
        7 => set_priority(number, number, random),
        8 => set_priority(number, random.below(NR as u64) as usize, random),
        9 => {
            me.steps(Step::Parks);
            if let Some(other) = WORKERS[random.below(NR as u64) as usize].thread.get() {
                demand(
                    other.unpark().is_ok() || stops(),
                    "a worker cannot be unparked",
                );
            }
            let soon = random.soon();
            if let Err(error) = thread::park(soon) {
                model::is_late(error, soon);
            }
        }
        10 => {
            me.steps(Step::WaitsForFlags);
            let (mask, soon) = (16 << random.below(4), random.soon());
            FLAGS.set(mask);
            if let Err(error) = FLAGS.wait(16 << random.below(4), Mode::AnyClear, soon) {
                model::is_late(error, soon);
            }
        }
        11 => {
            me.steps(Step::WaitsForCondvar);
            CHANGED.notify_all();
            let soon = random.soon();
            match SHARED.lock() {
                Ok(mut pair) => {
                    if let Err(error) = CHANGED.wait_until(&mut pair, soon) {
                        model::is_late(error, soon);
                    }
                    model::change(&mut pair, random);
                }
                Err(_) => demand(false, "a mutex cannot be locked"),
            }
        }
        12 => suspend(number, random),
        13 => arm(number, timer, random),
        14 => suspend_myself(number, timer, random),
        _ => {
            me.steps(Step::Looks);
            model::look();
        }
    }
}

/// Locks some of the mutexes, in their order, and changes what they protect.
fn chain(number: usize, random: &mut Random) {
    let mut held: [Option<model::Held>; PAIRS.len()] = Default::default();
    for at in random.below(PAIRS.len() as u64) as usize..PAIRS.len() {
        let deadline = match random.below(3) {
            0 => random.soon(),
            _ => Instant::NEVER,
        };
        let Some(mut pair) = model::lock(number, at, deadline) else {
            break;
        };
        model::change(&mut pair, random);
        held[at] = Some(pair);
        if random.below(3) == 0 {
            break;
        }
    }
    match random.below(4) {
        0 => model::look(),
        // So that the others come to wait.
        1 => demand(sleep_until(random.soon()).is_ok(), "a thread cannot sleep"),
        _ => {}
    }
    // Half of the time the first one first.
    if random.below(2) == 0 {
        held.reverse();
    }
}

fn set_priority(number: usize, target: usize, random: &mut Random) {
    let (me, other) = (&WORKERS[number], &WORKERS[target]);
    me.steps(Step::SetsPriority);
    let Some(thread) = other.thread.get().filter(|_| !EQUALS.contains(&target)) else {
        return;
    };
    if !other.claim() {
        return;
    }
    let priority = random.priority();
    model::NR_CHANGING.fetch_add(1, Relaxed);
    if thread.set_priority(priority).is_ok() {
        other.set_base(priority);
        let is_at_least = thread.priority().is_ok_and(|seen| seen >= priority);
        demand(
            is_at_least || stops(),
            "a worker has less than its own priority",
        );
    } else {
        demand(stops(), "a priority cannot be set");
    }
    model::NR_CHANGING.fetch_sub(1, Relaxed);
    other.unclaim();
}

/// A worker behind this one does not run for a while. Never one before it: no two wait for each other to be resumed.
fn suspend(number: usize, random: &mut Random) {
    WORKERS[number].steps(Step::Suspends);
    let target = number + 1 + random.below((NR - 1 - number) as u64) as usize;
    let other = &WORKERS[target];
    let Some(thread) = other.thread.get().filter(|_| !EQUALS.contains(&target)) else {
        return;
    };
    if !other.claim() {
        return;
    }
    if thread.suspend().is_ok() {
        let before = switches(other);
        match random.below(2) {
            0 => burn(random.below(1_000)),
            _ => demand(sleep_until(random.soon()).is_ok(), "a thread cannot sleep"),
        }
        // On another CPU it runs on until the interrupt that stops it.
        let has_run = model::is_one_cpu() && switches(other) != before;
        demand(!has_run || stops(), "a suspended worker runs");
        demand(
            thread.resume().is_ok() || stops(),
            "a worker cannot be resumed",
        );
    } else {
        demand(stops(), "a worker cannot be suspended");
    }
    other.unclaim();
}

fn switches(worker: &Worker) -> Option<u64> {
    worker
        .thread
        .get()
        .and_then(|it| times(it).ok())
        .map(|times| times.switches)
}

/// An actor's timer.
struct Alarm {
    timer: spin::Once<Timer>,
    deadline: AtomicU64,
    nr_expired: AtomicU32,
    /// Its actor suspends itself, and is resumed by it.
    resumes: AtomicBool,
}

static TIMERS: [Alarm; NR_ACTORS] = [const {
    Alarm {
        timer: spin::Once::new(),
        deadline: AtomicU64::new(0),
        nr_expired: AtomicU32::new(0),
        resumes: AtomicBool::new(false),
    }
}; NR_ACTORS];

fn expired(number: usize, expiry: Expiry) {
    let alarm = &TIMERS[number];
    demand(expiry.at >= expiry.deadline, "a timer expires early");
    demand(
        expiry.deadline.cycles() == alarm.deadline.load(Relaxed),
        "a timer expires at another deadline",
    );
    alarm.nr_expired.fetch_add(1, Relaxed);
    if !alarm.resumes.load(Relaxed) {
        return;
    }
    let is_resumed = WORKERS[number]
        .thread
        .get()
        .is_some_and(|it| it.resume().is_ok());
    if is_resumed {
        alarm.resumes.store(false, Relaxed);
    } else if let Some(timer) = alarm.timer.get() {
        // It has not come to suspend itself yet.
        alarm.arm(*timer, Instant::after(Nanos::from_micros(5)));
    }
}

impl Alarm {
    fn arm(&self, timer: Timer, deadline: Instant) {
        self.deadline.store(deadline.cycles(), Relaxed);
        timer.arm(deadline);
    }
}

/// Arms the timer, moves it perhaps, and takes it back or waits for it: it expires once or not at all.
fn arm(number: usize, timer: Timer, random: &mut Random) {
    WORKERS[number].steps(Step::ArmsTimer);
    let alarm = &TIMERS[number];
    let before = alarm.nr_expired.load(Relaxed);
    alarm.arm(timer, random.soon());
    burn(random.below(2_000));
    if random.below(2) == 0 {
        let guard = preempt::irq_save();
        // It belongs to this CPU, and cannot expire meanwhile.
        if alarm.nr_expired.load(Relaxed) == before {
            alarm.arm(timer, random.soon());
        }
        drop(guard);
    }
    let is_taken_back = random.below(2) == 0 && timer.cancel();
    let mut tries = 0;
    while !is_taken_back && alarm.nr_expired.load(Relaxed) == before && tries < 1_000 {
        demand(
            sleep(Nanos::from_micros(100)).is_ok(),
            "a thread cannot sleep",
        );
        tries += 1;
    }
    let nr = alarm.nr_expired.load(Relaxed).wrapping_sub(before);
    demand(
        nr == u32::from(!is_taken_back),
        "a timer is lost, or expires too often",
    );
}

/// Is resumed by the timer.
fn suspend_myself(number: usize, timer: Timer, random: &mut Random) {
    let me = &WORKERS[number];
    me.steps(Step::SuspendsItself);
    if !me.claim() {
        return;
    }
    let alarm = &TIMERS[number];
    alarm.resumes.store(true, Relaxed);
    alarm.arm(timer, random.soon());
    demand(
        thread::current().suspend().is_ok(),
        "a worker cannot suspend itself",
    );
    demand(
        !alarm.resumes.load(Relaxed),
        "a worker goes on that was not resumed",
    );
    me.unclaim();
}

static PERIODIC: spin::Once<Timer> = spin::Once::new();

/// Starts the periodic timer.
pub(super) fn start_storm() {
    match Timer::new(storm, 0) {
        Ok(timer) => PERIODIC
            .call_once(|| timer)
            .arm(Instant::after(Nanos::from_micros(10))),
        Err(_) => demand(false, "there is no timer left"),
    }
}

/// The periodic timer comes no more. To be called on the CPU that started it, where it does not run at that time.
pub(super) fn end_storm() {
    if let Some(timer) = PERIODIC.get() {
        timer.cancel();
    }
}

/// Sends, receives, sets flags, notifies and unparks, from an interrupt, and comes again.
fn storm(_: usize, expiry: Expiry) {
    let count = irq::count(0);
    let message = model::message(STORM);
    if QUEUE.try_send(message).is_ok() {
        model::sent(message);
    }
    if !stops()
        && count.is_multiple_of(2)
        && let Ok(message) = QUEUE.try_receive()
    {
        model::received(STORM, message);
    }
    FLAGS.set(16 << (count % 4));
    CHANGED.notify_one();
    if let Some(worker) = WORKERS[count as usize % NR].thread.get() {
        let _ = worker.unpark();
    }
    if !stops()
        && let Some(timer) = PERIODIC.get()
    {
        // Where interrupts are slow, it takes a quarter of the CPU all the same.
        let now = Instant::now();
        let pause = 20_001 + count % 1_009 + 3 * (now.cycles() - expiry.at.cycles());
        timer.arm(now + Cycles::new(pause));
    }
}
