//! Handing complete sub-buffers over: the end that one thread of the ring's CPU reads.
//!
//! Context: thread, one at a time; may be interrupted and preempted by writers anywhere. A step costs a few
//! instructions, but belongs outside of measured paths because of what follows it.

use super::slow::{Opened, Turn, open, pad, put_half};
use super::{CpuRing, Geometry, Word, noted};
use crate::wire::{CLOCK_LEN, COMMIT_BYTES, COMMIT_RECORD, SUB_COMMIT, SUB_HEADER};

/// A complete sub-buffer that the consumer has not taken yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "hand it over, then `consume` it"]
pub struct Full {
    /// Its sequence number.
    pub seq: u64,
    /// Where it begins in the ring, in bytes; it is `SUB_SIZE` long.
    pub offset: u32,
    /// The events in it.
    pub records: u64,
}

/// The sub-buffer was overwritten before it was consumed: what was read of it is worthless.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Overwritten;

/// The oldest complete sub-buffer that was not consumed, if there is one.
///
/// In mode `StopWhenFull` it stays as it is until [`consume`]; in mode `Overwrite` a writer may take it at any moment,
/// which [`consume`] reports.
///
/// # Context
/// The consumer thread.
#[inline(never)]
pub fn peek_full<R: CpuRing>(ring: R) -> Option<Full> {
    let pos = ring.pos();
    let opened = Geometry::<R>::opened(pos);
    let oldest = ring
        .load(Word::Consumed)
        .max(opened.saturating_sub(u64::from(R::NR_SUBS)));
    for seq in oldest..Geometry::<R>::seq(pos) {
        let offset = Geometry::<R>::offset(Geometry::<R>::start(seq));
        let commit = ring.load64(offset + SUB_COMMIT);
        if commit & COMMIT_BYTES != Geometry::<R>::complete_before(seq + u64::from(R::NR_SUBS)) {
            return None; // a writer is still inside
        }
        if ring.load64(offset) != seq {
            continue; // it was passed over
        }
        let base = ring.load64(offset + SUB_HEADER - 8);
        return Some(Full {
            seq,
            offset,
            records: commit.wrapping_sub(base) / COMMIT_RECORD,
        });
    }
    None
}

/// How many sub-buffers wait to be taken, those that were passed over among them, whether writers are inside or not.
///
/// # Context
/// Any.
pub fn nr_full<R: CpuRing>(ring: R) -> u64 {
    Geometry::<R>::seq(ring.pos()).saturating_sub(ring.load(Word::Consumed))
}

/// Gives a sub-buffer back to the writers after it was handed over.
///
/// # Errors
/// [`Overwritten`] if a writer took it in the meantime (mode `Overwrite` only), and it counts as overrun then; or if another consumer
/// has handed it over, or one behind it.
///
/// # Context
/// The consumer thread.
pub fn consume<R: CpuRing>(ring: R, full: Full) -> Result<(), Overwritten> {
    let reuse = Geometry::<R>::start(full.seq + u64::from(R::NR_SUBS));
    // Another consumer may have handed it over, and more.
    if ring.pos() > reuse || full.seq < ring.load(Word::Consumed) {
        return Err(Overwritten);
    }
    ring.store(Word::Consumed, full.seq + 1);
    ring.add(Word::Read, full.records);
    Ok(())
}

/// Ends the current sub-buffer by padding, so that it can be handed over: for the end of a run. Works with tracing on
/// and off.
///
/// If events were lost that no header mentions yet, opens and ends an otherwise empty sub-buffer for the number, so
/// that a loss at the end is not silent. With a full ring that is impossible until something is consumed: so hand over,
/// close again, and hand over again.
///
/// # Context
/// Thread, IRQ, NMI of the ring's CPU.
#[inline(never)]
pub fn close<R: CpuRing>(ring: R) {
    loop {
        let pos = ring.pos();
        let now = ring.now();
        let end = Geometry::<R>::end(pos);
        if pos != end {
            if ring.cas(Word::Pos, pos, end) {
                pad(ring, pos);
            }
            continue;
        }
        let lost = ring.load(Word::Dropped) + ring.load(Word::CommitOverrun);
        if lost == ring.load(Word::Reported) {
            return;
        }
        if open(ring, pos, now, 0, Turn::GO_ON) == Opened::REFUSED {
            return;
        }
    }
}

/// Opens the next sub-buffer ahead of time if less than `room` bytes are left in the current one, so that a measured
/// path does not meet the end of it. The rest is padding. Says whether it did; does nothing while tracing is off or
/// the next slot is not free.
///
/// # Context
/// A thread of the ring's CPU: outside of every measured path.
pub fn make_room<R: CpuRing>(ring: R, room: u32) -> bool {
    ring.load(Word::Limit) != 0 && has_made_room(ring, room)
}

/// The rest of it while tracing is on.
#[inline(always)]
fn has_made_room<R: CpuRing>(ring: R, room: u32) -> bool {
    let pos = ring.pos();
    let now = ring.now();
    Geometry::<R>::left(pos) < u64::from(room)
        && open(ring, pos, now, 0, Turn::GO_ON).here().is_some()
}

/// [`make_room`], and [`announce`] unless `upcoming` is `u64::MAX`.
///
/// # Context
/// A thread of the ring's CPU: outside of every measured path.
pub fn prepare<R: CpuRing>(ring: R, room: u32, upcoming: u64) {
    if ring.load(Word::Limit) != 0 {
        has_made_room(ring, room);
        if upcoming != u64::MAX {
            note(ring, upcoming);
        }
    }
}

/// Announces the upper half of the TSC at `upcoming`, the next time a measured path is expected to run, if it is not
/// the one noted: writes the `clock` record that the path would have to write. Should something else be recorded
/// before that time, it finds the half of its own time not noted and writes a `clock` record itself.
///
/// # Context
/// A thread of the ring's CPU: outside of every measured path.
pub fn announce<R: CpuRing>(ring: R, upcoming: u64) {
    if ring.load(Word::Limit) != 0 {
        note(ring, upcoming);
    }
}

/// The rest of it while tracing is on.
#[inline(always)]
fn note<R: CpuRing>(ring: R, upcoming: u64) {
    if ring.load(Word::TsHi) == noted(upcoming >> 32) {
        return;
    }
    let pos = ring.pos();
    // As long as the buffer and the note may disagree, no half is noted: a writer that comes in between says its own.
    // In this order, so that the exchange fails if one has come and noted it.
    ring.store(Word::TsHi, NO_HALF);
    if u64::from(CLOCK_LEN) <= Geometry::<R>::left(pos)
        && ring.cas(Word::Pos, pos, pos + u64::from(CLOCK_LEN))
    {
        put_half(ring, pos, upcoming, 0);
        // Whoever came in between has put the present half behind this one, and noted that.
        ring.cas(Word::TsHi, NO_HALF, noted(upcoming >> 32));
    }
}

/// Noted while it is open what half the next record is to have: no reading of the TSC has it.
const NO_HALF: u64 = u64::MAX;
