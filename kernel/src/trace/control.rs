//! Control of tracing: whether at all, on which CPUs, and the counters.
//!
//! # Another CPU's ring
//! A CPU claims room in its own ring without a locked instruction. So nobody else changes how far a ring is used but [`close`], and
//! that only while nothing is recorded and for a CPU that is to record no more. Should a write that began before go on in the very
//! instruction in which the ring is changed, two own the same bytes of it, and records of that CPU are lost.

use core::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};

use takt_tracer::ring::{self, CpuRing, Word};

use crate::arch::jump_label::{self, Writable};
use crate::arch::percpu::CpuRef;
use crate::arch::proof;
#[cfg(feature = "tasks")]
use crate::arch::ring3;
use crate::clock::Instant;
use crate::config::MAX_CPUS;
use crate::error::Error;
use crate::other_cpu;
#[cfg(feature = "tasks")]
use crate::probe::events;
use crate::probe::places;
use crate::probe::ring::{KernelRing, RingOf, control_word};

pub use takt_tracer::ring::Counters;

/// Switches the places of an event.
#[inline(never)]
pub(super) fn switch(text: &mut Writable, id: u32, on: bool) {
    jump_label::set(text, id, on);
    places::set_event(text, id, on);
    #[cfg(feature = "tasks")]
    follow(text, id, on);
    if on {
        tell_current();
    }
}

/// What goes by an event besides its places: flags in tasks, and the way of their calls.
#[cfg(feature = "tasks")]
fn follow(text: &mut Writable, id: u32, on: bool) {
    crate::probe::flags::follow(id, on);
    let of_calls = [&events::syscall_entry::ID, &events::syscall_exit::ID].map(jump_label::number);
    if of_calls.contains(&id) {
        ring3::trace_calls(text, of_calls.into_iter().any(jump_label::is_on));
    }
}

/// Has the next record of each CPU say who runs: until now the events of who does may have been off, or left out by a
/// filter.
///
/// # Context
/// Any.
#[inline(always)]
pub(super) fn tell_current() {
    each_ring(|ring| ring.control().arm());
}

/// Does something with the ring of each CPU that runs.
#[inline(never)]
pub(super) fn each_ring(act: fn(RingOf)) {
    for cpu in crate::cpus::bits(crate::cpus::online()) {
        proof::bounded!("CPUs whose rings are told");
        act(RingOf::new(cpu));
    }
}

/// Whether the CPU of a ring is to record.
fn is_in_mask(ring: RingOf) -> bool {
    CPUMASK.load(Relaxed) >> ring.cpu() & 1 != 0
}

/// As [`tell_current`], of this CPU.
#[cfg(feature = "rules")]
pub(super) fn tell_current_here() {
    crate::arch::percpu::this().ring.arm();
}

/// Whether recording is to be on, on the CPUs of [`CPUMASK`].
static WANTED: AtomicBool = AtomicBool::new(false);

/// A bit for each CPU that records.
static CPUMASK: AtomicU32 = AtomicU32::new(ALL_CPUS);

/// The bits of all CPUs that an image may have.
const ALL_CPUS: u32 = u32::MAX >> (32 - MAX_CPUS);

/// Starts recording, on every CPU that runs and is in [`cpumask`].
///
/// # Context
/// Any, NMI included.
#[inline(never)]
pub fn tracing_on() {
    WANTED.store(true, Relaxed);
    each_ring(|ring| {
        if is_in_mask(ring) {
            // If it is on already, its limit stands.
            ring.cas(Word::Limit, 0, ring::ARMED);
        }
    });
}

/// Stops recording at once, on every CPU that runs; what is recorded stays.
///
/// # Context
/// Any, NMI included.
#[inline(never)]
pub fn tracing_off() {
    WANTED.store(false, Relaxed);
    each_ring(|ring| ring.store(Word::Limit, 0));
}

/// Whether recording was started and not stopped since, whatever CPUs are in [`cpumask`].
///
/// # Context
/// Any.
#[must_use]
pub fn is_wanted() -> bool {
    WANTED.load(Relaxed)
}

/// The CPUs that record, a bit for each.
///
/// # Context
/// Any.
#[must_use]
pub fn cpumask() -> u32 {
    CPUMASK.load(Relaxed)
}

