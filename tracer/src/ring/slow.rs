//! The slow path: tracing off, a stale limit, a new upper half of the TSC, a full sub-buffer, a lost race.
//!
//! Context: as the fast path, at any depth of nesting.

use super::control::{ARMED, capacity};
use super::snapshot::{self, Halves};
use super::{CpuRing, Geometry, Mode, Word, noted};
use crate::wire::{
    CLOCK_CURRENT, CLOCK_ID, CLOCK_LEN, COMMIT_BYTES, NEAR_FAR, SUB_COMMIT, SUB_HEADER, SubHeader,
    commit_of,
};

/// Records what the fast path could not, or loses and counts it.
#[cold]
#[inline(never)]
pub(super) fn record<R: CpuRing>(ring: R, word: u32, first: u64, second: u64, len: u32) {
    if let Some((pos, ts)) = reserve(ring, len) {
        let at = Geometry::<R>::offset(pos);
        ring.store32::<0>(at, ts as u32);
        ring.store32::<4>(at, word);
        let words = [first, first >> 32, second, second >> 32];
        for (at, word) in (at + 8..at + len).step_by(4).zip(words) {
            ring.store32::<0>(at, word as u32);
        }
        ring.add64::<SUB_COMMIT>(Geometry::<R>::sub_offset(pos), u64::from(commit_of(len)));
    }
}

/// Records a near event that the fast path could not, or loses and counts it.
#[cold]
#[inline(never)]
pub(super) fn record_near<R: CpuRing>(ring: R, word: u32, time: u64) {
    /// A record without the upper half of its time is as long as what says the half of the clock.
    const LEN: u32 = CLOCK_LEN;
    let is_half_of = |now: u64| (time ^ now) >> 32 == 0;
    if is_half_of(ring.now()) {
        let Some((pos, ts)) = reserve(ring, LEN) else {
            return;
        };
        if is_half_of(ts) {
            let at = Geometry::<R>::offset(pos);
            ring.store32::<0>(at, ts as u32);
            ring.store32::<4>(at, word);
            ring.store32::<8>(at, time as u32);
            let sub = Geometry::<R>::sub_offset(pos);
            return ring.add64::<SUB_COMMIT>(sub, u64::from(commit_of(LEN)));
        }
        // The clock's upper half has changed just now: what was reserved says that a second time.
        put_half(ring, pos, ts, 0);
    }
    record(ring, word | NEAR_FAR, time, 0, LEN + 4);
}

/// Reserves `len` bytes; returns their position and the time stamp, or `None` if the event is not recorded.
///
/// Starts again, with a new time stamp, whenever somebody else has reserved meanwhile. Each turn is lost only to a
/// writer that got on, so there is no livelock.
#[inline(never)]
pub(super) fn reserve<R: CpuRing>(ring: R, len: u32) -> Option<(u64, u64)> {
    let mut turn = Turn::GoOn;
    loop {
        let limit = ring.load(Word::Limit);
        if limit == 0 {
            turn.give_back(ring);
            return None; // tracing is off
        }
        let pos = ring.pos();
        let now = ring.now();
        let end = Geometry::<R>::end(pos);
        // Tracing was turned on, or somebody says that who runs may have changed without a record of it: the reader is
        // told who runs. A new header tells it anyway.
        let tells = limit == ARMED && pos != end;
        if !tells {
            // Perhaps stale.
            raise_limit(ring, limit, end);
        }
        if snapshot::is_pending(ring) || !matches!(turn, Turn::GoOn) {
            turn.claim(ring, pos);
        }
        let half = now >> 32;
        let clock = if ring.load(Word::TsHi) as u32 == half as u32 && !tells {
            0
        } else {
            CLOCK_LEN
        };
        let new = pos + u64::from(clock + len);
        if new <= end && matches!(turn, Turn::GoOn) {
            if !ring.cas(Word::Pos, pos, new) {
                continue;
            }
            if clock != 0 {
                let current = match tells {
                    true => CLOCK_CURRENT | ring.ctx() & CURRENT,
                    false => 0,
                };
                put_half(ring, pos, now, current);
                ring.store(Word::TsHi, noted(half));
            }
            if tells {
                // Only now: whoever came in between has told it too.
                raise_limit(ring, ring.load(Word::Limit), end);
            }
            return Some((pos + u64::from(clock), now));
        }
        match open(ring, pos, now, len, turn) {
            Opened::Here(at) => return Some((at, now)),
            Opened::Raced => {}
            Opened::Refused(counter) => {
                turn.give_back(ring);
                ring.add(counter, 1);
                return None;
            }
        }
    }
}

/// Where the next sub-buffer lies.
#[derive(Clone, Copy)]
pub(super) enum Turn {
    /// Behind the present one.
    GoOn,
    /// In the other half: a snapshot is to be taken, by whom has this.
    Snapshot {
        /// The sub-buffer that was open then.
        open: u64,
    },
}

