//! The slow path: tracing off, a stale limit, a new upper half of the TSC, a full sub-buffer, a lost race.
//!
//! Context: as the fast path, at any depth of nesting.

use super::control::capacity;
use super::writer::write;
use super::{CpuRing, Geometry, Mode, Word};
use crate::wire::{
    CLOCK_ID, CLOCK_LEN, COMMIT_BYTES, SUB_COMMIT, SUB_HEADER, SubHeader, commit_of,
};

/// Records what the fast path could not, or loses and counts it.
#[cold]
#[inline(never)]
pub(super) fn record<R: CpuRing>(ring: R, word: u32, first: u64, second: u64, len: u32) {
    if let Some((pos, ts)) = reserve(ring, len) {
        write(
            ring,
            Geometry::<R>::offset(pos),
            ts,
            len,
            word,
            first,
            second,
        );
        ring.add64::<SUB_COMMIT>(Geometry::<R>::sub_offset(pos), u64::from(commit_of(len)));
    }
}

/// Reserves `len` bytes; returns their position and the time stamp, or `None` if the event is not recorded.
///
/// Starts again, with a new time stamp, whenever somebody else has reserved meanwhile. Each turn is lost only to a
/// writer that got on, so there is no livelock.
#[inline]
pub(super) fn reserve<R: CpuRing>(ring: R, len: u32) -> Option<(u64, u32)> {
    loop {
        let limit = ring.load(Word::Limit);
        if limit == 0 {
            return None; // tracing is off
        }
        let pos = ring.pos();
        let now = ring.now();
        let end = Geometry::<R>::end(pos);
        if limit < end {
            // Stale. If the exchange fails, somebody has repaired it, or turned tracing off: both shall stand.
            ring.cas(Word::Limit, limit, end);
        }
        let half = now >> 32;
        let clock = if ring.load(Word::TsHi) == half {
            0
        } else {
            CLOCK_LEN
        };
        let new = pos + u64::from(clock + len);
        if new <= end {
            if !ring.cas(Word::Pos, pos, new) {
                continue;
            }
            if clock != 0 {
                put_half(ring, pos, now);
                ring.store(Word::TsHi, half);
            }
            return Some((pos + u64::from(clock), now as u32));
        }
        match open(ring, pos, now, len) {
            Opened::Here(at) => return Some((at, now as u32)),
            Opened::Raced => {}
            Opened::Refused(counter) => {
                ring.add(counter, 1);
                return None;
            }
        }
    }
}

/// Writes the `clock` record that was reserved at `pos`. It is no event: its bytes are committed, but no record.
pub(super) fn put_half<R: CpuRing>(ring: R, pos: u64, now: u64) {
    let at = Geometry::<R>::offset(pos);
    ring.store32::<0>(at, now as u32);
    ring.store32::<4>(at, CLOCK_ID);
    ring.store32::<8>(at, (now >> 32) as u32);
    ring.add64::<SUB_COMMIT>(Geometry::<R>::sub_offset(pos), u64::from(CLOCK_LEN));
}

/// What came of opening a sub-buffer.
pub(super) enum Opened {
    /// It is open, and the bytes asked for begin at this position.
    Here(u64),
    /// Somebody else has reserved meanwhile.
    Raced,
    /// The slot is not free; this word counts such losses.
    Refused(Word),
}

/// The commit counter of the slot for the sub-buffer that begins at `start`, if the slot is free for it; else the
/// word that counts what is lost for this reason.
fn free_slot<R: CpuRing>(ring: R, start: u64) -> Result<u64, Word> {
    let seq = Geometry::<R>::seq(start);
    let is_kept = ring.load(Word::Mode) == Mode::StopWhenFull as u64;
    if is_kept && seq >= ring.load(Word::Consumed) + capacity(ring) {
        return Err(Word::Dropped);
    }
    let commit = ring.load64(Geometry::<R>::offset(start) + SUB_COMMIT);
    if commit & COMMIT_BYTES != Geometry::<R>::complete_before(seq) {
        return Err(Word::CommitOverrun);
    }
    Ok(commit)
}

/// Opens the next sub-buffer and reserves `len` bytes in it, in one exchange together with what was left of the
/// sub-buffer in which `pos` lies.
pub(super) fn open<R: CpuRing>(ring: R, pos: u64, now: u64, len: u32) -> Opened {
    let start = Geometry::<R>::end(pos);
    let commit = match free_slot(ring, start) {
        Ok(commit) => commit,
        // The finding holds only if it was this slot's turn all the while.
        Err(_) if ring.pos() != pos => return Opened::Raced,
        Err(counter) => return Opened::Refused(counter),
    };
    let lost = ring.load(Word::Dropped) + ring.load(Word::CommitOverrun);
    let slot = Geometry::<R>::offset(start);
    let first = start + u64::from(SUB_HEADER);
    // Between the load of `pos` and its exchange: who records something after this makes the exchange fail.
    ring.opening();
    if !ring.cas(Word::Pos, pos, first + u64::from(len)) {
        return Opened::Raced;
    }
    // From here on the rest of the old sub-buffer, the header and `len` bytes are ours. `commit` is still the slot's:
    // nobody was inside, and nobody could reserve there before us.
    pad(ring, pos, start);
    let [_, _, ctx, current] = ring.ctx().to_le_bytes();
    let seq = Geometry::<R>::seq(start);
    let version = SubHeader::VERSION;
    let header = SubHeader {
        seq,
        ts: now,
        lost: lost as u32,
        cpu: ring.cpu(),
        current,
        ctx,
        version,
        commit,
        base: commit,
    };
    // `seq` last: an observer that finds it may rely on `base`.
    ring.store64::<32>(slot, header.base);
    ring.store64::<16>(slot, header.mark());
    ring.store64::<8>(slot, header.ts);
    ring.store64::<0>(slot, header.seq);
    ring.add64::<SUB_COMMIT>(slot, u64::from(SUB_HEADER));
    ring.store(Word::TsHi, now >> 32);
    ring.store(Word::Reported, lost);
    let limit = ring.load(Word::Limit);
    let end = start + Geometry::<R>::SUB;
    if limit != 0 && limit < end {
        ring.cas(Word::Limit, limit, end);
    }
    Opened::Here(first)
}

/// Ends the sub-buffer: fills it from the reserved position `pos` to its end `end`, and commits that.
pub(super) fn pad<R: CpuRing>(ring: R, pos: u64, end: u64) {
    if pos == end {
        return;
    }
    if end - pos >= 8 {
        ring.store64::<0>(Geometry::<R>::offset(pos), 0);
    }
    ring.add64::<SUB_COMMIT>(Geometry::<R>::sub_offset(pos), end - pos);
}
