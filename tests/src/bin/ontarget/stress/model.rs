//! What the workers share: their objects, what each does at the moment, and what was found to be wrong.

use core::ops::{Deref, DerefMut};
use core::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering};

use takt_kernel::Error;
use takt_kernel::preempt;
use takt_kernel::sync::{Condvar, EventFlags, Mutex, MutexGuard, Queue, Semaphore};
use takt_kernel::thread::{self, State, Thread};
use takt_kernel::time::{Instant, Nanos, sleep};
use takt_tests::worker::burn;

use Ordering::{Acquire, Relaxed, Release, SeqCst};

/// Workers that do random things. The others have a part each, and unbounded waits.
pub(super) const NR_ACTORS: usize = 12;
pub(super) const NR: usize = 24;
/// Numbers of those that are neither suspended nor given another priority.
pub(super) const EQUALS: core::ops::Range<usize> = 20..23;
/// The number by which the periodic timer sends and receives.
pub(super) const STORM: usize = NR;

/// Permits of [`PERMIT`].
pub(super) const PERMITS: u32 = 3;
/// Bits of [`FLAGS`] that two workers hand to each other; the actors use four others.
pub(super) const PING: u32 = 1;
pub(super) const PONG: u32 = 2;

/// Two numbers that are equal whenever the mutex is free. Locked in ascending order only.
pub(super) static PAIRS: [Mutex<(u64, u64)>; 4] = [const { Mutex::new((0, 0)) }; 4];
pub(super) static PERMIT: Semaphore = Semaphore::new(PERMITS, PERMITS);
pub(super) static QUEUE: Queue<u32, 3> = Queue::new();
pub(super) static FLAGS: EventFlags = EventFlags::new(0);
pub(super) static SHARED: Mutex<(u64, u64)> = Mutex::new((0, 0));
pub(super) static CHANGED: Condvar = Condvar::new();

/// Holders of a permit.
pub(super) static HOLDERS: AtomicU32 = AtomicU32::new(0);
/// Changes of pairs.
pub(super) static CHANGES: AtomicU64 = AtomicU64::new(0);
/// Operations so far.
pub(super) static TOTAL: AtomicU64 = AtomicU64::new(0);
pub(super) static SEED: AtomicU64 = AtomicU64::new(0);
pub(super) static NR_CPUS: AtomicUsize = AtomicUsize::new(1);
static STOPS: AtomicBool = AtomicBool::new(false);

/// How often something was looked at by [`look`] that holds for one CPU only.
pub(super) static NR_ORDERS: AtomicU32 = AtomicU32::new(0);
pub(super) static NR_INHERITED: AtomicU32 = AtomicU32::new(0);

/// Priorities that are being changed; what is inherited may be on its way along a chain.
pub(super) static NR_CHANGING: AtomicU32 = AtomicU32::new(0);

static WRONG: spin::Once<&'static str> = spin::Once::new();

/// What holds always. The first thing that does not is kept, and the workers stop.
pub(super) fn demand(holds: bool, what: &'static str) {
    if !holds {
        WRONG.call_once(|| what);
        stop();
    }
}

/// What was found to be wrong.
pub(super) fn wrong() -> Option<&'static str> {
    WRONG.get().copied()
}

/// Has the workers come to their end.
pub(super) fn stop() {
    STOPS.store(true, Relaxed);
}

/// Whether the workers are to come to their end.
pub(super) fn stops() -> bool {
    STOPS.load(Relaxed)
}

pub(super) fn is_one_cpu() -> bool {
    NR_CPUS.load(Relaxed) == 1
}

/// A xorshift generator.
pub(super) struct Random(u64);

impl Random {
    /// The worker's own.
    pub(super) fn of(number: usize) -> Self {
        let seed = SEED.load(Relaxed).wrapping_add(number as u64 + 1);
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub(super) fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 20) % limit
    }

    pub(super) fn soon(&mut self) -> Instant {
        Instant::after(Nanos::new(self.below(40_000)))
    }

    pub(super) fn priority(&mut self) -> u8 {
        30 + self.below(15) as u8
    }
}

/// What a worker does at the moment: for whoever reads how a run has failed.
#[derive(Clone, Copy, Debug)]
#[repr(u8)]
pub(super) enum Step {
    Begins,
    Locks,
    Takes,
    Sends,
    Receives,
    WaitsForFlags,
    WaitsForCondvar,
    Parks,
    Sleeps,
    Yields,
    SetsPriority,
    Suspends,
    SuspendsItself,
    ArmsTimer,
    Creates,
    Joins,
    Looks,
    AwaitsItsPriority,
    Ended,
}