impl Turn {
    /// Takes a snapshot that was asked for upon oneself.
    #[cold]
    #[inline(never)]
    fn claim<R: CpuRing>(&mut self, ring: R, pos: u64) {
        let now_open = Geometry::<R>::seq(Geometry::<R>::end(pos)).saturating_sub(1);
        if let Self::Snapshot { open } = *self
            && Halves::new(ring.load(Word::Halves), R::NR_SUBS)
                .is_some_and(|halves| !halves.are_together(open, now_open))
        {
            // Someone who was asked later has taken it.
            *self = Self::GoOn;
        }
        // In this order: if someone takes it in between, the exchange fails.
        let taken = ring.load(Word::Taken);
        let wanted = ring.load(Word::Wanted);
        if matches!(self, Self::GoOn) && wanted != taken && ring.cas(Word::Taken, taken, wanted) {
            *self = Self::Snapshot { open: now_open };
        }
    }

    /// It was not possible: somebody else shall.
    fn give_back<R: CpuRing>(self, ring: R) {
        if matches!(self, Self::Snapshot { .. }) {
            ring.add(Word::Taken, 1u64.wrapping_neg());
        }
    }
}

/// Moves the limit to the end of the sub-buffer that is open, if it is on and was not there. If the exchange fails, somebody
/// has repaired it, or turned tracing off: both shall stand.
#[inline(never)]
fn raise_limit<R: CpuRing>(ring: R, limit: u64, end: u64) {
    if limit == 0 || limit >= end || !ring.cas(Word::Limit, limit, end) {
        return;
    }
    if snapshot::is_pending(ring) {
        // Who asked has set the limit to this, and perhaps it was that which was exchanged.
        ring.cas(Word::Limit, end, ARMED);
    }
}

/// The running thread in a record's word.
const CURRENT: u32 = 0xff00_0000;

/// Writes the `clock` record that was reserved at `pos`, with `current` in its word. It is no event: its bytes are committed,
/// but no record.
pub(super) fn put_half<R: CpuRing>(ring: R, pos: u64, now: u64, current: u32) {
    let at = Geometry::<R>::offset(pos);
    ring.store32::<0>(at, now as u32);
    ring.store32::<4>(at, CLOCK_ID | current);
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

/// The commit counter of the slot for sub-buffer `seq`, if the slot is free for it and so are those of the sub-buffers
/// from `next` to it; else the word that counts what is lost for this reason.
#[inline(never)]
fn free_slot<R: CpuRing>(ring: R, next: u64, seq: u64) -> Result<u64, Word> {
    let is_kept = ring.load(Word::Mode) == Mode::StopWhenFull as u64;
    if is_kept && seq >= ring.load(Word::Consumed) + capacity(ring) {
        return Err(Word::Dropped);
    }
    // Those that are passed over too: who opens one may not have written its header yet.
    if seq != next && !snapshot::are_free(ring, next, seq) {
        return Err(Word::CommitOverrun);
    }
    let commit = ring.load64(Geometry::<R>::offset(Geometry::<R>::start(seq)) + SUB_COMMIT);
    if commit & COMMIT_BYTES != Geometry::<R>::complete_before(seq) {
        return Err(Word::CommitOverrun);
    }
    Ok(commit)
}

/// Opens the next sub-buffer and reserves `len` bytes in it, in one exchange together with what was left of the
/// sub-buffer in which `pos` lies, and with those that are passed over.
#[inline(never)]
pub(super) fn open<R: CpuRing>(ring: R, pos: u64, now: u64, len: u32, turn: Turn) -> Opened {
    let end = Geometry::<R>::end(pos);
    let next = Geometry::<R>::seq(end);
    let mut seq = next;
    if ring.load(Word::Halves) != 0 || !matches!(turn, Turn::GoOn) {
        seq = snapshot::place(ring, seq, turn);
    }
    let start = Geometry::<R>::start(seq);
    let commit = match free_slot(ring, next, seq) {
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
    // From here on the rest of the old sub-buffer, what is passed over, the header and `len` bytes are ours. `commit` is
    // still the slot's: nobody was inside, and nobody could reserve there before us.
    pad(ring, pos, end);
    if seq != next {
        snapshot::pass_over(ring, next, seq);
    }
    let [_, _, ctx, current] = ring.ctx().to_le_bytes();
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
    ring.store(Word::TsHi, noted(now >> 32));
    ring.store(Word::Reported, lost);
    if matches!(turn, Turn::Snapshot { .. }) {
        snapshot::taken(ring, seq);
    }
    raise_limit(ring, ring.load(Word::Limit), start + Geometry::<R>::SUB);
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
