//! Each CPU's timers: arming and disarming them, and the hardware's one.
//!
//! Timers are tickless: each CPU has a queue of deadlines, and its local APIC timer is set to the earliest. What a timer that
//! has expired does is the business of [`expiry`](crate::expiry).

use takt_scheduler::{Inserted, Insertion, Stage, TimerId};

use crate::arch::apic;
use crate::arch::percpu::{self, CpuRef};
use crate::arch::proof;
use crate::clock::Instant;
use crate::config::{MAX_THREADS, MAX_TIMERS};
use crate::probe::trace;
use crate::section::{self, Kind, Scheduled, Section};

/// Each CPU's timer for how long the running thread may go on: its quantum's, or its budget's. Its number is that of the first
/// CPU's idle thread, which has no time-outs.
pub(crate) const SLICE: TimerId = TimerId::new(0);

/// Each CPU's timer for what wake-ups leave to it (`deferred`), behind those of software timers: armed for at once, or not.
pub(crate) const DEFERRED: TimerId = TimerId::new((MAX_THREADS + MAX_TIMERS) as u16);

/// Arms a timer of this CPU's, and the hardware if it is now the earliest. For [`SLICE`] above all, which has a place of
/// its own in the queue: looking for another's takes the longer the more timers are armed.
#[cfg(feature = "tasks")]
#[inline(always)]
pub(crate) fn insert(scheduled: &mut Scheduled, id: TimerId, deadline: Instant) {
    trace!(timer_start, id.raw(), deadline.cycles());
    let timers = &mut scheduled.cpu(CpuRef::this()).timers;
    if timers.insert(id, deadline) != Inserted::Later {
        arm_earliest_apart(scheduled);
    }
}

/// [`insert`] in the timer's interrupt, whose end sets the hardware.
#[cfg(feature = "tasks")]
pub(crate) fn insert_at_expiry(scheduled: &mut Scheduled, id: TimerId, deadline: Instant) {
    trace!(timer_start, id.raw(), deadline.cycles());
    let timers = &mut scheduled.cpu(CpuRef::this()).timers;
    // The slice's has a place of its own. Most other places are at hand.
    if id == SLICE || timers.is_empty() || timers.insert_at_hand(id, deadline).is_err() {
        let _: Inserted = timers.insert(id, deadline);
    }
}

/// When the hardware is set to a quantum's end.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Arming {
    /// At once.
    Now,
    /// By an interrupt that comes behind the section: shorter, for a section that has no room for it.
    Behind,
}

/// Arms the slice's timer, or moves it to an earlier time: shorter than any other's insertion.
#[inline(never)]
pub(crate) fn hasten_slice(
    scheduled: &mut Scheduled,
    cpu: CpuRef,
    deadline: Instant,
    arming: Arming,
) {
    let Some(inserted) = scheduled.cpu(cpu).timers.hasten_0(deadline) else {
        return;
    };
    trace!(timer_start, SLICE.raw(), deadline.cycles());
    if inserted == Inserted::Earliest {
        scheduled.cpu(cpu).armed = deadline;
        match arming {
            Arming::Now => apic::arm(deadline),
            Arming::Behind => apic::arm_at_once(),
        }
    }
}

/// Arms a timer of this CPU's, as the last act of a section. Where others are armed, the place is looked for in sections of
/// their own, unless interrupts were off before.
#[inline(always)]
pub(crate) fn insert_and_leave<K: Kind>(
    mut section: Section<K, Scheduled>,
    id: TimerId,
    deadline: Instant,
) {
    let timers = &mut section.cpu(CpuRef::this()).timers;
    if !timers.is_empty() {
        return insert_among(section, id, deadline);
    }
    // At once, where it is known that no other is armed.
    let _: Inserted = timers.insert(id, deadline);
    trace!(timer_start, id.raw(), deadline.cycles());
    arm_first(&mut section, deadline);
    section.leave_quietly();
}

