//! Control of tracing: which events, whether at all, and the counters.

use core::sync::atomic::Ordering::Relaxed;

use takt_tracer::ring;

use super::places;
use super::ring::{KernelRing, RingOf};
use crate::arch::jump_label;
use crate::arch::stop::Text;
use crate::config::MAX_CPUS;
use crate::error::Error;

pub use takt_tracer::ring::Counters;

/// Switches an event on or off by its id; says at how many places it is emitted.
///
/// # Errors
/// Those of [`Mutex::lock`](crate::sync::Mutex::lock), if someone else rewrites code at the moment.
///
/// # Context
/// Threads that may block. All CPUs stand still meanwhile, for a time in proportion to the number of trace points.
pub fn enable(id: u32, on: bool) -> Result<usize, Error> {
    Ok(Text::lock()?.patch(|text| {
        // SAFETY: every other CPU stands still.
        let nr_places = unsafe { jump_label::set(text, id, on) };
        // SAFETY: as above.
        unsafe { places::set_event(text, id, on) };
        nr_places
    }))
}

/// Whether an event is on: whether any of its places is.
///
/// # Context
/// Any.
#[must_use]
pub fn is_enabled(id: u32) -> bool {
    jump_label::is_on(id)
}

/// Starts recording, on every CPU that runs.
///
/// # Context
/// Any, NMI included.
pub fn tracing_on() {
    for control in crate::smp::rings() {
        // If it is on already, its limit stands.
        let _ = control
            .limit
            .compare_exchange(0, ring::ARMED, Relaxed, Relaxed);
    }
}

/// Stops recording at once, on every CPU that runs; what is recorded stays.
///
/// # Context
/// Any, NMI included.
#[inline]
pub fn tracing_off() {
    for control in crate::smp::rings() {
        control.limit.store(0, Relaxed);
    }
}

/// Whether this CPU records.
#[must_use]
pub fn is_on() -> bool {
    ring::is_on(KernelRing)
}

/// Chooses what happens when a ring is full, on every CPU. While tracing is off.
pub fn set_mode(mode: ring::Mode) {
    for cpu in 0..MAX_CPUS {
        ring::set_mode(RingOf::new(cpu), mode);
    }
}

/// The counters of a CPU's ring.
///
/// # Panics
/// If `cpu` is not below [`MAX_CPUS`].
#[must_use]
pub fn counters_of(cpu: usize) -> Counters {
    ring::counters(RingOf::new(cpu))
}

/// Where a CPU's ring lies in memory: control words and sub-buffers, for a host that reads the RAM.
///
/// # Panics
/// If `cpu` is not below [`MAX_CPUS`].
#[must_use]
pub fn place_of(cpu: usize) -> (usize, usize) {
    RingOf::new(cpu).place()
}

/// Hands every complete sub-buffer of a CPU to `deliver`, which says whether it took it. Returns how many it took.
///
/// # Panics
/// If `cpu` is not below [`MAX_CPUS`].
///
/// # Context
/// Threads; one at a time for each CPU.
pub fn drain(cpu: usize, mut deliver: impl FnMut(&'static [u8]) -> bool) -> usize {
    let ring = RingOf::new(cpu);
    let mut nr = 0;
    while let Some(full) = ring::peek_full(ring) {
        if !deliver(ring.sub_buffer(full.offset)) {
            break;
        }
        // In overwrite mode a writer may have taken it meanwhile; the sequence numbers show the gap.
        if ring::consume(ring, full).is_ok() {
            nr += 1;
        }
    }
    nr
}

/// Bytes that the idle thread keeps free in the current sub-buffer: what a few activations with every event on record.
const ROOM: u32 = 512;

/// Does ahead of time what the next records would have to do besides recording: opens the next sub-buffer if little
/// room is left, and notes the upper half of the TSC at `upcoming`, the next deadline.
///
/// # Context
/// The idle thread.
pub(crate) fn prepare(upcoming: u64) {
    ring::make_room(KernelRing, ROOM);
    if upcoming != u64::MAX {
        ring::announce(KernelRing, upcoming);
    }
}

/// Whether a complete sub-buffer of this CPU waits to be handed over.
#[must_use]
pub fn has_full() -> bool {
    ring::peek_full(KernelRing).is_some()
}

/// How many sub-buffers of this CPU's ring wait to be handed over, of [`TRACE_NR_SUBS`].
///
/// [`TRACE_NR_SUBS`]: crate::config::TRACE_NR_SUBS
#[must_use]
pub fn nr_full() -> u64 {
    use takt_tracer::ring::{CpuRing, Word};
    (KernelRing.pos() / crate::config::TRACE_SUB_SIZE as u64)
        .saturating_sub(KernelRing.load(Word::Consumed))
}

/// Ends a CPU's current sub-buffer, so that everything recorded can be handed over. While tracing is off.
///
/// # Panics
/// If `cpu` is not below [`MAX_CPUS`].
pub fn close(cpu: usize) {
    ring::close(RingOf::new(cpu));
}
