//! The load `plant`: sections of a length that is known, with interrupts off and with preemption off in turn, in functions of
//! their own. An analysis of a latency has to name them.

use takt_kernel::time::{Instant, nanos_to_cycles, sleep_nanos};
use takt_kernel::{Error, preempt};

use super::load;

/// Shortest pause between two sections, and how much longer it may be, in nanoseconds.
const PAUSE: u64 = 150_000;
const SPREAD: u64 = 1 << 16;

/// Computes until a section of so many cycles that begins now is over.
#[inline(always)]
fn spend(cycles: u64) {
    let end = Instant::now() + cycles;
    while Instant::now() < end {}
}

/// A section with interrupts off.
#[inline(never)]
fn planted_irqs_off(cycles: u64) {
    let guard = preempt::irq_save();
    spend(cycles);
    guard.restore();
}

/// A section with preemption off.
#[inline(never)]
fn planted_preempt_off(cycles: u64) {
    let _guard = preempt::disable();
    spend(cycles);
}

/// Runs sections of so many nanoseconds for ever.
pub(super) fn run(section_ns: u64) -> Result<(), Error> {
    let cycles = nanos_to_cycles(section_ns);
    let mut state = load::SEED;
    loop {
        for section in [planted_irqs_off, planted_preempt_off] {
            state = load::step(state);
            sleep_nanos(PAUSE + state % SPREAD)?;
            section(cycles);
        }
    }
}
