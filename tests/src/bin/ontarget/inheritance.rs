//! Priority inheritance: the classic inversion with and without it, chains, deadlocks, time-outs.

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

use takt_kernel::sync::{Mutex, MutexGuard, Semaphore};
use takt_kernel::thread::{self, Thread};
use takt_kernel::time::{Cycles, Instant, sleep_until};
use takt_kernel::{Error, yield_now};
use takt_tests::harness::PRIORITY;
use takt_tests::journal::{note, take};
use takt_tests::worker::{after_ms, after_us, burn, join, spawn};
use takt_tests::{check, check_eq, check_err, note, target_test};

/// The critical section of the least important thread, in instructions.
const CRITICAL: u64 = 200_000;
/// What the middle thread has to do.
const MIDDLE: u64 = 3_000_000;
/// When the middle and the most important thread become ready, in ns after the least important one began.
const AT: u64 = 50_000;

static START: AtomicU64 = AtomicU64::new(0);
static WAITED: AtomicU64 = AtomicU64::new(0);
/// When the least important thread had the lock, and when the most important one asked for it.
static TAKEN: AtomicU64 = AtomicU64::new(0);
static ASKED: AtomicU64 = AtomicU64::new(0);
static BINARY: Semaphore = Semaphore::new(1, 1);
static LOCK: Mutex<u32> = Mutex::new(0);

fn at(offset: u64) -> Instant {
    Instant::from_cycles(START.load(Relaxed) + offset)
}

fn low_with_semaphore(_: usize) {
    let _ = BINARY.take();
    TAKEN.store(Instant::now().cycles(), Relaxed);
    burn(CRITICAL);
    let _ = BINARY.give();
}

fn low_with_mutex(_: usize) {
    let guard = LOCK.lock();
    TAKEN.store(Instant::now().cycles(), Relaxed);
    burn(CRITICAL);
    drop(guard);
}

fn middle(_: usize) {
    let _ = sleep_until(at(AT));
    burn(MIDDLE);
}

fn high_with_semaphore(_: usize) {
    let _ = sleep_until(at(AT));
    let asked = Instant::now().cycles();
    ASKED.store(asked, Relaxed);
    let _ = BINARY.take();
    WAITED.store(Instant::now().cycles() - asked, Relaxed);
    let _ = BINARY.give();
}

fn high_with_mutex(_: usize) {
    let _ = sleep_until(at(AT));
    let asked = Instant::now().cycles();
    ASKED.store(asked, Relaxed);
    let guard = LOCK.lock();
    WAITED.store(Instant::now().cycles() - asked, Relaxed);
    drop(guard);
}

/// Three threads, the least and the most important of which share a lock; how long the latter waited for it, and how
/// long at least it had to: what was left of the critical section.
fn inversion(low: fn(usize), high: fn(usize)) -> Result<(u64, u64), Error> {
    START.store(Instant::now().cycles() + 10_000, Relaxed);
    let threads = [
        spawn(0, 40, high, 0)?,
        spawn(1, 30, middle, 0)?,
        spawn(2, 20, low, 0)?,
    ];
    join(&threads)?;
    let used = ASKED.load(Relaxed) - TAKEN.load(Relaxed);
    Ok((WAITED.load(Relaxed), CRITICAL - used))
}

static MUTEXES: [Mutex<u32>; 5] = [const { Mutex::new(0) }; 5];

/// Holds mutex n and then wants mutex n - 1.
fn link(n: usize) {
    let Ok(mine) = MUTEXES[n].lock() else {
        return note(900);
    };
    let next = n.checked_sub(1).map(|next| MUTEXES[next].lock());
    note(n as u32);
    drop(next);
    drop(mine);
}

static RESULTS: [spin::Mutex<Option<Error>>; 2] = [const { spin::Mutex::new(None) }; 2];

/// Takes both mutexes of a pair in its own order, with a pause between.
fn crossing(first: usize) {
    let Ok(_first) = MUTEXES[first].lock() else {
        return;
    };
    let _ = sleep_until(after_us(100));
    *RESULTS[first].lock() = MUTEXES[1 - first].lock().err();
}

fn lock_until_100us(_: usize) {
    let result = LOCK.lock_until(after_us(100));
    note(if result.is_err() { 1 } else { 2 });
}

fn lock_briefly(number: usize) {
    let guard = LOCK.lock();
    note(number as u32);
    drop(guard);
}

static GO: Semaphore = Semaphore::new(0, 10);

/// Holds the second mutex and then wants the common one.
fn holds_one_and_locks(number: usize) {
    let one = MUTEXES[1].lock();
    lock_briefly(number);
    drop(one);
}

