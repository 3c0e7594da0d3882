//! Everything at once: 24 workers use all objects in a random order that a seed determines, on 1, 2 or 4 CPUs, under a
//! periodic timer that does so as well. What must hold whatever the order is demanded all the time, and nothing may be
//! lost in the end.
//!
//! * `actors`: workers that do random things. `parts`: workers that have a part each, and wait without bound.
//! * `quiet`: wake-ups of idle CPUs, once all that is over.
//! * `model`: their objects, and what holds of them.
//!
//! Words of the command line: `cpus`, `seed`, `operations`, `patience_ms`.

mod actors;
mod model;
mod parts;
mod quiet;

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

use takt_kernel::thread::{self, Builder, Policy, Thread};
use takt_kernel::time::{Instant, Nanos, sleep};
use takt_kernel::{Error, thread_stack};
use takt_tests::harness::{self, Failure};
use takt_tests::{check, check_eq, note, target_test};

use model::{
    CHANGES, END, HOLDERS, NR, NR_ACTORS, NR_CPUS, NR_INHERITED, NR_ORDERS, PAIRS, PERMIT, PERMITS,
    QUEUE, SEED, SHARED, Step, TOTAL, WORKERS,
};

thread_stack!(static STACKS: [8192; NR]);

/// How often is looked whether something happens.
const TICK: Nanos = Nanos::from_millis(1);
/// The number of the worker that receives up to the end.
const RECEIVER: usize = 13;

