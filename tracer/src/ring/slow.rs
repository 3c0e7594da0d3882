//! The slow path: tracing off, a stale limit, a new upper half of the TSC, a full sub-buffer, a lost race.
//!
//! Context: as the fast path, at any depth of nesting.

use core::num::NonZeroU64;

use super::control::{ARMED, capacity};
use super::snapshot::{self, Halves};
use super::{CpuRing, Geometry, Mode, Word, noted};
use crate::wire::{CLOCK_CURRENT, CLOCK_ID, CLOCK_LEN, SUB_COMMIT, SUB_HEADER, SubHeader};

/// Records what the fast path could not, or loses and counts it.
#[cold]
#[inline(never)]
pub(super) fn record<R: CpuRing>(ring: R, word: u32, first: u64, second: u64, len: u32) {
    let extra = [first, first >> 32, second, second >> 32].map(|word| word as u32);
    let nr = (len as usize - 8) / 4;
    super::record_bytes(ring, word, extra.get(..nr).unwrap_or(&extra), None);
}

/// What came of leaving a full sub-buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
#[must_use]
pub enum Turned {
    /// Nothing: it was not full, or something else is to be done. The slow path finds out what.
    No,
    /// The next one is open: the record may be tried again, unless somebody else has filled that one too.
    Yes,
    /// The next one is not free: the record is lost, and counted.
    Lost,
}

/// Opens the next sub-buffer, if `len` bytes do not fit any more and nothing else is to be done.
#[inline(always)]
pub(super) fn turn<R: CpuRing>(ring: R, len: u32) -> Turned {
    let pos = ring.pos();
    let end = Geometry::<R>::end(pos);
    let limit = ring.load(Word::Limit);
    // Before the first sub-buffer both are 0, which means that tracing is off.
    if limit != end
        || limit == 0
        || pos + u64::from(len) <= end
        || ring.load(Word::Halves) != 0
        || snapshot::is_pending(ring)
    {
        return Turned::No;
    }
    let now = ring.now();
    let next = Geometry::<R>::seq(end);
    if let Some(counter) = refusal(ring, next, next) {
        return match refused(ring, pos, counter) {
            true => Turned::Lost,
            false => Turned::No,
        };
    }
    let Some(first) = begin(ring, pos, now, 0, next) else {
        return Turned::No;
    };
    raise(ring, end, Geometry::<R>::end(first.get()));
    Turned::Yes
}

/// Counts an event that is lost, unless somebody has reserved since `pos`: the finding holds only if it was that slot's turn
/// all the while.
#[inline(always)]
fn refused<R: CpuRing>(ring: R, pos: u64, counter: Word) -> bool {
    let holds = ring.pos() == pos;
    if holds {
        ring.add(counter, 1);
    }
    holds
}

/// Reserves `len` bytes; returns their position and the time stamp, or `None` if the event is not recorded.
///
/// Starts again, with a new time stamp, whenever somebody else has reserved meanwhile. Each turn is lost only to a
/// writer that got on, so there is no livelock.
#[inline(never)]
pub(super) fn reserve<R: CpuRing>(ring: R, len: u32) -> Option<(NonZeroU64, u64)> {
    let mut turn = Turn::GO_ON;
    loop {
        ring.round();
        let limit = ring.load(Word::Limit);
        if limit == 0 {
            break; // tracing is off
        }
        let pos = ring.pos();
        let end = Geometry::<R>::end(pos);
        // Tracing was turned on, or somebody says that who runs may have changed without a record of it: the reader is
        // told who runs. A new header tells it anyway.
        let tells = limit == ARMED && pos != end;
        if !tells {
            // Perhaps stale.
            raise_limit(ring, limit, end);
        }
        if snapshot::is_pending(ring) || turn.is_snapshot() {
            turn = claim(ring, pos, turn);
        }
        let now = ring.now();
        let needs_clock = ring.load(Word::TsHi) as u32 != (now >> 32) as u32 || tells;
        let clock = if needs_clock { CLOCK_LEN } else { 0 };
        if pos + u64::from(clock + len) > end || turn.is_snapshot() {
            let opened = open(ring, pos, now, len, turn);
            if let Some(at) = opened.here() {
                return Some((at, now));
            }
            if opened == Opened::REFUSED {
                break;
            }
        } else if needs_clock {
            if ring.cas(Word::Pos, pos, pos + u64::from(CLOCK_LEN)) {
                let current = CLOCK_CURRENT | ring.ctx() & CURRENT;
                put_half(ring, pos, now, if tells { current } else { 0 });
                ring.store(Word::TsHi, noted(now >> 32));
                if tells {
                    // Only now: whoever came in between has told it too.
                    raise_limit(ring, ring.load(Word::Limit), end);
                }
            }
        } else if ring.cas(Word::Pos, pos, pos + u64::from(len)) {
            return NonZeroU64::new(pos).map(|pos| (pos, now));
        }
    }
    if turn.is_snapshot() {
        give_back(ring, turn);
    }
    None
}

