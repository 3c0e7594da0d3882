//! The load `plant`: sections of a length that is known, with interrupts off and with preemption off in turn, in functions of
//! their own. An analysis of a latency has to name them.

use takt_kernel::time::{Cycles, Instant, Nanos, sleep};
use takt_kernel::{Error, preempt, proof};

use super::load;

/// Shortest pause between two sections.
const PAUSE: Nanos = Nanos::from_micros(150);
/// How many nanoseconds longer it may be.
const SPREAD: u64 = 1 << 16;

/// Computes until a section of that length that begins now is over.
#[inline(always)]
fn spend(length: Cycles) {
    let end = Instant::now() + length;
    while Instant::now() < end {
        proof::goes_on_as_asked();
    }
}

/// A section with interrupts off.
#[inline(never)]
fn planted_irqs_off(length: Cycles) {
    let guard = preempt::irq_save();
    spend(length);
    guard.restore();
}

/// A section with preemption off.
#[inline(never)]
fn planted_preempt_off(length: Cycles) {
    let _guard = preempt::disable();
    spend(length);
}

/// Runs sections of that length for ever.
pub(super) fn run(section: Nanos) -> Result<(), Error> {
    let length = section.to_cycles();
    let mut state = load::SEED;
    loop {
        for planted in [planted_irqs_off, planted_preempt_off] {
            state = load::step(state);
            sleep(PAUSE + Nanos::new(state % SPREAD))?;
            planted(length);
        }
    }
}