type Part = (&'static str, fn(usize));

/// The workers, by number: the actors, and those with a part.
const PARTS: [Part; NR - NR_ACTORS] = [
    ("sends", parts::sends),
    ("receives", parts::receives),
    ("stores", parts::stores),
    ("fetches", parts::fetches),
    ("pings", parts::pings),
    ("pongs", parts::pongs),
    ("parks", parts::parks),
    ("parks too", parts::parks),
    ("equal 1", parts::waits_with_equals),
    ("equal 2", parts::waits_with_equals),
    ("equal 3", parts::waits_with_equals),
    ("creates", parts::creates),
];

fn part(number: usize) -> Part {
    number
        .checked_sub(NR_ACTORS)
        .map_or(("actor", actors::run), |at| PARTS[at])
}

fn work(number: usize) {
    part(number).1(number);
    WORKERS[number].steps(Step::Ended);
}

fn create(number: usize) -> Result<Thread, Error> {
    let nr_cpus = NR_CPUS.load(Relaxed);
    // No one takes the CPU from an equal but whoever is more important.
    let is_equal = model::EQUALS.contains(&number);
    let (cpu, priority) = match is_equal {
        true => (nr_cpus - 1, 37),
        false => (number % nr_cpus, 30 + (number % 15) as u8),
    };
    WORKERS[number].set_base(priority);
    let mut builder = Builder::new(part(number).0, priority)?.cpu(cpu);
    if number % 4 == 1 && !is_equal {
        builder = builder.policy(Policy::RoundRobin(Nanos::from_micros(20)));
    }
    builder.create(&STACKS[number], work, number)
}

/// What each worker does that has not ended.
fn tell() {
    for (number, worker) in WORKERS.iter().enumerate() {
        let (name, step) = (part(number).0, worker.step());
        let Some(thread) = worker.thread.get().filter(|_| !matches!(step, Step::Ended)) else {
            continue;
        };
        let mut found = None;
        thread::for_each(|info| {
            if info.id == thread.id() {
                found = Some((info.cpu, info.state, info.priority));
            }
        });
        let nr = worker.nr_operations.load(Relaxed);
        note!("worker {number} ({name}): {step:?} after {nr}; CPU, state, priority {found:?}");
    }
}

/// In nanoseconds, how long nothing may happen, or a worker may take to its end.
static PATIENCE: AtomicU64 = AtomicU64::new(0);

fn patience() -> u64 {
    PATIENCE.load(Relaxed)
}

/// Fails if a worker has done nothing so far, or what the workers look for was not seen.
fn check_coverage() -> Result<(), Failure> {
    let idle = WORKERS
        .iter()
        .position(|it| it.nr_operations.load(Relaxed) == 0);
    check!(idle.is_none(), "worker {idle:?} has done nothing");
    let looked = [&NR_ORDERS, &NR_INHERITED].map(|it| it.load(Relaxed));
    check!(
        !looked.contains(&0),
        "the order and what is inherited were seen {looked:?} times"
    );
    Ok(())
}

/// Waits until enough operations are done and, with one CPU, all is covered; fails if nothing happens any more.
///
/// How many operations that takes is up to the seed, and in real time to how fast the machine is beside its timers.
fn watch(wanted: u64, cpus: usize) -> Result<(), Failure> {
    let begin = Instant::now();
    let (mut seen, mut since) = (0, begin);
    let mut pause = TICK;
    let lacks = || cpus == 1 && check_coverage().is_err();
    while model::wrong().is_none() && (seen < wanted || lacks()) {
        let before = Instant::now();
        sleep(pause)?;
        let now = Instant::now();
        // Where a sleep takes long because the CPUs keep each other, this one is not to be busy with looking.
        let took = (now - before).to_nanos();
        pause = TICK + (took - pause) * 8;
        let total = TOTAL.load(Relaxed);
        if total != seen {
            (seen, since) = (total, now);
        } else if (now - since).to_nanos() > Nanos::new(patience()) {
            tell();
            check!(false, "nothing happens any more, after {total} operations");
        }
        if seen >= wanted && (now - begin).to_nanos() > Nanos::new(patience()) {
            check_coverage()?;
        }
    }
    model::stop();
    Ok(())
}

fn join(number: usize) -> Result<(), Failure> {
    if let Some(thread) = WORKERS[number].thread.get()
        && let Err(error) = thread.join(Instant::after(Nanos::new(patience())))
    {
        tell();
        check!(
            false,
            "worker {number} ({}) does not end: {error:?}",
            part(number).0
        );
    }
    Ok(())
}

target_test! {
    /// Whatever 24 workers do with all objects at once, what must hold holds, all come to their end and nothing is lost.
    fn every_object_at_once(Stress) {
        let [cpus, seed, operations, patience_ms] = [("cpus", 1), ("seed", 1), ("operations", 10_000), ("patience_ms", 10_000)]
            .map(|(key, default)| harness::number(key, default));
        let (cpus, seed, operations) = (cpus? as usize, seed?, operations?);
        PATIENCE.store(patience_ms? * 1_000_000, Relaxed);
        check_eq!(takt_board::smp::start(cpus) as usize, cpus);
        NR_CPUS.store(cpus, Relaxed);
        SEED.store(seed, Relaxed);
        // With every other seed each switch takes the longer way.
        thread::count_times(seed % 2 == 1)?;
        for (number, worker) in WORKERS.iter().enumerate() {
            let thread = create(number)?;
            worker.thread.call_once(|| thread);
        }
        let begin = Instant::now();
        for worker in &WORKERS {
            if let Some(thread) = worker.thread.get() {
                thread.start()?;
            }
        }
        actors::start_storm();
        watch(operations, cpus)?;
        let nanos = (Instant::now() - begin).to_nanos().get();
        if let Some(what) = model::wrong() {
            tell();
            check!(false, "{what}");
        }
        for number in (0..NR).filter(|number| *number != RECEIVER) {
            join(number)?;
        }
        let sent = QUEUE.send_until(END, Instant::after(Nanos::new(patience())));
        check!(sent.is_ok(), "the queue stays full");
        join(RECEIVER)?;
        if let Some(what) = model::wrong() {
            check!(false, "{what}");
        }
        // Where interrupts are slow, its last expiry may be yet to come.
        actors::end_storm();
        // What the timer has sent at last.
        while let Ok(message) = QUEUE.try_receive() {
            model::received(RECEIVER, message);
        }
        check!(model::is_mail_complete(), "a message is lost, or came twice");
        check_eq!(parts::NR_STORED.load(Relaxed), parts::NR_FETCHED.load(Relaxed));
        check_eq!((PERMIT.count(), HOLDERS.load(Relaxed)), (PERMITS, 0));
        let mut sum = 0;
        for pair in PAIRS.iter().chain([&SHARED]) {
            let pair = pair.try_lock()?;
            check_eq!(pair.0, pair.1);
            sum += pair.0;
        }
        check_eq!(sum, CHANGES.load(Relaxed));
        let of_workers: u64 = WORKERS.iter().map(|it| u64::from(it.nr_operations.load(Relaxed))).sum();
        check_eq!(of_workers, TOTAL.load(Relaxed));
        quiet::wake_each(cpus, patience())?;
        let children = parts::NR_CHILDREN.load(Relaxed);
        let (each, millis) = (of_workers * 1_000_000_000 / nanos.max(1), nanos / 1_000_000);
        note!("{of_workers} operations in {millis} ms, {each} a second; {sum} changes under a mutex, {children} children");
        Ok(())
    }
}
