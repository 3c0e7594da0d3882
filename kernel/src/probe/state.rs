//! What tracers of latencies keep in a CPU's block: which stretch and which wake-up they follow on it now.

#[cfg(feature = "latency-tracers")]
use core::cell::Cell;
#[cfg(feature = "latency-tracers")]
use core::sync::atomic::{AtomicU32, Ordering::Relaxed};

#[cfg(feature = "latency-tracers")]
use crate::clock::{AtomicInstant, Instant};

/// What goes on on a CPU, in its block. Changed by that CPU only, at places that its interrupts leave alone.
#[cfg(feature = "latency-tracers")]
#[derive(Debug)]
pub(crate) struct Cpu {
    /// When the stretch began, on the clock without hooks; [`Instant::ZERO`] if there is none.
    pub(crate) since: Cell<Instant>,
    /// Where it began.
    pub(crate) place: Cell<u32>,
    /// The lower half of the TSC then, also when it has ended.
    pub(crate) began: Cell<u32>,
    /// Who ran then: the upper half of a record's context.
    pub(crate) context: Cell<u32>,
    /// An interrupt began it right before or behind a stretch without preemption, and ends it.
    pub(crate) is_interrupts: Cell<bool>,
}

/// What is followed on a CPU, in its block.
#[cfg(feature = "latency-tracers")]
#[derive(Debug)]
pub(crate) struct Followed {
    /// The thread's id and 0x100, or 0.
    pub(crate) tid: AtomicU32,
    /// When it was woken, on the clock of its CPU without hooks.
    pub(crate) since: AtomicInstant,
    /// Where.
    pub(crate) place: AtomicU32,
}

#[cfg(feature = "latency-tracers")]
impl Cpu {
    /// Nothing goes on.
    pub(crate) fn reset(&self) {
        self.since.set(Instant::ZERO);
        self.began.set(0);
        self.context.set(0);
        self.is_interrupts.set(false);
    }
}

#[cfg(feature = "latency-tracers")]
impl Followed {
    /// Nobody is followed.
    pub(crate) fn reset(&self) {
        self.tid.store(0, Relaxed);
    }
}
