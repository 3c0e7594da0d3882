//! Operations of which `bench` counts from outside how often two CPUs take a lock of the kernel's, and how long they wait for it.

use core::arch::asm;
use core::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use takt_kernel::sync::{Mutex, Queue, Semaphore};
use takt_kernel::thread::Builder;
use takt_kernel::time::{Instant, Nanos, sleep};
use takt_kernel::{Error, thread_stack, yield_now};
use takt_tests::harness::{self, PRIORITY, print};
use takt_tests::{check, check_eq, target_test};

/// Operations of a stretch.
const NR: u32 = 100;

thread_stack!(static STACK: 16384);

/// Stands where a stretch begins and ends, for who looks from outside.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn takt_stretch() {
    // SAFETY: does nothing; without it the compiler would leave out the call.
    unsafe { asm!("", options(nostack, preserves_flags)) };
}

/// An operation: what this CPU does for it, and what the other does.
struct Operation {
    name: &'static str,
    here: fn() -> Result<(), Error>,
    there: fn() -> Result<(), Error>,
}

static MUTEX: Mutex<()> = Mutex::new(());
static OWN_MUTEXES: [Mutex<()>; 2] = [const { Mutex::new(()) }; 2];
static OWN_SEMAPHORES: [Semaphore; 2] = [const { Semaphore::new(0, 1) }; 2];
static THERE: Semaphore = Semaphore::new(0, 1);
static BACK: Semaphore = Semaphore::new(0, 1);
static QUEUE: Queue<u32, 1> = Queue::new();
static OWN_QUEUES: [Queue<u32, 1>; 2] = [const { Queue::new() }; 2];

fn sleeps() -> Result<(), Error> {
    sleep(Nanos::from_micros(20))
}

fn passes(semaphore: &Semaphore) -> Result<(), Error> {
    semaphore.give()?;
    semaphore.take()
}

fn sends(queue: &Queue<u32, 1>) -> Result<(), Error> {
    queue.try_send(0).map_err(|(_, error)| error)?;
    queue.try_receive().map(drop)
}

const OPERATIONS: [Operation; 7] = [
    Operation {
        name: "sleep",
        here: sleeps,
        there: sleeps,
    },
    Operation {
        name: "semaphore-own",
        here: || passes(&OWN_SEMAPHORES[0]),
        there: || passes(&OWN_SEMAPHORES[1]),
    },
    Operation {
        name: "mutex-own",
        here: || OWN_MUTEXES[0].lock().map(drop),
        there: || OWN_MUTEXES[1].lock().map(drop),
    },
    Operation {
        name: "queue-own",
        here: || sends(&OWN_QUEUES[0]),
        there: || sends(&OWN_QUEUES[1]),
    },
    Operation {
        name: "semaphore",
        here: || {
            THERE.give()?;
            BACK.take()
        },
        there: || {
            THERE.take()?;
            BACK.give()
        },
    },
    Operation {
        name: "queue",
        here: || {
            QUEUE
                .send_until(0, Instant::NEVER)
                .map_err(|(_, error)| error)
        },
        there: || QUEUE.receive().map(drop),
    },
    Operation {
        name: "mutex",
        here: || {
            let held = MUTEX.lock()?;
            THERE.give()?;
            // The other comes, and waits.
            sleeps()?;
            drop(held);
            BACK.take()
        },
        there: || {
            THERE.take()?;
            drop(MUTEX.lock()?);
            BACK.give()
        },
    },
];

/// How far this thread and the other are, in stretches begun and ended. No lock of the kernel's is in it.
static HERE_AT: AtomicUsize = AtomicUsize::new(0);
static THERE_AT: AtomicUsize = AtomicUsize::new(0);

fn await_at(least: usize, at: &AtomicUsize) {
    while at.load(SeqCst) < least {
        core::hint::spin_loop();
        yield_now();
    }
}

fn repeat(act: fn() -> Result<(), Error>) -> Result<(), Error> {
    (0..NR).try_for_each(|_| act())
}

fn other(_: usize) {
    THERE_AT.store(1, SeqCst);
    for (nr, operation) in OPERATIONS.iter().enumerate() {
        await_at(2 * nr + 1, &HERE_AT);
        if repeat(operation.there).is_err() {
            return;
        }
        THERE_AT.store(2 * nr + 2, SeqCst);
    }
}

target_test! {
    /// On each of two CPUs if the command line says `cpus=2`.
    fn operations_are_made_on_each_cpu(Alone) {
        let cpus = harness::number("cpus", 1)? as usize;
        check_eq!(takt_board::smp::start(cpus) as usize, cpus);
        let thread = Builder::new("other", PRIORITY)?
            .cpu(cpus - 1)
            .spawn(&STACK, other, 0)?;
        // It takes the lock to begin.
        await_at(1, &THERE_AT);
        // Behind the test's name, which ends no line.
        print(format_args!("\n"));
        for (nr, operation) in OPERATIONS.iter().enumerate() {
            takt_stretch();
            HERE_AT.store(2 * nr + 1, SeqCst);
            repeat(operation.here)?;
            await_at(2 * nr + 2, &THERE_AT);
            takt_stretch();
            print(format_args!("bench {} operations {NR}\n", operation.name));
        }
        check!(thread.join(Instant::after(Nanos::from_secs(1))).is_ok());
        Ok(())
    }
}
