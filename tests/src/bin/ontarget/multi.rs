//! Two CPUs at the same time: what one does to the other's threads.

use core::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};

use takt_kernel::sync::{Mutex, Semaphore};
use takt_kernel::thread::{Builder, Thread};
use takt_kernel::time::{Instant, sleep_nanos};
use takt_kernel::{Error, preempt, thread_stack, yield_now};
use takt_tests::harness::{Failure, PRIORITY};
use takt_tests::{check, check_eq, target_test};

thread_stack!(static STACKS: [16384; 3]);

fn two_cpus() -> Result<(), Failure> {
    check_eq!(takt_board::smp::start(2), 2);
    Ok(())
}

fn spawn_on(cpu: usize, entry: fn(usize), argument: usize) -> Result<Thread, Error> {
    Builder::new("other", PRIORITY)?
        .cpu(cpu)
        .spawn(&STACKS[cpu], entry, argument)
}

fn before_long() -> Instant {
    Instant::after_nanos(10_000_000_000)
}

static ENDED: AtomicU32 = AtomicU32::new(0);

/// Fills its stack a little, so that whoever still stands on it is found.
fn ends(number: usize) {
    let frame = core::hint::black_box([number as u8; 512]);
    if frame.iter().all(|byte| *byte == number as u8) {
        ENDED.fetch_add(1, Relaxed);
    }
}

static GO_ON: AtomicBool = AtomicBool::new(true);
static ROUNDS: AtomicU32 = AtomicU32::new(0);
static PERMITS: Semaphore = Semaphore::new(0, 1000);

/// Uses the kernel in every way that takes a thread out of its run queue.
fn busy(_: usize) {
    while GO_ON.load(Relaxed) {
        for _ in 0..8 {
            yield_now();
            // Over before it has begun.
            let _ = PERMITS.take_until(Instant::from_cycles(0));
        }
        let _ = sleep_nanos(1_000);
        ROUNDS.fetch_add(1, Relaxed);
    }
}

/// An equal of [`busy`]: were that one taken out of their queue twice, this one would be lost.
fn equal(_: usize) {
    while GO_ON.load(Relaxed) {
        yield_now();
    }
}

static STEP: AtomicU32 = AtomicU32::new(0);
static TURNS: AtomicU32 = AtomicU32::new(0);

fn counts_turns(_: usize) {
    while GO_ON.load(Relaxed) {
        TURNS.fetch_add(1, Relaxed);
    }
}

fn keeps_the_cpu(_: usize) {
    let guard = preempt::disable();
    STEP.store(1, Relaxed);
    while STEP.load(Relaxed) != 2 {
        core::hint::spin_loop();
    }
    drop(guard);
    STEP.store(3, Relaxed);
}

static COUNTER: Mutex<u64> = Mutex::new(0);
const COUNTS: u64 = 3_000;

fn counts(_: usize) {
    for _ in 0..COUNTS {
        if let Ok(mut counter) = COUNTER.lock() {
            *counter += 1;
        }
    }
}

target_test! {
    /// The stack and the block of a thread that ends on the other CPU are used again at once, on either CPU.
    fn ended_threads_leave_in_time(TwoCpus) {
        two_cpus()?;
        const NR: usize = 4_000;
        for number in 0..NR {
            let thread = Builder::new("short", PRIORITY)?.cpu((number / 3) % 2);
            // The flag on the stack may be free before the thread is joined, so two of them alternate.
            let thread = thread.spawn(&STACKS[0], ends, number)?;
            thread.join(before_long())?;
        }
        check_eq!(ENDED.load(Relaxed), NR as u32);
        Ok(())
    }

    /// A thread that is suspended from the other CPU wherever it stands stops, and goes on when it is resumed.
    fn suspended_from_the_other_cpu(TwoCpus) {
        two_cpus()?;
        let peer = Builder::new("equal", PRIORITY)?.cpu(1).spawn(&STACKS[2], equal, 0)?;
        let thread = spawn_on(1, busy, 0)?;
        for _ in 0..20_000 {
            thread.suspend()?;
            thread.resume()?;
        }
        thread.suspend()?;
        sleep_nanos(5_000_000)?;
        let rounds = ROUNDS.load(Relaxed);
        sleep_nanos(20_000_000)?;
        check_eq!(ROUNDS.load(Relaxed), rounds);
        thread.resume()?;
        sleep_nanos(50_000_000)?;
        check!(ROUNDS.load(Relaxed) > rounds, "it does not go on");
        GO_ON.store(false, Relaxed);
        thread.join(before_long())?;
        peer.join(before_long())?;
        Ok(())
    }

    /// A thread that is suspended from the other CPU while it keeps preemption disabled stops when it enables it: the
    /// CPU does not wait for some later interrupt.
    fn suspended_with_preemption_disabled(TwoCpus) {
        two_cpus()?;
        let less = Builder::new("less", PRIORITY - 1)?.cpu(1).spawn(&STACKS[2], counts_turns, 0)?;
        let thread = spawn_on(1, keeps_the_cpu, 0)?;
        while STEP.load(Relaxed) != 1 {
            sleep_nanos(100_000)?;
        }
        thread.suspend()?;
        // The other CPU's interrupt comes while it must not switch.
        sleep_nanos(10_000_000)?;
        let turns = TURNS.load(Relaxed);
        STEP.store(2, Relaxed);
        // A second at most: left to itself, that CPU's timer comes after four.
        for _ in 0..1_000 {
            if TURNS.load(Relaxed) != turns {
                break;
            }
            sleep_nanos(1_000_000)?;
        }
        check!(TURNS.load(Relaxed) != turns, "the suspended thread keeps its CPU");
        check_eq!(STEP.load(Relaxed), 2);
        thread.resume()?;
        thread.join(before_long())?;
        check_eq!(STEP.load(Relaxed), 3);
        GO_ON.store(false, Relaxed);
        less.join(before_long())?;
        Ok(())
    }

    /// A mutex keeps the two apart.
    fn a_mutex_between_cpus(TwoCpus) {
        two_cpus()?;
        let threads = [spawn_on(0, counts, 0)?, spawn_on(1, counts, 0)?];
        for thread in threads {
            thread.join(before_long())?;
        }
        check_eq!(*COUNTER.lock()?, 2 * COUNTS);
        Ok(())
    }
}
