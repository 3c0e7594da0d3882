//! Snapshots: what was recorded up to a moment is kept, and recording goes on elsewhere.
//!
//! From the first snapshot on the ring is two halves. Recording goes round in one of them, and the other holds what was
//! recorded before the last snapshot. Taking one means that the next sub-buffer to be opened lies in the other half:
//! nothing is copied, and the hot path knows nothing of it, since only who opens a sub-buffer asks where.
//!
//! Positions go on ascending, so a slot has the sub-buffers that it would have in one ring; those that are passed over
//! count as filled with padding. What stands in a slot says whose it is by the sequence number in its header.
//!
//! ```text
//!  sequence numbers of 8 slots:     0 1 2 3 | 4 5 6 7      one ring, 5 is open
//!  a snapshot, halves from 6 on:    . . 2 3 4 5 | 6 7      2 to 5 are kept, 6 is open
//!  going on, round in the half:     8 9 2 3 4 5 | 6 7 ... 8 9 14(6) 15(7): 10 to 13 are passed over
//! ```
//!
//! Whoever wants a snapshot counts [`Word::Wanted`] up and lowers the limit, so that the next writer comes to the slow path,
//! finds it, and takes it. Until then what is recorded and what is kept is the same.

use super::slow::{self, Turn};
use super::{CpuRing, Geometry, RingControl, Word};
use crate::wire::{COMMIT_BYTES, SUB_COMMIT, SUB_HEADER};
use core::sync::atomic::Ordering::Relaxed;

/// The two halves of a ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Halves {
    /// The slot with which one of them begins.
    origin: u64,
    /// Sub-buffers of each.
    len: u64,
}

impl Halves {
    /// The halves of a ring of `nr_subs` sub-buffers whose [`Word::Halves`] is this; `None` while the ring is one.
    #[must_use]
    pub const fn new(word: u64, nr_subs: u32) -> Option<Self> {
        match word.checked_sub(1) {
            Some(origin) if nr_subs >= 4 => Some(Self {
                origin,
                len: nr_subs as u64 / 2,
            }),
            _ => None,
        }
    }

    /// Those of `ring`. If there are none yet and a snapshot is to be taken, the ring is divided so that the half before
    /// sub-buffer `next` is what was recorded last.
    pub(super) fn of<R: CpuRing>(ring: R, turn: Turn, next: u64) -> Option<Self> {
        let found = Self::new(ring.load(Word::Halves), R::NR_SUBS);
        if found.is_some() || !turn.is_snapshot() || R::NR_SUBS < 4 {
            return found;
        }
        let origin = next % (u64::from(R::NR_SUBS) / 2);
        // Someone else may have done it meanwhile.
        ring.cas(Word::Halves, 0, origin + 1);
        Self::new(ring.load(Word::Halves), R::NR_SUBS)
    }

    /// How far into its half a sub-buffer is.
    const fn index(self, seq: u64) -> u64 {
        seq.wrapping_sub(self.origin) & (self.len - 1)
    }

    /// Whether two sub-buffers are in the same half.
    #[must_use]
    pub const fn are_together(self, one: u64, other: u64) -> bool {
        (one.wrapping_sub(self.origin) ^ other.wrapping_sub(self.origin)) & self.len == 0
    }

    /// The sub-buffer that is opened next, where `seq` would be in one ring.
    pub(super) const fn next(self, seq: u64, turn: Turn) -> u64 {
        match (self.index(seq), turn.is_snapshot()) {
            (0, false) => seq + self.len,
            (index @ 1.., true) => seq + self.len - index,
            _ => seq,
        }
    }

    /// The first sub-buffer of the turn that `seq` is in: those from there to `seq` were opened one after the other.
    const fn turn_start(self, seq: u64) -> u64 {
        seq.saturating_sub(self.index(seq))
    }
}

/// The sub-buffer that is opened next, where it would be `seq` in one ring.
#[cold]
#[inline(never)]
pub(super) fn place<R: CpuRing>(ring: R, seq: u64, turn: Turn) -> u64 {
    Halves::of(ring, turn, seq).map_or(seq, |halves| halves.next(seq, turn))
}

/// Whether nobody is inside the slots of the sub-buffers `from` to `to`, that one too: who opens one that is passed over may
/// not have written its header yet.
#[inline(always)]
pub(super) fn are_free<R: CpuRing>(ring: R, from: u64, to: u64) -> bool {
    is_free(ring, to) && (from == to || all_free(ring, from, to))
}

