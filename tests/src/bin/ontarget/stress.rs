//! Everything at once: threads that do random things with all objects, under a storm of interrupts; what must hold
//! whatever the order is checked all the time, and nothing may be lost in the end.

use core::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, AtomicU64, Ordering::Relaxed};

use takt_kernel::sync::{Condvar, EventFlags, Mode, Mutex, Queue, Semaphore};
use takt_kernel::thread::{self, Thread};
use takt_kernel::time::{Expiry, Instant, Timer, sleep_until};
use takt_kernel::{irq, preempt, yield_now};
use takt_tests::harness::PRIORITY;
use takt_tests::worker::{NR, after_us, burn, spawn, spawn_rr};
use takt_tests::{check, check_eq, note, target_test};

/// Random actions of each thread.
const ACTIONS: u32 = 1_500;
const PERMITS: i32 = 3;

/// Two numbers that are equal whenever the mutex is free.
static PAIRS: [Mutex<(u64, u64)>; 3] = [const { Mutex::new((0, 0)) }; 3];
static PERMIT: Semaphore = Semaphore::new(PERMITS as u32, PERMITS as u32);
static HOLDERS: AtomicI32 = AtomicI32::new(0);
static QUEUE: Queue<u32, 3> = Queue::new();
static FLAGS: EventFlags = EventFlags::new(0);
static CHANGED: Condvar = Condvar::new();
static SENT: AtomicU64 = AtomicU64::new(0);
static RECEIVED: AtomicU64 = AtomicU64::new(0);
static LOCKED: AtomicU64 = AtomicU64::new(0);
static WRONG: AtomicU32 = AtomicU32::new(0);
static RUNS: AtomicBool = AtomicBool::new(false);
static THREADS: spin::Mutex<[Option<Thread>; NR]> = spin::Mutex::new([None; NR]);
static STORM: spin::Once<Timer> = spin::Once::new();

/// A xorshift generator.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 20) % limit
    }
}

fn demand(condition: bool) {
    if !condition {
        WRONG.fetch_add(1, Relaxed);
    }
}

/// Changes a pair under its mutex, with a chance to be preempted between the two halves.
fn change(pair: &mut (u64, u64), random: &mut Random) {
    demand(pair.0 == pair.1);
    pair.0 += 1;
    burn(random.below(3_000));
    pair.1 += 1;
    LOCKED.fetch_add(1, Relaxed);
}

/// Another one of the threads.
fn someone(random: &mut Random) -> Option<Thread> {
    let _alone = preempt::disable();
    let someone = THREADS.lock()[random.below(NR as u64) as usize];
    someone.filter(|thread| *thread != thread::current())
}

fn act(random: &mut Random) {
    let soon = after_us(random.below(40));
    match random.below(12) {
        0 => {
            if let Ok(mut pair) = PAIRS[0].lock() {
                change(&mut pair, random);
            }
        }
        1 => {
            // Always in this order: no circle.
            let (Ok(mut one), Ok(mut two)) = (PAIRS[0].lock(), PAIRS[1].lock()) else {
                return demand(false);
            };
            change(&mut one, random);
            change(&mut two, random);
        }
        2 => {
            if let Ok(mut pair) = PAIRS[1].lock_until(soon) {
                change(&mut pair, random);
            }
        }
        3 => {
            if PERMIT.take_until(soon).is_ok() {
                demand(HOLDERS.fetch_add(1, Relaxed) < PERMITS);
                burn(random.below(2_000));
                HOLDERS.fetch_sub(1, Relaxed);
                demand(PERMIT.give().is_ok());
            }
        }
        4 => {
            let message = random.below(1_000) as u32;
            if QUEUE.send_until(message, soon).is_ok() {
                SENT.fetch_add(u64::from(message), Relaxed);
            }
        }
        5 => {
            if let Ok(message) = QUEUE.receive_until(soon) {
                RECEIVED.fetch_add(u64::from(message), Relaxed);
            }
        }
        6 => demand(sleep_until(soon).is_ok()),
        7 => yield_now(),
        8 => demand(
            thread::current()
                .set_priority(30 + random.below(15) as u8)
                .is_ok(),
        ),
        9 => {
            if let Some(other) = someone(random) {
                let _ = other.unpark();
            }
            let _ = thread::park(soon);
        }
        10 => {
            let mask = 1 << random.below(4);
            FLAGS.set(mask);
            let _ = FLAGS.wait(mask << 1, Mode::AnyClear, soon);
            CHANGED.notify_all();
            if let Ok(mut pair) = PAIRS[2].lock() {
                let _ = CHANGED.wait_until(&mut pair, soon);
                change(&mut pair, random);
            }
        }
        _ => {
            if let Some(other) = someone(random)
                && other.suspend().is_ok()
            {
                burn(random.below(500));
                // Another thread may have resumed it.
                let _ = other.resume();
            }
        }
    }
}

