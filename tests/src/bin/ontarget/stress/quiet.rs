//! Wake-ups of the other CPUs while they are idle and have no timer: nothing but the wake-up's own interrupt gets them going.

use core::sync::atomic::{AtomicBool, Ordering::Relaxed};

use takt_kernel::sync::Semaphore;
use takt_kernel::thread::Builder;
use takt_kernel::thread_stack;
use takt_kernel::time::{Instant, Nanos};
use takt_tests::check;
use takt_tests::harness::{Failure, PRIORITY};

const NR: u32 = 300;

thread_stack!(static STACK: 8192);
static THERE: Semaphore = Semaphore::new(0, 1);
static BACK: Semaphore = Semaphore::new(0, 1);
static ENDS: AtomicBool = AtomicBool::new(false);

fn echoes(_: usize) {
    loop {
        let taken = THERE.take();
        // Of this round: behind the answer it may be that of the next.
        let ends = ENDS.load(Relaxed);
        if taken.is_err() || BACK.give().is_err() || ends {
            return;
        }
    }
}

/// Wakes a thread of each CPU but the first and waits for its answer, again and again.
pub(super) fn wake_each(cpus: usize, patience: u64) -> Result<(), Failure> {
    for cpu in 1..cpus {
        ENDS.store(false, Relaxed);
        let other = Builder::new("echoes", PRIORITY)?
            .cpu(cpu)
            .spawn(&STACK, echoes, 0)?;
        for round in 1..=NR {
            ENDS.store(round == NR, Relaxed);
            THERE.give()?;
            let answer = BACK.take_until(Instant::after(Nanos::new(patience)));
            check!(answer.is_ok(), "CPU {cpu} does not answer in round {round}");
        }
        other.join(Instant::after(Nanos::new(patience)))?;
    }
    Ok(())
}
