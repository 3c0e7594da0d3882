//! Time: instants, sleeping, timers.
//!
//! Time is the TSC in cycles; nanoseconds exist at the edges only. Timers are tickless: each CPU has a queue of
//! deadlines, and its local APIC timer is set to the earliest.

use crate::error::Error;
use crate::sched;
use crate::timers;
use crate::wait;

pub use crate::clock::{AtomicCycles, AtomicInstant, Cycles, Instant, Nanos, tsc_hz};
pub use crate::idle::set_halt_margin;
pub use crate::soft_timer::{Expiry, Timer};

/// Sleeps until an absolute time; returns at once if that is past.
///
/// # Errors
/// [`Error::WrongContext`] in an interrupt handler or with preemption disabled.
pub fn sleep_until(deadline: Instant) -> Result<(), Error> {
    if !sched::may_block() {
        return Err(Error::WrongContext);
    }
    wait::begin_sleep(deadline).finish()
}

/// Sleeps for at least so long.
///
/// # Errors
/// As [`sleep_until`].
pub fn sleep(time: Nanos) -> Result<(), Error> {
    sleep_until(Instant::after(time))
}

/// Busy delay and sleep for embedded-hal drivers: sleeps where that is allowed, spins elsewhere.
#[derive(Clone, Copy, Debug, Default)]
pub struct Delay;

impl embedded_hal::delay::DelayNs for Delay {
    fn delay_ns(&mut self, ns: u32) {
        let end = Instant::after(Nanos::new(u64::from(ns)));
        // Waking a thread costs about a microsecond; below that spinning is more exact.
        if ns < 2_000 || sleep_until(end).is_err() {
            while Instant::now() < end {
                core::hint::spin_loop();
            }
        }
    }
}

/// How long it is from now to the next deadline of this CPU; centuries if there is none.
#[must_use]
pub fn until_next_deadline() -> Nanos {
    (timers::next_deadline() - Instant::now()).to_nanos()
}

/// Has this CPU forget what it has learnt of where timers lie. Never needed, but from here on arming timers takes the same
/// whenever it is done, as seen from `origin`: for measurements that are repeated. With an `origin` behind some deadlines it only
/// takes longer.
///
/// # Context
/// Threads and interrupt handlers.
pub fn forget(origin: Instant) {
    timers::forget(origin);
}
