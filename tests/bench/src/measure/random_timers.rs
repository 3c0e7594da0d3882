//! Software timers while others are armed at random deadlines: what arming and cancelling take on average, and at most.

use takt_kernel::time::{Cycles, Instant, Timer};

use super::timers::MOST;
use crate::clock::{average, stamp};
use crate::report::{fail, insn};

/// Measured deadlines for each number of timers.
const NR_SAMPLES: u32 = 500;
/// Deadlines lie in so many cycles from `far` on, none of which comes while it is measured.
const SPAN: u64 = 1 << 31;

/// The fewest that are armed.
const FEWEST: usize = 10;

/// A xorshift generator: the deadlines are the same in every run.
struct Random(u64);

impl Random {
    fn deadline(&mut self, far: Instant) -> Instant {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        far + Cycles::new((self.0 >> 20) % SPAN)
    }
}

/// What a call takes, over all samples.
#[derive(Default)]
struct Sum {
    total: u32,
    max: u32,
}

impl Sum {
    fn add(&mut self, value: u32) {
        self.total += value;
        self.max = self.max.max(value);
    }

    fn report(&self, what: &str, nr: usize) {
        insn(
            format_args!("timer-random-{what}-{nr}"),
            average(self.total, NR_SAMPLES),
        );
        insn(format_args!("timer-random-{what}-max-{nr}"), self.max);
    }
}

/// The measured timer and `others` are not armed, but were a moment ago, and are not when this returns.
pub(super) fn all(measured: Timer, others: &[Option<Timer>; MOST], far: Instant) {
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    for nr in [FEWEST, 100, MOST] {
        for other in others.iter().take(nr).flatten() {
            other.arm(random.deadline(far));
        }
        // Once not among the others: whoever comes first may find things to be tidied up.
        let before = stamp();
        measured.arm(random.deadline(far));
        let first = stamp().wrapping_sub(before);
        if nr == FEWEST {
            insn("timer-insert-after-cancels", first);
        }
        measured.cancel();
        let (mut insert, mut cancel) = (Sum::default(), Sum::default());
        for sample in 0..NR_SAMPLES as usize {
            let deadline = random.deadline(far);
            let before = stamp();
            measured.arm(deadline);
            let between = stamp();
            let was_armed = measured.cancel();
            let after = stamp();
            if !was_armed {
                fail("cancel", takt_kernel::Error::InvalidState);
            }
            insert.add(between.wrapping_sub(before));
            cancel.add(after.wrapping_sub(between));
            // One of the others moves, so that it is another queue each time.
            if let Some(other) = &others[sample % nr] {
                other.arm(random.deadline(far));
            }
        }
        insert.report("insert", nr);
        cancel.report("cancel", nr);
    }
    for other in others.iter().flatten() {
        other.cancel();
    }
}
