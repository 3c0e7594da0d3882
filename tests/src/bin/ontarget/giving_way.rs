//! Many wake-ups at once in an interrupt handler: what else is due comes in between, and nothing is forgotten.

use core::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

use takt_kernel::sync::{Mutex, Semaphore};
use takt_kernel::thread::Thread;
use takt_kernel::time::{Cycles, Expiry, Timer, sleep_until};
use takt_tests::harness::PRIORITY;
use takt_tests::journal::{note, take};
use takt_tests::worker::{after_us, join, spawn};
use takt_tests::{check, check_eq, check_err, interrupt, target_test};

use crate::arrivals::{
    CHANGED, FLAGS, WAITERS, at_every_instruction, end, spawn_waiters, waits_for_change,
    waits_for_its_flag, woken,
};

const ALL: u32 = (1 << WAITERS) - 1;
/// A chain of owners: each has the mutex of its number and waits for the one before.
const OWNERS: usize = 5;

static MUTEXES: [Mutex<()>; OWNERS] = [const { Mutex::new(()) }; OWNERS];
static STOP: Semaphore = Semaphore::new(0, 1);
static CHAIN: spin::Once<[Thread; OWNERS]> = spin::Once::new();
/// How many of them were as important as the one that waits, when the timer came.
static NR_RAISED: AtomicU32 = AtomicU32::new(0);
static CAME_AT: AtomicU64 = AtomicU64::new(0);

fn owns(number: usize) {
    let mine = MUTEXES[number].lock();
    if number == 0 {
        let _ = STOP.take();
    } else {
        drop(MUTEXES[number - 1].lock());
    }
    drop(mine);
}

fn nr_raised() -> u32 {
    let raised = |thread: &&Thread| thread.priority() == Ok(PRIORITY);
    CHAIN
        .get()
        .map_or(0, |chain| chain.iter().filter(raised).count() as u32)
}

fn looks_at_the_chain(_: usize, expiry: Expiry) {
    NR_RAISED.store(nr_raised(), Relaxed);
    CAME_AT.store(expiry.deadline.cycles(), Relaxed);
}

/// A device's interrupt becomes pending, and then the handler wakes all.
fn requests_and_sets() {
    interrupt::request(|| note(FLAGS.get().count_ones()));
    FLAGS.set(ALL);
}

fn requests_and_notifies() {
    interrupt::request(|| note(99));
    note(CHANGED.notify_all() as u32);
}

target_test! {
    /// Flags that a handler sets wake one waiter before a pending device's interrupt, and the others after it.
    fn devices_come_between_flags_waiters(Alone) {
        let threads = spawn_waiters(waits_for_its_flag)?;
        interrupt::raise(requests_and_sets);
        check_eq!(take(), [WAITERS as u32 - 1]);
        check_eq!(FLAGS.get(), 0);
        check_eq!(woken(), [1; WAITERS]);
        interrupt::raise(|| FLAGS.set(ALL));
        check_eq!(woken(), [2; WAITERS]);
        end(&threads, || FLAGS.set(u32::MAX))
    }

    /// The same of a condition's.
    fn devices_come_between_the_notified(Alone) {
        let threads = spawn_waiters(waits_for_change)?;
        interrupt::raise(requests_and_notifies);
        check_eq!(take(), [1, 99]);
        check_eq!(woken(), [1; WAITERS]);
        interrupt::raise(|| note(CHANGED.notify_all() as u32));
        check_eq!(take(), [WAITERS as u32]);
        check_eq!(woken(), [2; WAITERS]);
        end(&threads, || { CHANGED.notify_all(); })
    }

    /// Wherever a handler sets flags with another interrupt pending, each waiter is woken once.
    fn flags_set_with_another_pending(Alone) {
        let threads = spawn_waiters(waits_for_its_flag)?;
        let mut rounds = 0;
        at_every_instruction(
            |_, _| {
                interrupt::request(|| FLAGS.set(0b00100));
                FLAGS.set(0b10001);
            },
            || FLAGS.set(0b01010),
            |arrival| {
                rounds += 1;
                check!(woken() == [rounds; WAITERS], "arrival {arrival}: {:?} of {rounds}", woken());
                check_eq!(FLAGS.get(), 0);
                Ok(())
            },
        )?;
        end(&threads, || FLAGS.set(u32::MAX))
    }

    /// A time-out at the end of a chain of owners lowers one after the other, and lets a timer that has become due
    /// meanwhile come in between; at last all have their own priorities.
    fn timers_come_between_owners(Alone) {
        let mut chain = heapless::Vec::<Thread, OWNERS>::new();
        for number in 0..OWNERS {
            let _ = chain.push(spawn(number, PRIORITY - 20, owns, number)?);
            sleep_until(after_us(100))?;
        }
        let chain = CHAIN.call_once(|| chain.into_array().expect("all were spawned"));
        let timer = Timer::new(looks_at_the_chain, 0)?;
        let mut nr_seen = [0; OWNERS + 1];
        for later in 0..1_500 {
            let deadline = after_us(20);
            let at = deadline + Cycles::new(later);
            timer.arm(at);
            check_err!(MUTEXES[OWNERS - 1].lock_until(deadline), TimedOut);
            while CAME_AT.load(Relaxed) != at.cycles() {}
            nr_seen[NR_RAISED.load(Relaxed) as usize] += 1;
            check!(nr_raised() == 0, "{} of them were not lowered, {later}", nr_raised());
        }
        // The first is lowered before anything else, and the timer comes in front of any other.
        let (_, fewer) = nr_seen.split_last().expect("it is not empty");
        check!(fewer.iter().all(|nr| *nr > 100), "{nr_seen:?}");
        STOP.give()?;
        join(chain)?;
        Ok(())
    }
}
