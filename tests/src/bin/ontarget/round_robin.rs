//! Round robin: quanta, equal shares, and what first in first out does instead.

use core::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use takt_kernel::config::MIN_RR_QUANTUM;
use takt_kernel::sync::Semaphore;
use takt_kernel::thread::count_times;
use takt_kernel::time::{Instant, Nanos, Timer, sleep_until};
use takt_kernel::yield_now;
use takt_tests::harness::PRIORITY;
use takt_tests::journal::{note, take};
use takt_tests::worker::{after_ms, after_us, burn, join, spawn, spawn_rr, times as times_of};
use takt_tests::{check, check_eq, note, target_test};

const RR: u8 = PRIORITY - 10;
/// A quantum in these tests, in nanoseconds.
const QUANTUM_NS: u64 = 1_000_000;
const QUANTUM: Nanos = Nanos::new(QUANTUM_NS);

static STOP: AtomicBool = AtomicBool::new(false);
static TURNS: [AtomicU64; 4] = [const { AtomicU64::new(0) }; 4];
static TIMER: spin::Once<Timer> = spin::Once::new();
static GO: Semaphore = Semaphore::new(0, 10);

/// Longest and shortest stretch of running, in cycles, over all that run [`stretches`].
static LONGEST: AtomicU64 = AtomicU64::new(0);
static SHORTEST: AtomicU64 = AtomicU64::new(u64::MAX);
static LAST: AtomicU64 = AtomicU64::new(usize::MAX as u64);
static SINCE: AtomicU64 = AtomicU64::new(0);

/// Runs until told to stop and notes whenever it begins to run after another did.
fn stretches(number: usize) {
    while !STOP.load(Relaxed) {
        let last = LAST.swap(number as u64, Relaxed);
        if last == number as u64 {
            continue;
        }
        let now = Instant::now().cycles();
        let since = SINCE.swap(now, Relaxed);
        // The stretch that the end cuts short does not count.
        if since != 0 && !STOP.load(Relaxed) {
            LONGEST.fetch_max(now - since, Relaxed);
            SHORTEST.fetch_min(now - since, Relaxed);
        }
        TURNS[number].fetch_add(1, Relaxed);
    }
}

fn reset() {
    STOP.store(false, Relaxed);
    LAST.store(u64::MAX, Relaxed);
    SINCE.store(0, Relaxed);
    LONGEST.store(0, Relaxed);
    SHORTEST.store(u64::MAX, Relaxed);
    for turns in &TURNS {
        turns.store(0, Relaxed);
    }
}

/// Works for two and a half quanta and notes begin and end.
fn two_and_a_half(number: usize) {
    note(number as u32);
    burn(QUANTUM_NS / 2);
    note(10 + number as u32);
    burn(2 * QUANTUM_NS);
    note(20 + number as u32);
}

/// Uses the CPU for a fifth of a quantum whenever it gets a permit.
fn interloper(_: usize) {
    while GO.take().is_ok() && !STOP.load(Relaxed) {
        burn(QUANTUM_NS / 5);
    }
}

/// The same behind the arming of a timer.
fn arming(number: usize) {
    let timer = TIMER.call_once(|| Timer::new(|_, _| {}, 0).expect("a timer is free"));
    timer.arm(after_ms(20));
    stretches(number);
    timer.cancel();
}

fn fifo(number: usize) {
    note(number as u32);
    burn(5 * QUANTUM_NS);
    note(10 + number as u32);
}

fn yielding(number: usize) {
    for _ in 0..3 {
        note(number as u32);
        yield_now();
    }
}