fn actor(number: usize) {
    let mut random = Random(0x9e37_79b9_7f4a_7c15 ^ (number as u64 + 1) << 32);
    for _ in 0..ACTIONS {
        act(&mut random);
    }
}

/// Sends, sets flags, resumes whoever is suspended, and comes again.
fn storm(_: usize, expiry: Expiry) {
    let count = irq::count(0);
    if QUEUE.try_send(1).is_ok() {
        SENT.fetch_add(1, Relaxed);
    }
    if let Ok(message) = QUEUE.try_receive() {
        RECEIVED.fetch_add(u64::from(message), Relaxed);
    }
    FLAGS.set(1 << (count % 4));
    CHANGED.notify_one();
    if count.is_multiple_of(16)
        && let Some(threads) = THREADS.try_lock()
    {
        for thread in threads.iter().flatten() {
            let _ = thread.resume();
        }
    }
    if RUNS.load(Relaxed)
        && let Some(timer) = STORM.get()
    {
        timer.arm(Instant::from_cycles(expiry.at) + 7_001 + count % 1_009);
    }
}

target_test! {
    /// Ten threads, half of them round-robin, 1,500 random actions each: mutual exclusion holds, permits and messages
    /// are conserved, and all come to their end.
    fn random_actions(Alone) {
        RUNS.store(true, Relaxed);
        for number in 0..NR {
            let thread = match number % 2 {
                0 => spawn(number, 35, actor, number)?,
                _ => spawn_rr(number, 35, 20_000, actor, number)?,
            };
            THREADS.lock()[number] = Some(thread);
        }
        let interrupts = irq::count(0);
        STORM.call_once(|| Timer::new(storm, 0).expect("there are timers left")).arm(after_us(10));
        let threads = *THREADS.lock();
        thread::current().set_priority(20)?;
        for thread in threads.into_iter().flatten() {
            check!(thread.join(after_us(20_000_000)).is_ok(), "thread {} does not end", thread.id());
        }
        thread::current().set_priority(PRIORITY)?;
        RUNS.store(false, Relaxed);
        sleep_until(after_us(20))?;
        while let Ok(message) = QUEUE.try_receive() {
            RECEIVED.fetch_add(u64::from(message), Relaxed);
        }
        note!("{} interrupts, {} changes under a mutex", irq::count(0) - interrupts, LOCKED.load(Relaxed));
        check_eq!(WRONG.load(Relaxed), 0);
        check_eq!(SENT.load(Relaxed), RECEIVED.load(Relaxed));
        check_eq!((PERMIT.count() as i32, HOLDERS.load(Relaxed)), (PERMITS, 0));
        let mut sum = 0;
        for pair in &PAIRS {
            let pair = pair.try_lock()?;
            check_eq!(pair.0, pair.1);
            sum += pair.0;
        }
        check_eq!(sum, LOCKED.load(Relaxed));
        Ok(())
    }
}