pub(super) struct Worker {
    pub(super) thread: spin::Once<Thread>,
    step: AtomicU8,
    /// Its own priority. Changes with the claim only.
    base: AtomicU8,
    /// Someone changes its priority or suspends it.
    claimed: AtomicBool,
    /// The mutex that it is about to wait for, plus one.
    waits_for: AtomicUsize,
    pub(super) nr_operations: AtomicU32,
}

pub(super) static WORKERS: [Worker; NR] = [const {
    Worker {
        thread: spin::Once::new(),
        step: AtomicU8::new(Step::Begins as u8),
        base: AtomicU8::new(0),
        claimed: AtomicBool::new(false),
        waits_for: AtomicUsize::new(0),
        nr_operations: AtomicU32::new(0),
    }
}; NR];

/// Who holds each of [`PAIRS`], plus one.
static OWNERS: [AtomicUsize; PAIRS.len()] = [const { AtomicUsize::new(0) }; PAIRS.len()];

impl Worker {
    pub(super) fn steps(&self, step: Step) {
        self.step.store(step as u8, Relaxed);
    }

    pub(super) fn step(&self) -> Step {
        use Step::*;
        const ALL: [Step; 19] = [
            Begins,
            Locks,
            Takes,
            Sends,
            Receives,
            WaitsForFlags,
            WaitsForCondvar,
            Parks,
            Sleeps,
            Yields,
            SetsPriority,
            Suspends,
            SuspendsItself,
            ArmsTimer,
            Creates,
            Joins,
            Looks,
            AwaitsItsPriority,
            Ended,
        ];
        ALL[usize::from(self.step.load(Relaxed))]
    }

    /// Counts an operation.
    pub(super) fn done(&self) {
        self.nr_operations.fetch_add(1, Relaxed);
        TOTAL.fetch_add(1, Relaxed);
    }

    /// Its priority and whether it runs are the caller's, who gives it back by [`unclaim`](Self::unclaim).
    pub(super) fn claim(&self) -> bool {
        self.claimed
            .compare_exchange(false, true, Acquire, Relaxed)
            .is_ok()
    }

    pub(super) fn unclaim(&self) {
        self.claimed.store(false, Release);
    }

    /// By whoever has the claim, or has not started it.
    pub(super) fn set_base(&self, priority: u8) {
        self.base.store(priority, Relaxed);
    }

    pub(super) fn base(&self) -> u8 {
        self.base.load(Relaxed)
    }

    /// Of the running worker, while it holds no mutex: it has its own priority. What it has inherited may end a moment late
    /// where the waiter gave up, which may have been suspended then.
    pub(super) fn has_its_own_priority(&self) {
        if !self.claim() {
            return;
        }
        let mut is_its_own = || thread::current().priority() == Ok(self.base());
        if !is_its_own() {
            self.steps(Step::AwaitsItsPriority);
            let mut tries = 0;
            while !is_its_own() && tries < 200 && !stops() {
                demand(
                    sleep(Nanos::from_micros(100)).is_ok(),
                    "a thread cannot sleep",
                );
                tries += 1;
            }
            demand(
                is_its_own() || stops(),
                "a worker keeps what it has inherited",
            );
        }
        self.unclaim();
    }
}

/// One of [`PAIRS`], locked by a worker.
pub(super) struct Held {
    guard: MutexGuard<'static, (u64, u64)>,
    number: usize,
    at: usize,
}

impl Deref for Held {
    type Target = (u64, u64);

    fn deref(&self) -> &(u64, u64) {
        &self.guard
    }
}

impl DerefMut for Held {
    fn deref_mut(&mut self) -> &mut (u64, u64) {
        &mut self.guard
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let owner = OWNERS[self.at].swap(0, SeqCst);
        demand(
            owner == self.number + 1,
            "a mutex has had two owners at its end",
        );
    }
}

/// Locks one of [`PAIRS`]; not if that takes longer than until the deadline.
pub(super) fn lock(number: usize, at: usize, deadline: Instant) -> Option<Held> {
    let worker = &WORKERS[number];
    worker.steps(Step::Locks);
    worker.waits_for.store(at + 1, Relaxed);
    let locked = PAIRS[at].lock_until(deadline);
    worker.waits_for.store(0, Relaxed);
    match locked {
        Ok(guard) => {
            let owner = OWNERS[at].swap(number + 1, SeqCst);
            demand(owner == 0, "a mutex has two owners");
            Some(Held { guard, number, at })
        }
        Err(error) => {
            is_late(error, deadline);
            None
        }
    }
}

/// A wait that failed has timed out, and not before its time.
pub(super) fn is_late(error: Error, deadline: Instant) {
    let what = match error {
        Error::Deadlock => "a wait fails: a circle is seen",
        Error::OwnerDied => "a wait fails: the owner has died",
        Error::WrongContext => "a wait fails: the thread may not wait",
        _ => "a wait fails",
    };
    demand(error == Error::TimedOut, what);
    demand(Instant::now() >= deadline, "a wait times out early");
}