fn lock_one_until_100us(_: usize) {
    let result = MUTEXES[1].lock_until(after_us(100));
    note(if result.is_err() { 1 } else { 2 });
}

fn holds_and_takes(number: usize) {
    let guard = LOCK.lock();
    holds_nothing_and_takes(number);
    drop(guard);
}

fn holds_nothing_and_takes(number: usize) {
    let _ = GO.take();
    note(number as u32);
}

fn me() -> Result<u8, Error> {
    thread::current().priority()
}

fn held() -> Result<MutexGuard<'static, u32>, Error> {
    LOCK.lock()
}

fn spawn_links() -> Result<[Thread; 4], Error> {
    let mut threads = [thread::current(); 4];
    for (n, slot) in (1..=4).zip(&mut threads) {
        *slot = spawn(n, PRIORITY + 5 * n as u8, link, n)?;
    }
    Ok(threads)
}

/// Locked for good by a thread that ends.
static ABANDONED: [Mutex<u32>; 3] = [const { Mutex::new(0) }; 3];

fn ends_with_two_locked(_: usize) {
    for mutex in &ABANDONED[..2] {
        core::mem::forget(mutex.lock());
    }
    let _ = GO.take();
    note(thread::current().priority().unwrap_or(0).into());
}

fn ends_with_one_locked(_: usize) {
    core::mem::forget(ABANDONED[2].lock());
}

fn waits_for_abandoned(number: usize) {
    note(match ABANDONED[number].lock() {
        Err(Error::OwnerDied) => 100 + number as u32,
        _ => 1,
    });
}

