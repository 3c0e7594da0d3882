//! Snapshots: what every CPU has recorded up to a moment is kept, while recording goes on (ftrace: `snapshot`).
//!
//! Half of each ring is the spare buffer; see [`takt_tracer::ring::snapshot`] for how they take turns. Only where the
//! oldest is overwritten: a complete capture loses nothing that could be kept.

use core::sync::atomic::{AtomicBool, Ordering::Relaxed};

use takt_tracer::ring::{self, Mode, snapshot};

use super::control;
use crate::error::Error;
use crate::probe::ring::RingOf;

/// A latency tracer keeps its maxima there.
static RESERVED: AtomicBool = AtomicBool::new(false);

/// Takes a snapshot: what this CPU has recorded is kept from here on, and what another CPU has from its next record on,
/// before that. The snapshot before is gone.
///
/// # Errors
/// [`Error::InvalidState`] if what is recorded is handed over instead of being overwritten, or while a latency tracer is the
/// current one, which keeps its maxima there.
///
/// # Context
/// Any, NMI included.
pub fn take() -> Result<(), Error> {
    if is_reserved() || !control::is_overwriting() {
        return Err(Error::InvalidState);
    }
    keep();
    Ok(())
}

/// Whether a latency tracer keeps its maxima there.
///
/// # Context
/// Any.
#[must_use]
pub fn is_reserved() -> bool {
    RESERVED.load(Relaxed)
}

/// Reserves it for a latency tracer, or gives it back. The rings are divided now rather than when there is something to keep.
#[cfg(feature = "latency-tracers")]
pub(super) fn reserve(on: bool) {
    RESERVED.store(on, Relaxed);
    if on {
        keep_if_reserved();
    } else {
        free();
    }
}

/// Takes one, if it is reserved and the oldest is overwritten: a complete capture keeps everything anyway.
#[cfg(feature = "latency-tracers")]
#[cold]
#[inline(never)]
pub(super) fn keep_if_reserved() {
    if is_reserved() && control::is_overwriting() {
        keep();
    }
}

#[cold]
#[inline(never)]
fn keep() {
    control::each_ring(|ring| snapshot::request(ring.control()));
    snapshot::settle(RingOf::here());
    // Behind a switch's record the sub-buffer that this has begun names who was left.
    control::tell_current();
}

/// Forgets the snapshot, and gives its half of each ring back. Recording pauses meanwhile.
///
/// # Context
/// Threads, one at a time. Waits for each other CPU to take an interrupt.
pub fn free() {
    control::with_each_paused(snapshot::release);
}

/// Empties the snapshot. Recording pauses meanwhile.
///
/// # Context
/// Threads, one at a time. Waits for each other CPU to take an interrupt.
pub fn clear() {
    control::with_each_paused(snapshot::forget);
}

/// Chooses what happens when a ring is full, on every CPU. While tracing is off.
pub fn set_mode(mode: Mode) {
    if mode == Mode::StopWhenFull {
        free();
    }
    RingOf::all().for_each(|ring| ring::set_mode(ring, mode));
}