/// Where the next sub-buffer lies: behind the present one, or in the other half, since a snapshot is to be taken, by whom
/// has this. Then it is the claim: the lower half of how many were asked for, and above it that of the sub-buffer that was open, counted
/// from 1.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Turn(u64);

impl Turn {
    /// Behind the present one.
    pub(super) const GO_ON: Self = Self(0);

    /// In the other half.
    pub(super) const fn is_snapshot(self) -> bool {
        self.0 != 0
    }

    fn claim(wanted: u64, now_open: u64) -> Self {
        Self(wanted & u64::from(u32::MAX) | now_open.max(1) << 32)
    }

    /// The sub-buffer that was open, as far as it tells the halves apart.
    fn opened(self) -> u64 {
        self.0 >> 32
    }

    /// Whether the claim stands: nobody has claimed since, or forgotten what was asked for.
    fn stands(self, taken: u64) -> bool {
        self.0 as u32 == taken as u32
    }
}

/// It was not possible to take the snapshot: somebody else shall, unless somebody has meanwhile, or it is not wanted any more.
#[cold]
#[inline(never)]
fn give_back<R: CpuRing>(ring: R, turn: Turn) {
    let taken = ring.load(Word::Taken);
    if turn.stands(taken) {
        ring.cas(Word::Taken, taken, taken.wrapping_sub(1));
    }
}

/// Takes a snapshot that was asked for upon oneself.
#[cold]
#[inline(never)]
fn claim<R: CpuRing>(ring: R, pos: u64, turn: Turn) -> Turn {
    let now_open = Geometry::<R>::opened(pos);
    // In this order: if someone takes it in between, the exchange fails.
    let taken = ring.load(Word::Taken);
    if turn.is_snapshot() && turn.stands(taken) {
        let halves = Halves::new(ring.load(Word::Halves), R::NR_SUBS);
        let before = turn.opened().wrapping_sub(1);
        if halves.is_none_or(|halves| halves.are_together(before, now_open.saturating_sub(1))) {
            return turn;
        }
        // Someone who was asked later has taken it.
    }
    let wanted = ring.load(Word::Wanted);
    if wanted != taken && ring.cas(Word::Taken, taken, wanted) {
        return Turn::claim(wanted, now_open);
    }
    Turn::GO_ON
}

/// Moves the limit to the end of the sub-buffer that is open, if it is on and was not there.
#[inline(never)]
fn raise_limit<R: CpuRing>(ring: R, limit: u64, end: u64) {
    if limit != 0 && limit < end {
        raise(ring, limit, end);
    }
}

/// Moves the limit on from where it was. If the exchange fails, somebody has repaired it, or turned tracing off: both shall
/// stand.
#[inline(always)]
fn raise<R: CpuRing>(ring: R, limit: u64, end: u64) {
    if !ring.cas(Word::Limit, limit, end) {
        return;
    }
    if snapshot::is_pending(ring) {
        // Who asked has set the limit to this, and perhaps it was that which was exchanged.
        ring.cas(Word::Limit, end, ARMED);
    }
}

/// The running thread in a record's word.
const CURRENT: u32 = 0xff00_0000;

/// Writes the `clock` record that was reserved at `pos`, with `current` in its word: who runs, and that it says so, or 0. It
/// is no event: its bytes are committed,
/// but no record.
#[inline(never)]
pub(super) fn put_half<R: CpuRing>(ring: R, pos: u64, now: u64, current: u32) {
    let at = Geometry::<R>::offset(pos);
    ring.store32::<0>(at, now as u32);
    ring.store32::<4>(at, CLOCK_ID | current);
    ring.store32::<8>(at, (now >> 32) as u32);
    ring.add64::<SUB_COMMIT>(Geometry::<R>::sub_offset(pos), u64::from(CLOCK_LEN));
}