target_test! {
    /// Three threads share the CPU equally, each for exactly one quantum at a time, to within a microsecond.
    fn equal_shares_by_quanta(Shared) {
        reset();
        count_times(true)?;
        let mut threads = [takt_kernel::thread::current(); 3];
        for (number, thread) in threads.iter_mut().enumerate() {
            *thread = spawn_rr(number, RR, QUANTUM, stretches, number)?;
        }
        sleep_until(after_ms(90))?;
        STOP.store(true, Relaxed);
        let mut times = [0u64; 3];
        for (time, thread) in times.iter_mut().zip(&threads) {
            *time = times_of(thread)?.cycles.get();
        }
        count_times(false)?;
        join(&threads)?;
        let (longest, shortest) = (LONGEST.load(Relaxed), SHORTEST.load(Relaxed));
        note!("three threads got {times:?} ns; stretches from {shortest} to {longest} ns");
        check!(shortest >= QUANTUM_NS && longest <= QUANTUM_NS + 1_000, "stretches from {shortest} to {longest} ns");
        for (number, time) in times.iter().enumerate() {
            check!(time.abs_diff(30_000_000) <= 50_000, "thread {number} got {time} ns");
            let turns = TURNS[number].load(Relaxed);
            check!(turns.abs_diff(30) <= 1, "thread {number} had {turns} turns");
        }
        Ok(())
    }

    /// A quantum ends in time where somebody arms a timer that is due behind it and before all others.
    fn a_later_timer_moves_no_quantum(Shared) {
        reset();
        let threads = [
            spawn_rr(0, RR, QUANTUM, arming, 0)?,
            spawn_rr(1, RR, QUANTUM, stretches, 1)?,
        ];
        sleep_until(after_ms(90))?;
        STOP.store(true, Relaxed);
        join(&threads)?;
        let longest = LONGEST.load(Relaxed);
        check!(longest <= QUANTUM_NS + 2_000, "a stretch of {longest} ns");
        Ok(())
    }

    /// Work of two and a half quanta is cut where the quanta end.
    fn work_is_cut_at_quanta(Shared) {
        let threads = [spawn_rr(0, RR, QUANTUM, two_and_a_half, 0)?, spawn_rr(1, RR, QUANTUM, two_and_a_half, 1)?];
        join(&threads)?;
        check_eq!(take(), [0, 10, 1, 11, 20, 21]);
        Ok(())
    }

    /// Being preempted by a more important thread costs no turn: the rest of the quantum is had afterwards.
    fn preemption_keeps_the_rest(Shared) {
        reset();
        count_times(true)?;
        let more = spawn(3, RR + 1, interloper, 0)?;
        let threads = [spawn_rr(0, RR, QUANTUM, stretches, 0)?, spawn_rr(1, RR, QUANTUM, stretches, 1)?];
        for _ in 0..40 {
            sleep_until(after_us(700))?;
            GO.give()?;
        }
        STOP.store(true, Relaxed);
        let times = [times_of(&threads[0])?.cycles.get(), times_of(&threads[1])?.cycles.get()];
        count_times(false)?;
        join(&threads)?;
        GO.give()?;
        join(&[more])?;
        // A stretch has a quantum of the thread's own time and up to two visits of the more important one.
        let (longest, shortest) = (LONGEST.load(Relaxed), SHORTEST.load(Relaxed));
        note!("two threads got {times:?} ns; stretches with visits from {shortest} to {longest} ns");
        check!(shortest >= QUANTUM_NS + QUANTUM_NS / 5, "shortest {shortest} ns");
        check!(longest <= QUANTUM_NS + 2 * (QUANTUM_NS / 5) + 3_000, "longest {longest} ns");
        check!(times[0].abs_diff(times[1]) <= QUANTUM_NS + 2_000, "shares {times:?}");
        Ok(())
    }

    /// A first-in-first-out thread keeps the CPU from its equals for as long as it likes.
    fn fifo_has_no_quantum(Shared) {
        let threads = [spawn(0, RR, fifo, 0)?, spawn_rr(1, RR, QUANTUM, fifo, 1)?, spawn(2, RR, fifo, 2)?];
        join(&threads)?;
        // The round-robin thread between them gives way after its quantum, and only then.
        check_eq!(take(), [0, 10, 1, 2, 12, 11]);
        Ok(())
    }

    /// A quantum that ends with no equal waiting costs nothing: a thread alone at its priority is not interrupted.
    fn alone_is_not_interrupted(Shared) {
        let before = takt_kernel::irq::count(0);
        let thread = spawn_rr(0, RR, QUANTUM, fifo, 1)?;
        join(&[thread])?;
        let interrupts = takt_kernel::irq::count(0) - before;
        check!(interrupts <= 1, "{interrupts} interrupts during five quanta");
        Ok(())
    }

    /// The longest quantum that there is does not end.
    fn endless_quantum(Shared) {
        let threads = [spawn_rr(0, RR, Nanos::MAX, fifo, 1)?, spawn_rr(1, RR, Nanos::MAX, fifo, 2)?];
        join(&threads)?;
        check_eq!(take(), [1, 11, 2, 12]);
        Ok(())
    }

    /// However short a quantum is asked for, threads get on with it: it is the shortest that there is.
    fn shortest_quantum(Shared) {
        reset();
        let threads = [spawn_rr(0, RR, Nanos::new(1), stretches, 0)?, spawn_rr(1, RR, Nanos::new(1), stretches, 1)?];
        sleep_until(after_ms(10))?;
        STOP.store(true, Relaxed);
        join(&threads)?;
        let (longest, shortest) = (LONGEST.load(Relaxed), SHORTEST.load(Relaxed));
        let quantum = MIN_RR_QUANTUM.get();
        check!(shortest >= quantum && longest <= quantum + 1_000, "stretches from {shortest} to {longest} ns");
        Ok(())
    }

    /// Yielding takes turns among round-robin threads as well.
    fn yielding_round_robin(Shared) {
        let threads = [spawn_rr(0, RR, QUANTUM, yielding, 1)?, spawn_rr(1, RR, QUANTUM, yielding, 2)?];
        join(&threads)?;
        check_eq!(take(), [1, 2, 1, 2, 1, 2]);
        Ok(())
    }
}