/// Chooses the CPUs that record. The others stop at once; what they have recorded stays.
///
/// # Errors
/// [`Error::Overflow`] if there is a bit of a CPU that no image of this build can have.
///
/// # Context
/// Threads, one at a time.
pub fn set_cpumask(mask: u32) -> Result<(), Error> {
    if mask & !ALL_CPUS != 0 {
        return Err(Error::Overflow);
    }
    CPUMASK.store(mask, Relaxed);
    each_ring(|ring| {
        if !is_in_mask(ring) {
            ring.store(Word::Limit, 0);
        }
    });
    if is_wanted() {
        tracing_on();
    }
    Ok(())
}

/// How many of [`TRACE_NR_SUBS`](crate::config::TRACE_NR_SUBS) sub-buffers each CPU uses.
///
/// # Context
/// Any.
#[must_use]
pub fn buffer_size() -> usize {
    ring::capacity(RingOf::new(0)) as usize
}

/// Ends the current sub-buffer of every CPU: what was recorded up to now counts as being there no more. What is to be handed
/// over still is. Recording pauses meanwhile, also while `each` is told of each CPU.
///
/// # Context
/// Threads, one at a time. Waits for each other CPU to take an interrupt.
pub fn forget(mut each: impl FnMut(usize)) {
    paused(|| {
        for cpu in crate::cpus::bits(crate::cpus::online()) {
            on_its_cpu(cpu, |ring| {
                ring::close(ring);
                ring::snapshot::begin_anew(ring);
            });
            each(cpu);
        }
    });
}

/// Does something to the ring of every CPU that runs while nothing is recorded. In threads.
#[inline(never)]
pub(super) fn with_each_paused(act: fn(RingOf)) {
    paused(|| crate::cpus::bits(crate::cpus::online()).for_each(|cpu| on_its_cpu(cpu, act)));
}

/// The CPU itself does something to its ring.
fn on_its_cpu(cpu: usize, act: fn(RingOf)) {
    other_cpu::call(|| CpuRef::of(cpu), || act(RingOf::new(cpu)));
}

/// Nothing is recorded while `act` runs.
fn paused(act: impl FnOnce()) {
    let was_wanted = is_wanted();
    tracing_off();
    act();
    if was_wanted {
        tracing_on();
    }
}

/// Whether this CPU records.
#[must_use]
pub fn is_on() -> bool {
    control_word::<{ Word::Limit.offset() as usize }>() != 0
}

/// Whether the oldest is overwritten when a ring is full.
#[must_use]
pub fn is_overwriting() -> bool {
    control_word::<{ Word::Mode.offset() as usize }>() == ring::Mode::Overwrite as u64
}

/// The counters of a CPU's ring.
///
/// # Panics
/// If `cpu` is not below [`MAX_CPUS`].
///
/// # Context
/// Any.
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

/// Bytes that [`prepare`] keeps free in the current sub-buffer: what a few activations with every event on record.
const ROOM: u32 = 512;

/// Does ahead of time what the next records of this CPU would have to do besides recording: opens the next sub-buffer if
/// little room is left, and notes the upper half of the TSC at `upcoming`, the next deadline, unless that is
/// [`Instant::NEVER`].
///
/// The idle thread does it before it waits. Who must not be delayed by it, on a CPU that may never idle, does it at the
/// end of each activation.
///
/// # Context
/// Threads.
pub fn prepare(upcoming: Instant) {
    let ring = RingOf::here();
    ring::prepare(ring, ROOM, upcoming.cycles());
}

/// Whether a complete sub-buffer of this CPU waits to be handed over.
#[must_use]
pub fn has_full() -> bool {
    ring::peek_full(RingOf::here()).is_some()
}

/// How many sub-buffers of this CPU's ring wait to be handed over, of [`TRACE_NR_SUBS`].
///
/// [`TRACE_NR_SUBS`]: crate::config::TRACE_NR_SUBS
#[must_use]
pub fn nr_full() -> u64 {
    ring::nr_full(KernelRing)
}

/// Ends a CPU's current sub-buffer, so that everything recorded can be handed over.
///
/// # Errors
/// [`Error::InvalidState`] if it is another CPU's, and that records: its records are made by steps that another CPU must not
/// come between.
///
/// # Panics
/// If `cpu` is not below [`MAX_CPUS`].
///
/// # Context
/// Threads, one at a time; for another CPU's ring see [above](self#another-cpus-ring).
pub fn close(cpu: usize) -> Result<(), Error> {
    let ring = RingOf::new(cpu);
    if cpu != crate::arch::percpu::cpu() && ring.load(Word::Limit) != 0 {
        return Err(Error::InvalidState);
    }
    ring::close(ring);
    Ok(())
}