/// What came of opening a sub-buffer: the position at which the bytes asked for begin, or why there is none.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Opened(u64);

impl Opened {
    /// Somebody else has reserved meanwhile.
    pub(super) const RACED: Self = Self(0);
    /// The slot is not free.
    pub(super) const REFUSED: Self = Self(1);

    /// Where it is open.
    pub(super) fn here(self) -> Option<NonZeroU64> {
        NonZeroU64::new(self.0).filter(|at| at.get() > 1)
    }
}

/// Opens the next sub-buffer and reserves `len` bytes in it, in one exchange together with what was left of the
/// sub-buffer in which `pos` lies, and with those that are passed over. If the slot is not free, the event of `len` bytes is
/// lost and counted.
#[inline(never)]
pub(super) fn open<R: CpuRing>(ring: R, pos: u64, now: u64, len: u32, turn: Turn) -> Opened {
    let next = Geometry::<R>::opened(pos);
    let mut seq = next;
    if ring.load(Word::Halves) != 0 || turn.is_snapshot() {
        seq = snapshot::place(ring, seq, turn);
    }
    if let Some(counter) = refusal(ring, next, seq) {
        // Who asks for no bytes loses no event.
        let holds = match len {
            0 => ring.pos() == pos,
            _ => refused(ring, pos, counter),
        };
        return if holds {
            Opened::REFUSED
        } else {
            Opened::RACED
        };
    }
    let Some(first) = begin(ring, pos, now, len, seq) else {
        return Opened::RACED;
    };
    if seq != next {
        snapshot::pass_over(ring, next, seq);
    }
    if turn.is_snapshot() {
        snapshot::taken(ring, seq);
    }
    raise_limit(
        ring,
        ring.load(Word::Limit),
        Geometry::<R>::end(first.get()),
    );
    Opened(first.get())
}

/// What counts the event that is lost if sub-buffer `seq` cannot be opened, with those from `next` on passed over.
#[inline(always)]
fn refusal<R: CpuRing>(ring: R, next: u64, seq: u64) -> Option<Word> {
    let is_kept = ring.load(Word::Mode) == Mode::StopWhenFull as u64;
    if is_kept && seq >= ring.load(Word::Consumed) + capacity(ring) {
        Some(Word::Dropped)
    } else if !snapshot::are_free(ring, next, seq) {
        Some(Word::CommitOverrun)
    } else {
        None
    }
}

/// Reserves the rest of the sub-buffer in which `pos` lies, all up to sub-buffer `seq`, its header and `len` bytes behind it;
/// writes the header. Gives the position of the `len` bytes, or `None` if somebody else has reserved meanwhile.
#[inline(always)]
fn begin<R: CpuRing>(ring: R, pos: u64, now: u64, len: u32, seq: u64) -> Option<NonZeroU64> {
    let start = Geometry::<R>::start(seq);
    let slot = Geometry::<R>::offset(start);
    let commit = ring.load64(slot + SUB_COMMIT);
    let lost = ring.load(Word::Dropped) + ring.load(Word::CommitOverrun);
    let first = start + u64::from(SUB_HEADER);
    // Between the load of `pos` and its exchange: who records something after this makes the exchange fail.
    ring.opening();
    if !ring.cas(Word::Pos, pos, first + u64::from(len)) {
        return None;
    }
    // From here on all that was reserved is ours. `commit` is still the slot's: nobody was inside, and nobody could reserve
    // there before us.
    pad(ring, pos);
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
    NonZeroU64::new(first)
}

/// Ends the sub-buffer: fills it from the reserved position `pos` to its end, and commits that.
#[inline(always)]
pub(super) fn pad<R: CpuRing>(ring: R, pos: u64) {
    let left = Geometry::<R>::left(pos);
    if left >= 8 {
        ring.store64::<0>(Geometry::<R>::offset(pos), 0);
    }
    if left != 0 {
        ring.add64::<SUB_COMMIT>(Geometry::<R>::sub_offset(pos), left);
    }
}