target_test! {
    /// Without inheritance (a semaphore as lock) the most important thread waits for the middle one too; with a mutex
    /// for the rest of the critical section and some hundred instructions of the kernel, whatever the middle one has
    /// to do.
    fn inversion_is_bounded(Shared) {
        let (without, _) = inversion(low_with_semaphore, high_with_semaphore)?;
        let (with, rest) = inversion(low_with_mutex, high_with_mutex)?;
        note!("the most important thread waits {without} ns with a semaphore, {with} ns with a mutex: {} ns for the kernel",
              with - rest);
        // The two wake-ups before the lock was asked for took their part of `used`, so the rest is some more.
        check!((rest..rest + 2_000).contains(&with), "{with} ns with inheritance, {rest} ns left of the section");
        check!((rest + MIDDLE..rest + MIDDLE + 2_000).contains(&without), "{without} ns without inheritance");
        Ok(())
    }

    /// The owner runs with the priority of the most important waiter, and with its own once it unlocks.
    fn boost_and_its_end(Shared) {
        let guard = held()?;
        let first = spawn(0, PRIORITY + 5, lock_briefly, 1)?;
        check_eq!(me()?, PRIORITY + 5);
        let second = spawn(1, PRIORITY + 10, lock_briefly, 2)?;
        check_eq!(me()?, PRIORITY + 10);
        let third = spawn(2, PRIORITY + 20, lock_briefly, 3)?;
        check_eq!(me()?, PRIORITY + 20);
        yield_now();
        note(4);
        drop(guard);
        note(5);
        check_eq!(me()?, PRIORITY);
        join(&[first, second, third])?;
        check_eq!(take(), [4, 3, 2, 1, 5]);
        Ok(())
    }

    /// The boost goes through a chain of four owners, each waiting for the next one's mutex.
    fn chain_is_transitive(Shared) {
        let guard = MUTEXES[0].lock()?;
        let threads = spawn_links()?;
        check_eq!(me()?, PRIORITY + 20);
        for thread in &threads {
            check_eq!(thread.priority()?, PRIORITY + 20);
        }
        drop(guard);
        check_eq!(me()?, PRIORITY);
        join(&threads)?;
        check_eq!(take(), [1, 2, 3, 4]);
        Ok(())
    }

    /// Two mutexes, two waiters: unlocking one leaves the boost of the other.
    fn boost_of_the_other_mutex_stays(Shared) {
        let (zero, lock) = (MUTEXES[0].lock()?, held()?);
        let through_zero = spawn(1, PRIORITY + 10, link, 1)?;
        let through_lock = spawn(2, PRIORITY + 20, lock_briefly, 7)?;
        check_eq!(me()?, PRIORITY + 20);
        drop(lock);
        check_eq!(me()?, PRIORITY + 10);
        drop(zero);
        check_eq!(me()?, PRIORITY);
        join(&[through_zero, through_lock])?;
        check_eq!(take(), [7, 1]);
        Ok(())
    }

    /// A changed priority of a waiter travels along the chain, up and down.
    fn changed_priority_of_a_waiter_travels(Shared) {
        let guard = MUTEXES[0].lock()?;
        let threads = spawn_links()?;
        threads[3].set_priority(90)?;
        check_eq!(me()?, 90);
        check_eq!(threads[0].priority()?, 90);
        threads[3].set_priority(1)?;
        // Thread 2 (the third) is the most important now.
        check_eq!(me()?, PRIORITY + 15);
        check_eq!(threads[3].priority()?, 1);
        drop(guard);
        join(&threads)?;
        Ok(())
    }

    /// Its own priority changed while boosted: the boost stays, the new priority shows afterwards.
    fn own_priority_changed_while_boosted(Shared) {
        let guard = held()?;
        let waiter = spawn(0, PRIORITY + 20, lock_briefly, 1)?;
        thread::current().set_priority(PRIORITY + 5)?;
        check_eq!(me()?, PRIORITY + 20);
        drop(guard);
        check_eq!(me()?, PRIORITY + 5);
        thread::current().set_priority(PRIORITY)?;
        join(&[waiter])?;
        Ok(())
    }

    /// Locking what it holds is an error and not a hang, and changes nothing.
    fn deadlock_with_itself(Shared) {
        let guard = held()?;
        check_err!(LOCK.lock(), Deadlock);
        check_err!(LOCK.lock_until(after_us(10)), Deadlock);
        check_err!(LOCK.try_lock(), WouldBlock);
        drop(guard);
        drop(LOCK.lock()?);
        Ok(())
    }

    /// Two threads that take two mutexes crosswise: the second to wait gets an error, the first the mutex.
    fn deadlock_of_a_circle(Shared) {
        let threads = [spawn(0, PRIORITY + 1, crossing, 0)?, spawn(1, PRIORITY + 1, crossing, 1)?];
        join(&threads)?;
        let results = [*RESULTS[0].lock(), *RESULTS[1].lock()];
        check_eq!(results, [None, Some(Error::Deadlock)]);
        Ok(())
    }

    /// A circle through a chain of four is noticed too.
    fn deadlock_through_a_chain(Shared) {
        let guard = MUTEXES[0].lock()?;
        let threads = spawn_links()?;
        check_err!(MUTEXES[4].lock(), Deadlock);
        drop(guard);
        join(&threads)?;
        Ok(())
    }

    /// A waiter's time-out ends the owner's boost at that very moment, although the owner runs with the waiter's
    /// priority and would otherwise keep the CPU.
    fn time_out_ends_the_boost(Shared) {
        let guard = held()?;
        let waiter = spawn(0, PRIORITY + 20, lock_until_100us, 0)?;
        check_eq!(me()?, PRIORITY + 20);
        let before = Instant::now();
        burn(300_000);
        note(3);
        check_eq!(me()?, PRIORITY);
        check!(Instant::now() > before + Cycles::new(300_000));
        check_eq!(take(), [1, 3]);
        drop(guard);
        join(&[waiter])?;
        Ok(())
    }

    /// A mutex that its waiters gave up on is free when it is unlocked, and its next owner inherits as ever.
    fn mutex_after_time_outs(Shared) {
        let guard = held()?;
        let waiters = [spawn(0, PRIORITY + 5, lock_until_100us, 0)?, spawn(1, PRIORITY + 5, lock_until_100us, 0)?];
        sleep_until(after_ms(1))?;
        check_eq!(take(), [1, 1]);
        drop(guard);
        drop(LOCK.try_lock()?);
        let guard = held()?;
        let waiter = spawn(2, PRIORITY + 7, lock_briefly, 5)?;
        check_eq!(me()?, PRIORITY + 7);
        drop(guard);
        join(&[waiters[0], waiters[1], waiter])?;
        check_eq!(take(), [5]);
        Ok(())
    }

    /// A time-out at the far end of a chain ends the boost of every owner in it.
    fn time_out_at_the_end_of_a_chain(Shared) {
        let guard = held()?;
        let inner = spawn(0, PRIORITY + 5, holds_one_and_locks, 7)?;
        let outer = spawn(1, PRIORITY + 20, lock_one_until_100us, 0)?;
        check_eq!((me()?, inner.priority()?), (PRIORITY + 20, PRIORITY + 20));
        burn(200_000);
        check_eq!(take(), [1]);
        check_eq!((me()?, inner.priority()?), (PRIORITY + 5, PRIORITY + 5));
        drop(guard);
        check_eq!(me()?, PRIORITY);
        join(&[inner, outer])?;
        check_eq!(take(), [7]);
        Ok(())
    }

    /// An owner that waits for something other than a mutex is boosted in that queue.
    fn owner_that_waits_for_a_permit(Shared) {
        let owner = spawn(0, PRIORITY + 1, holds_and_takes, 1)?;
        let other = spawn(1, PRIORITY + 2, holds_nothing_and_takes, 2)?;
        let waiter = spawn(2, PRIORITY + 3, lock_briefly, 3)?;
        check_eq!(owner.priority()?, PRIORITY + 3);
        GO.give()?;
        check_eq!(take(), [1, 3]);
        check_eq!(owner.join(after_ms(1))?, 0);
        GO.give()?;
        check_eq!(take(), [2]);
        join(&[other, waiter])?;
        Ok(())
    }

    /// A suspended owner keeps the boost for when it is resumed, and loses it with its waiter.
    fn suspended_owner(Shared) {
        let owner = spawn(0, PRIORITY + 1, holds_and_takes, 1)?;
        owner.suspend()?;
        let waiter = spawn(1, PRIORITY + 20, lock_until_100us, 0)?;
        check_eq!(owner.priority()?, PRIORITY + 20);
        GO.give()?;
        burn(200_000);
        check_eq!(owner.priority()?, PRIORITY + 1);
        let second = spawn(2, PRIORITY + 10, lock_briefly, 3)?;
        thread::current().set_priority(PRIORITY + 5)?;
        owner.resume()?;
        check_eq!(take(), [1, 1, 3]);
        thread::current().set_priority(PRIORITY)?;
        join(&[owner, waiter, second])?;
        Ok(())
    }

    /// The idle thread can hold a mutex and cannot be boosted: the waiter has it once the idle thread is done.
    fn idle_thread_as_owner(Alone) {
        static IDLE: spin::Once<Thread> = spin::Once::new();
        takt_board::set_idle_hook(|| {
            IDLE.call_once(thread::current);
            if let Ok(_guard) = LOCK.try_lock() {
                note(1);
                burn(50_000);
                note(2);
            }
        });
        sleep_until(after_us(20))?;
        check_eq!(take(), [1]);
        drop(LOCK.lock()?);
        check_eq!(take(), [2]);
        let Some(idle) = IDLE.get() else { return Ok(()) };
        check_err!(idle.set_priority(PRIORITY), InvalidState);
        check_err!(idle.suspend(), InvalidState);
        // The level that the idle thread would stand in holds nothing but what belongs there.
        let threads = [spawn(0, 0, lock_briefly, 3)?, spawn(1, 0, lock_briefly, 4)?];
        sleep_until(after_us(20))?;
        join(&threads)?;
        check!(take().ends_with(&[4]));
        Ok(())
    }

    /// Threads that wait for a mutex whose owner ends are told, the most important one of each mutex first; the owner
    /// keeps the boost until then.
    fn owner_ends(Shared) {
        let owner = spawn(0, PRIORITY + 1, ends_with_two_locked, 0)?;
        let waiters = [
            spawn(1, PRIORITY + 1, waits_for_abandoned, 0)?,
            spawn(2, PRIORITY + 3, waits_for_abandoned, 0)?,
            spawn(3, PRIORITY + 2, waits_for_abandoned, 1)?,
        ];
        GO.give()?;
        join(&waiters)?;
        join(&[owner])?;
        let [first, told @ ..] = &take()[..] else { return Ok(()) };
        check_eq!(*first, u32::from(PRIORITY) + 3);
        check_eq!(told.len(), 3);
        check!(told.iter().all(|note| *note >= 100), "one of them has the mutex");
        check_err!(ABANDONED[0].lock(), OwnerDied);
        check_err!(ABANDONED[1].lock_until(after_us(10)), OwnerDied);
        check_err!(ABANDONED[1].try_lock(), WouldBlock);
        check_eq!(me()?, PRIORITY);
        Ok(())
    }

    /// The next thread with the number of one that ended is not taken for it.
    fn owner_s_number_is_used_again(Shared) {
        let owner = spawn(0, PRIORITY + 1, ends_with_one_locked, 0)?;
        check_err!(ABANDONED[2].lock(), OwnerDied);
        join(&[owner])?;
        check_err!(ABANDONED[2].lock(), OwnerDied);
        let next = spawn(0, PRIORITY + 1, waits_for_abandoned, 2)?;
        check_eq!(next.id(), owner.id());
        join(&[next])?;
        check_eq!(take(), [102]);
        Ok(())
    }
}