/// Changes a pair, with a chance to be preempted between the two halves.
pub(super) fn change(pair: &mut (u64, u64), random: &mut Random) {
    demand(pair.0 == pair.1, "a pair is seen half changed");
    pair.0 += 1;
    burn(random.below(2_000));
    pair.1 += 1;
    CHANGES.fetch_add(1, Relaxed);
}

/// What one CPU's scheduler has to have made true whenever a thread runs: no one that is ready is more important; and the
/// owner of a mutex has the priority of each thread that waits for it.
pub(super) fn look() {
    if !is_one_cpu() {
        return;
    }
    let guard = preempt::irq_save();
    let mut seen = [None; NR];
    let me = thread::current().id();
    let mut mine = 0;
    thread::for_each(|info| {
        if info.id == me {
            mine = info.priority;
        }
        let is_it = |worker: &Worker| worker.thread.get().is_some_and(|it| it.id() == info.id);
        if let Some(number) = WORKERS.iter().position(is_it) {
            seen[number] = Some((info.priority, info.state));
        }
    });
    for (priority, state) in seen.iter().flatten() {
        demand(
            !state.is_empty() || *priority <= mine,
            "a thread runs while a more important one is ready",
        );
    }
    NR_ORDERS.fetch_add(1, Relaxed);
    // Who is about to wait may be on its way along a chain as well.
    let is_waiting = |state: State| state.contains(State::WAITING);
    let is_settled = NR_CHANGING.load(Relaxed) == 0
        && WORKERS.iter().zip(seen).all(|(worker, seen)| {
            worker.waits_for.load(Relaxed) == 0 || seen.is_some_and(|(_, state)| is_waiting(state))
        });
    if is_settled {
        for (worker, waiter) in WORKERS.iter().zip(seen) {
            let mutex = worker.waits_for.load(Relaxed).checked_sub(1);
            let owner = mutex.and_then(|at| OWNERS[at].load(Relaxed).checked_sub(1));
            if let Some((waiter, owner)) = waiter.zip(owner.and_then(|owner| seen[owner])) {
                demand(
                    owner.0 >= waiter.0,
                    "an owner is less important than who waits for it",
                );
                NR_INHERITED.fetch_add(1, Relaxed);
            }
        }
    }
    drop(guard);
}

/// What goes through the queue: who has sent it, and the number among what that one has sent.
#[derive(Debug)]
struct Mail {
    nr_sent: AtomicU32,
    nr_received: AtomicU32,
    /// Sums of hashed numbers, so that one that came twice and one that did not come make a difference.
    sent: AtomicU64,
    received: AtomicU64,
}

static MAIL: [Mail; NR + 1] = [const {
    Mail {
        nr_sent: AtomicU32::new(0),
        nr_received: AtomicU32::new(0),
        sent: AtomicU64::new(0),
        received: AtomicU64::new(0),
    }
}; NR + 1];

/// The last number of each sender that each receiver has got.
static LAST: [[AtomicU32; NR + 1]; NR + 1] =
    [const { [const { AtomicU32::new(0) }; NR + 1] }; NR + 1];

/// The message that ends the worker which receives without bound.
pub(super) const END: u32 = u32::MAX;

fn hash(message: u32) -> u64 {
    let mixed = (u64::from(message) + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed ^ mixed >> 29
}

/// The next message of a sender, who calls [`sent`] if it is taken.
pub(super) fn message(number: usize) -> u32 {
    (number as u32) << 24 | MAIL[number].nr_sent.load(Relaxed) + 1
}

pub(super) fn sent(message: u32) {
    let mail = &MAIL[message as usize >> 24];
    mail.nr_sent.fetch_add(1, Relaxed);
    mail.sent.fetch_add(hash(message), Relaxed);
}

/// A message is there: of one sender they come to one receiver in the order in which they were sent.
pub(super) fn received(number: usize, message: u32) {
    let (sender, count) = (message as usize >> 24, message & 0xff_ffff);
    let Some(mail) = MAIL.get(sender) else {
        return demand(false, "a message comes that nobody has sent");
    };
    mail.nr_received.fetch_add(1, Relaxed);
    mail.received.fetch_add(hash(message), Relaxed);
    let last = LAST[number][sender].swap(count, Relaxed);
    demand(
        count > last,
        "messages overtake each other, or one comes twice",
    );
}

/// Whether everything that was sent was received, once.
pub(super) fn is_mail_complete() -> bool {
    MAIL.iter().all(|mail| {
        mail.nr_sent.load(Relaxed) == mail.nr_received.load(Relaxed)
            && mail.sent.load(Relaxed) == mail.received.load(Relaxed)
    })
}
