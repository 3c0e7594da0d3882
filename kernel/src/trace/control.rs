//! Control of tracing: which events, whether at all, and the counters.

use takt_tracer::ring;

use super::ring::KernelRing;
use crate::arch::jump_label;
use crate::error::Error;

pub use takt_tracer::ring::Counters;

/// Switches an event on or off by its id; says at how many places it is emitted.
///
/// # Errors
/// [`Error::InvalidState`] once more than one CPU runs: another CPU may be executing the code that is rewritten.
///
/// # Context
/// Threads. Takes time in proportion to the number of trace points.
pub fn enable(id: u32, on: bool) -> Result<usize, Error> {
    if crate::smp::nr_online() > 1 {
        return Err(Error::InvalidState);
    }
    // SAFETY: only this CPU runs, and only one thread patches, with interrupts off in each step.
    Ok(unsafe { jump_label::set(id, on) })
}

/// Starts recording on this CPU.
///
/// # Context
/// Any, NMI included.
#[inline]
pub fn tracing_on() {
    ring::tracing_on(KernelRing);
}

/// Stops recording on this CPU; what is recorded stays.
///
/// # Context
/// Any, NMI included.
#[inline]
pub fn tracing_off() {
    ring::tracing_off(KernelRing);
}

/// Whether this CPU records.
#[must_use]
pub fn is_on() -> bool {
    ring::is_on(KernelRing)
}

/// Chooses what happens when this CPU's ring is full. While tracing is off.
pub fn set_mode(mode: ring::Mode) {
    ring::set_mode(KernelRing, mode);
}

/// This CPU's counters.
#[must_use]
pub fn counters() -> Counters {
    ring::counters(KernelRing)
}

/// Hands every complete sub-buffer of this CPU to `deliver`, which says whether it took it. Returns how many it took.
///
/// # Context
/// One thread of each CPU.
pub fn drain(mut deliver: impl FnMut(&'static [u8]) -> bool) -> usize {
    let mut nr = 0;
    while let Some(full) = ring::peek_full(KernelRing) {
        if !deliver(KernelRing::sub_buffer(full.offset)) {
            break;
        }
        // In overwrite mode a writer may have taken it meanwhile; the sequence numbers show the gap.
        if ring::consume(KernelRing, full).is_ok() {
            nr += 1;
        }
    }
    nr
}

/// Whether a complete sub-buffer waits to be handed over.
#[must_use]
pub fn has_full() -> bool {
    ring::peek_full(KernelRing).is_some()
}

/// Ends this CPU's current sub-buffer, so that everything recorded can be handed over.
pub fn close() {
    ring::close(KernelRing);
}
