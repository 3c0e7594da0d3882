//! A call at the end of a chain of calls gives up: how long that keeps others waiting, in instructions.

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

use takt_kernel::task;
use takt_kernel::time::{Expiry, Instant, Nanos, Timer, sleep_until};
use takt_tests::harness::Failure;
use takt_tests::{check, note, target_test, worker};

use crate::{CLIENT, KEEPER, SERVER, Started, VICTIM};

/// What the tasks are told that they are.
const RELAYS: u64 = 27;
const GIVES_UP: u64 = 28;

/// The tasks behind the first one, in their order, of which the last has a budget: so the CPU counts at switches.
const CHAIN: [usize; 5] = [VICTIM.0, SERVER.0, KEEPER.0, 4, 5];

/// As in the task.
const PERIOD: u64 = 1_000_000;
const PATIENCE: u64 = 300_000;
/// Instructions at each of which an interrupt comes, from so many before the time-out on.
const AHEAD: u64 = 400;
const WINDOW: u64 = 1_200;

/// How many wait for each other, and how late an interrupt and a more important thread may be: several interrupts come before a thread.
const LIMITS: [(usize, u64, u64); 3] = [(1, 340, 510), (4, 570, 1_350), (5, 730, 2_000)];

static LATE: AtomicU64 = AtomicU64::new(0);

fn note_arrival(_: usize, expiry: Expiry) {
    LATE.fetch_max((expiry.at - expiry.deadline).get(), Relaxed);
}

/// How late a more important thread was at most.
static THREAD_LATE: AtomicU64 = AtomicU64::new(0);

/// When the first of them gives up, by the beginning that all know.
fn due(first: u64, round: u64) -> Instant {
    Instant::ZERO + Nanos::new(first + round * PERIOD + PATIENCE).to_cycles()
}

fn shifted(at: Instant, round: u64) -> Instant {
    Instant::from_cycles(at.cycles() - AHEAD + round)
}

/// A thread with a deadline around each time-out.
fn keep_deadlines(first: usize) {
    for round in 0..WINDOW {
        let deadline = shifted(due(first as u64, round), round);
        let slept = sleep_until(deadline);
        let late = (Instant::now() - deadline).get();
        THREAD_LATE.fetch_max(if slept.is_ok() { late } else { u64::MAX }, Relaxed);
    }
}

fn start_at(number: usize, role: u64, what: u64, priority: u8) -> Result<Started, Failure> {
    let thread = task::start_on(number, role << 32 | what, 0, Some(priority))?;
    Ok(Started(thread, number))
}

/// A call through so many tasks gives up, as often as there are instructions to come at. Gives how late an interrupt was at most, or a
/// more important thread.
fn gives_up(timer: Timer, nr: usize, is_thread: bool) -> Result<u64, Failure> {
    LATE.store(0, Relaxed);
    THREAD_LATE.store(0, Relaxed);
    let mut relays = [const { None }; CHAIN.len()];
    for (relay, number) in relays.iter_mut().zip(CHAIN).take(nr) {
        *relay = Some(start_at(number, RELAYS, WINDOW, 20)?);
    }
    let client = start_at(CLIENT.0, GIVES_UP, WINDOW << 8 | nr as u64, 64)?;
    let now = (Instant::now() - Instant::ZERO).to_nanos().get();
    let first = now.next_multiple_of(PERIOD) + PERIOD;
    let thread = match is_thread {
        true => Some(worker::spawn(0, 80, keep_deadlines, first as usize)?),
        false => None,
    };
    for round in 0..WINDOW {
        if !is_thread {
            timer.arm(shifted(due(first, round), round));
        }
        sleep_until(due(first, round + 1) - Nanos::new(PATIENCE).to_cycles())?;
    }
    if let Some(thread) = thread {
        worker::join(&[thread])?;
    }
    client.succeeds()?;
    for relay in relays.into_iter().flatten() {
        relay.succeeds()?;
    }
    Ok(LATE.load(Relaxed).max(THREAD_LATE.load(Relaxed)))
}

target_test! {
    /// Whatever else is due meanwhile comes behind one step of it at most, and a more important thread behind all of them.
    fn a_time_out_ends_in_steps(Alone) {
        let timer = Timer::new(note_arrival, 0)?;
        for (nr, most, most_of_thread) in LIMITS {
            let interrupt = gives_up(timer, nr, false)?;
            let thread = gives_up(timer, nr, true)?;
            note!("chain of {nr}: an interrupt was {interrupt} late at most, a thread {thread}");
            check!(interrupt <= most, "chain of {nr}: an interrupt was {interrupt} late");
            check!(thread <= most_of_thread, "chain of {nr}: a thread was {thread} late");
        }
        Ok(())
    }
}