/// [`insert_and_leave`] of [`DEFERRED`], which stays as it is if it is armed.
#[inline(never)]
pub(crate) fn arm_deferred<K: Kind>(mut section: Section<K, Scheduled>, now: Instant) {
    let timers = &mut section.cpu(CpuRef::this()).timers;
    if timers.is_empty() {
        return insert_and_leave(section, DEFERRED, now);
    }
    match timers.insert_at_hand(DEFERRED, now) {
        Ok(inserted) => end_insertion(section, DEFERRED, now, inserted),
        Err(Stage::Disarm) => section.leave_quietly(),
        Err(stage) => insert_in_steps(section, DEFERRED, now, stage),
    }
}

/// Where others are armed. Most places are at hand.
#[inline(never)]
fn insert_among<K: Kind>(mut section: Section<K, Scheduled>, id: TimerId, deadline: Instant) {
    if deadline == Instant::NEVER {
        core::hint::cold_path();
        cancel(&mut section, id);
        return section.leave_quietly();
    }
    let timers = &mut section.cpu(CpuRef::this()).timers;
    match timers.insert_at_hand(id, deadline) {
        Ok(inserted) => end_insertion(section, id, deadline, inserted),
        Err(stage) => insert_in_steps(section, id, deadline, stage),
    }
}

/// Looks for a timer's place, in sections of few steps each.
#[inline(never)]
fn insert_in_steps<K: Kind>(
    mut section: Section<K, Scheduled>,
    id: TimerId,
    deadline: Instant,
    stage: Stage,
) {
    let mut insertion = Insertion::new(stage);
    section = section.reopen();
    loop {
        proof::bounded!("steps along the list of timers by an interrupt that arms one");
        let timers = &mut section.cpu(CpuRef::this()).timers;
        if let Some(inserted) = timers.insert_step(id, deadline, &mut insertion) {
            return end_insertion(section, id, deadline, inserted);
        }
        section = section.reopen();
    }
}

#[inline(always)]
fn end_insertion<K: Kind>(
    mut section: Section<K, Scheduled>,
    id: TimerId,
    deadline: Instant,
    inserted: Inserted,
) {
    trace!(timer_start, id.raw(), deadline.cycles());
    match inserted {
        Inserted::Later => {}
        Inserted::Earliest => {
            core::hint::cold_path();
            arm_first(&mut section, deadline);
        }
        Inserted::Moved => {
            core::hint::cold_path();
            // The hardware is set too early, so this has time.
            section = section.reopen();
            arm_earliest(&mut section);
        }
    }
    section.leave_quietly();
}

/// Sets the hardware to a timer that is the earliest.
#[inline(always)]
fn arm_first(scheduled: &mut Scheduled, deadline: Instant) {
    scheduled.cpu(CpuRef::this()).armed = deadline;
    apic::arm(deadline);
}

#[cfg(feature = "tasks")]
#[cold]
#[inline(never)]
fn arm_earliest_apart(scheduled: &mut Scheduled) {
    arm_earliest(scheduled);
}

/// The earliest timer is another now, or has moved.
#[inline(always)]
fn arm_earliest(scheduled: &mut Scheduled) {
    let sched = scheduled.cpu(CpuRef::this());
    sched.armed = sched.earliest_deadline();
    apic::arm(sched.armed);
}

/// Disarms a timer. The hardware is left as it is: an interrupt for nothing costs less than setting it anew each time.
#[inline(always)]
pub(crate) fn cancel(scheduled: &mut Scheduled, id: TimerId) -> bool {
    let was_armed = scheduled.cpu(CpuRef::this()).timers.cancel(id).was_armed();
    if was_armed {
        trace!(timer_cancel, u32::from(id.raw()));
    }
    was_armed
}

/// See [`time::forget`](crate::time::forget).
pub(crate) fn forget(origin: Instant) {
    let mut section = section::own();
    section.cpu(CpuRef::this()).timers.forget(origin);
    section.leave_quietly();
}

/// The next deadline of this CPU; [`Instant::NEVER`] if there is none.
pub(crate) fn next_deadline() -> Instant {
    // SAFETY: reads one word of this CPU's own; a stale value only makes the caller choose another moment.
    unsafe { (*percpu::this().sched.get()).earliest_deadline() }
}
