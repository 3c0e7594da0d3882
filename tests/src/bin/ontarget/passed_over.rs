//! Flags are set that the first waiter does not wait for, and the setter is preempted at any instruction of that.

use core::sync::atomic::{AtomicU32, Ordering::Relaxed};

use takt_kernel::sync::{EventFlags, Mode, Semaphore};
use takt_kernel::time::{Expiry, Instant, sleep_until};
use takt_tests::harness::PRIORITY;
use takt_tests::worker::{after_us, burn, join, spawn};
use takt_tests::{check_eq, target_test};

use crate::arrivals::at_every_instruction;

static FLAGS: EventFlags = EventFlags::new(0);
static GO: Semaphore = Semaphore::new(0, 1);
static END: AtomicU32 = AtomicU32::new(0);
static NR_WOKEN: AtomicU32 = AtomicU32::new(0);
static NR_INVERSIONS: AtomicU32 = AtomicU32::new(0);

fn waits_for_0(_: usize) {
    let _ = FLAGS.wait(1, Mode::Any, Instant::NEVER);
}

fn waits_for_1(_: usize) {
    while END.load(Relaxed) == 0 {
        let _ = FLAGS.wait(2, Mode::AnyClear, Instant::NEVER);
        NR_WOKEN.fetch_add(1, Relaxed);
    }
}

/// Less important than both, more important than the setter.
fn comes_between(_: usize) {
    while END.load(Relaxed) == 0 {
        let _ = GO.take();
        burn(2_000);
        NR_INVERSIONS.fetch_add(u32::from(FLAGS.get() & 2 != 0), Relaxed);
    }
}

fn wakes(_: usize, _: Expiry) {
    let _ = GO.give();
}

target_test! {
    /// Whoever waits for a flag that is set runs before threads that are less important than it.
    fn nobody_comes_between(Alone) {
        let threads = [
            spawn(0, PRIORITY + 30, waits_for_0, 0)?,
            spawn(1, PRIORITY + 20, waits_for_1, 0)?,
            spawn(2, PRIORITY + 10, comes_between, 0)?,
        ];
        sleep_until(after_us(50))?;
        at_every_instruction(
            wakes,
            || FLAGS.set(2),
            |arrival| {
                check_eq!((arrival, NR_WOKEN.load(Relaxed)), (arrival, arrival as u32 + 1));
                check_eq!((arrival, NR_INVERSIONS.load(Relaxed)), (arrival, 0));
                Ok(())
            },
        )?;
        END.store(1, Relaxed);
        FLAGS.set(3);
        GO.give()?;
        join(&threads)?;
        Ok(())
    }
}