#[cold]
#[inline(never)]
fn all_free<R: CpuRing>(ring: R, from: u64, to: u64) -> bool {
    (from..to).all(|seq| {
        ring.round();
        is_free(ring, seq)
    })
}

/// Whether nobody is inside the slot of sub-buffer `seq`.
#[inline(always)]
fn is_free<R: CpuRing>(ring: R, seq: u64) -> bool {
    let at = Geometry::<R>::offset(Geometry::<R>::start(seq));
    let commit = ring.load64(at + SUB_COMMIT);
    commit & COMMIT_BYTES == Geometry::<R>::complete_before(seq)
}

/// Whether a snapshot was asked for and is not taken yet.
pub(super) fn is_pending<R: CpuRing>(ring: R) -> bool {
    ring.load(Word::Taken) != ring.load(Word::Wanted)
}

/// Passes over the sub-buffers `from` to `to`: the claim to them is the caller's. They count as filled; what
/// stands in their slots stays, with as many records as it had.
#[cold]
#[inline(never)]
pub(super) fn pass_over<R: CpuRing>(ring: R, from: u64, to: u64) {
    for seq in from..to {
        ring.round();
        let at = Geometry::<R>::offset(Geometry::<R>::start(seq));
        // The commit counter last: with it the slot is free for the next who comes round.
        ring.add64::<{ SUB_HEADER - 8 }>(at, Geometry::<R>::SUB);
        ring.add64::<SUB_COMMIT>(at, Geometry::<R>::SUB);
    }
    ring.add(Word::Skipped, (to - from) * Geometry::<R>::SUB);
}

/// A snapshot was taken: recording goes on in sub-buffer `seq`.
#[cold]
#[inline(never)]
pub(super) fn taken<R: CpuRing>(ring: R, seq: u64) {
    loop {
        ring.round();
        let before = ring.load(Word::LiveStart);
        if before > seq {
            // The next snapshot was taken meanwhile: this is where it begins.
            ring.store(Word::SnapshotStart, seq);
            return;
        }
        if ring.cas(Word::LiveStart, before, seq) {
            ring.store(Word::SnapshotStart, before);
            return;
        }
    }
}

/// Asks for a snapshot of the ring with these control words. It is taken before the next record; until then nothing is
/// recorded that would not belong to it.
///
/// A ring of fewer than four sub-buffers keeps nothing.
///
/// # Context
/// IRQ-safe, NMI-safe, from any CPU.
pub fn request(control: &RingControl) {
    control.wanted.fetch_add(1, Relaxed);
    control.arm();
}

/// Takes a snapshot that was asked for at once, rather than with the next record. Nothing happens while tracing is off.
///
/// # Context
/// Thread, IRQ, NMI of the ring's CPU.
pub fn settle<R: CpuRing>(ring: R) {
    if is_pending(ring) {
        // Room for nothing, so only the snapshot is taken.
        let _ = slow::reserve(ring, 0);
    }
}

/// What is recorded from here on is all that counts as recorded. The current sub-buffer is closed.
///
/// # Context
/// Only while tracing is off and no writer is inside.
pub fn begin_anew<R: CpuRing>(ring: R) {
    let next = Geometry::<R>::opened(ring.pos());
    ring.store(Word::LiveStart, next);
}

/// Forgets the snapshot, and one that is pending with all that it would hold.
///
/// # Context
/// Only while tracing is off, as [`release`].
#[inline(never)]
pub fn forget<R: CpuRing>(ring: R) {
    if is_pending(ring) {
        // All that is recorded would be in it.
        super::close(ring);
        begin_anew(ring);
    }
    // One more: whoever was interrupted with a claim has none any more.
    ring.add(Word::Wanted, 1);
    ring.store(Word::Taken, ring.load(Word::Wanted));
    ring.store(Word::SnapshotStart, ring.load(Word::LiveStart));
}

/// Makes the ring one again and forgets the snapshot. Of what was recorded the last turn stays.
///
/// # Context
/// Only while tracing is off and no writer is inside.
pub fn release<R: CpuRing>(ring: R) {
    forget(ring);
    if let Some(halves) = Halves::new(ring.load(Word::Halves), R::NR_SUBS) {
        let opened = Geometry::<R>::opened(ring.pos());
        let start = halves
            .turn_start(opened.saturating_sub(1))
            .max(ring.load(Word::LiveStart));
        ring.store(Word::LiveStart, start);
        ring.store(Word::SnapshotStart, start);
        ring.store(Word::Halves, 0);
    }
}
