//! The control words of a ring, and what is done with them outside of writing.

use core::mem::offset_of;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::{CpuRing, Geometry};
use crate::wire::{COMMIT_RECORD, SUB_COMMIT, SUB_HEADER, counted};

/// The value of [`Word::Limit`] right after `tracing_on`: nothing fits, so the first writer takes the slow path, and tells
/// who runs.
pub const ARMED: u64 = 1;

/// The control words of one CPU's ring, for the kernel to embed in its per-CPU block.
///
/// All zero is the right start: tracing off, mode [`Mode::Overwrite`], nothing written. The fields are atomics so that
/// a `static` may hold them while single instructions of the kernel change them; offsets come from `offset_of!` or
/// [`Word::offset`].
#[repr(C, align(64))]
#[derive(Debug, Default)]
pub struct RingControl {
    /// How far was reserved: a [`position`](super::position). Never comes back to a value that it had.
    pub pos: AtomicU64,
    /// End of the current sub-buffer, in the measure of `pos`; 0 while tracing is off, [`ARMED`] when just on.
    pub limit: AtomicU64,
    /// The upper half of the TSC that the buffer knows, [`noted`](super::noted) twice.
    pub ts_hi: AtomicU64,
    /// [`Mode`] as a number.
    pub mode: AtomicU64,
    /// Sequence number of the next sub-buffer that the consumer takes.
    pub consumed: AtomicU64,
    /// Events that the consumer took.
    pub read: AtomicU64,
    /// Events lost because the ring was full ([`Mode::StopWhenFull`]).
    pub dropped: AtomicU64,
    /// Events lost because a writer was still inside the sub-buffer to be reused.
    pub commit_overrun: AtomicU64,
    /// The `lost` figure of the newest sub-buffer header.
    pub reported: AtomicU64,
    /// Sub-buffers that are used; 0 means all of them.
    pub capacity: AtomicU64,
    /// Where the two halves begin, as [`snapshot`](super::snapshot) has it; 0 while the ring is one.
    pub halves: AtomicU64,
    /// Snapshots that were asked for.
    pub wanted: AtomicU64,
    /// Snapshots that were taken.
    pub taken: AtomicU64,
    /// The sub-buffer with which what counts as recorded begins: since the last snapshot, or since it was cleared.
    pub live_start: AtomicU64,
    /// The one with which the snapshot begins.
    pub snapshot_start: AtomicU64,
    /// Bytes that were passed over.
    pub skipped: AtomicU64,
}

impl RingControl {
    /// Has the next writer tell who runs, since that may have changed without a record of it: some layouts leave it out,
    /// and a reader takes whoever ran at the record before. Nothing happens while tracing is off.
    ///
    /// # Context
    /// IRQ-safe, NMI-safe, from any CPU.
    pub fn arm(&self) {
        let mut limit = self.limit.load(Relaxed);
        while limit > ARMED {
            match self.limit.compare_exchange(limit, ARMED, Relaxed, Relaxed) {
                Ok(_) => return,
                Err(found) => limit = found,
            }
        }
    }

    /// The control words of a ring that was never used.
    pub const fn new() -> Self {
        Self {
            pos: AtomicU64::new(0),
            limit: AtomicU64::new(0),
            ts_hi: AtomicU64::new(0),
            mode: AtomicU64::new(0),
            consumed: AtomicU64::new(0),
            read: AtomicU64::new(0),
            dropped: AtomicU64::new(0),
            commit_overrun: AtomicU64::new(0),
            reported: AtomicU64::new(0),
            capacity: AtomicU64::new(0),
            halves: AtomicU64::new(0),
            wanted: AtomicU64::new(0),
            taken: AtomicU64::new(0),
            live_start: AtomicU64::new(0),
            snapshot_start: AtomicU64::new(0),
            skipped: AtomicU64::new(0),
        }
    }

    /// The control word of that name.
    pub const fn word(&self, word: Word) -> &AtomicU64 {
        match word {
            Word::Pos => &self.pos,
            Word::Limit => &self.limit,
            Word::TsHi => &self.ts_hi,
            Word::Mode => &self.mode,
            Word::Consumed => &self.consumed,
            Word::Read => &self.read,
            Word::Dropped => &self.dropped,
            Word::CommitOverrun => &self.commit_overrun,
            Word::Reported => &self.reported,
            Word::Capacity => &self.capacity,
            Word::Halves => &self.halves,
            Word::Wanted => &self.wanted,
            Word::Taken => &self.taken,
            Word::LiveStart => &self.live_start,
            Word::SnapshotStart => &self.snapshot_start,
            Word::Skipped => &self.skipped,
        }
    }
}

/// The name of a control word. The number is its offset in [`RingControl`], in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Word {
    /// [`RingControl::pos`]
    Pos = offset_of!(RingControl, pos) as u32,
    /// [`RingControl::limit`]
    Limit = offset_of!(RingControl, limit) as u32,
    /// [`RingControl::ts_hi`]
    TsHi = offset_of!(RingControl, ts_hi) as u32,
    /// [`RingControl::mode`]
    Mode = offset_of!(RingControl, mode) as u32,
    /// [`RingControl::consumed`]
    Consumed = offset_of!(RingControl, consumed) as u32,
    /// [`RingControl::read`]
    Read = offset_of!(RingControl, read) as u32,
    /// [`RingControl::dropped`]
    Dropped = offset_of!(RingControl, dropped) as u32,
    /// [`RingControl::commit_overrun`]
    CommitOverrun = offset_of!(RingControl, commit_overrun) as u32,
    /// [`RingControl::reported`]
    Reported = offset_of!(RingControl, reported) as u32,
    /// [`RingControl::capacity`]
    Capacity = offset_of!(RingControl, capacity) as u32,
    /// [`RingControl::halves`]
    Halves = offset_of!(RingControl, halves) as u32,
    /// [`RingControl::wanted`]
    Wanted = offset_of!(RingControl, wanted) as u32,
    /// [`RingControl::taken`]
    Taken = offset_of!(RingControl, taken) as u32,
    /// [`RingControl::live_start`]
    LiveStart = offset_of!(RingControl, live_start) as u32,
    /// [`RingControl::snapshot_start`]
    SnapshotStart = offset_of!(RingControl, snapshot_start) as u32,
    /// [`RingControl::skipped`]
    Skipped = offset_of!(RingControl, skipped) as u32,
}

impl Word {
    /// The offset of the word in [`RingControl`], in bytes: what the kernel adds to its `gs`-relative base.
    #[inline(always)]
    pub const fn offset(self) -> u32 {
        self as u32
    }
}

/// What happens when the ring is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub enum Mode {
    /// Flight recorder: the oldest sub-buffer is overwritten.
    Overwrite = 0,
    /// Complete capture: new events are dropped until the consumer has taken a sub-buffer.
    StopWhenFull = 1,
}

/// Chooses the mode.
///
/// # Context
/// Only while tracing is off, on the ring's CPU.
pub fn set_mode<R: CpuRing>(ring: R, mode: Mode) {
    ring.store(Word::Mode, mode as u64);
}

/// Has only `nr_subs` of the sub-buffers used, or all of them if there are not so many. In mode
/// [`Mode::StopWhenFull`] so many are filled; in mode [`Mode::Overwrite`] the others are written as well, but count as
/// overwritten.
///
/// # Context
/// Any.
pub fn set_capacity<R: CpuRing>(ring: R, nr_subs: u32) {
    ring.store(Word::Capacity, u64::from(nr_subs.min(R::NR_SUBS)));
}

/// How many sub-buffers are used.
///
/// # Context
/// Any.
pub fn capacity<R: CpuRing>(ring: R) -> u64 {
    match ring.load(Word::Capacity) {
        0 => u64::from(R::NR_SUBS),
        nr_subs => nr_subs,
    }
}

/// Turns recording on; nothing happens if it is on.
///
/// # Context
/// IRQ-safe, NMI-safe. From another CPU only if the ring's [`cas`](CpuRing::cas) on [`Word::Limit`] is locked.
pub fn tracing_on<R: CpuRing>(ring: R) {
    ring.cas(Word::Limit, 0, ARMED);
}

/// Turns recording off. A write that has passed its check of the limit may still land.
///
/// # Context
/// As [`tracing_on`].
pub fn tracing_off<R: CpuRing>(ring: R) {
    ring.store(Word::Limit, 0);
}

/// Whether recording is on.
///
/// # Context
/// Any.
pub fn is_on<R: CpuRing>(ring: R) -> bool {
    ring.load(Word::Limit) != 0
}

/// The counters of a ring.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Events written since the beginning.
    pub entries: u64,
    /// Bytes written since the beginning, headers and padding included.
    pub bytes: u64,
    /// Events that stand in the ring and were not taken by the consumer.
    pub in_buffer: u64,
    /// Events that the consumer took.
    pub read: u64,
    /// Events overwritten before anybody took them.
    pub overrun: u64,
    /// Events lost because the ring was full.
    pub dropped: u64,
    /// Events lost because a writer was still inside the sub-buffer to be reused.
    pub commit_overrun: u64,
}

/// Adds the counters up from the commit counters: `entries = in_buffer + read + overrun`, exactly when no writer is
/// inside a write, else off by the records that are under way.
///
/// # Context
/// Any, on the ring's CPU; takes time in proportion to the number of sub-buffers, so not for a measured path.
pub fn counters<R: CpuRing>(ring: R) -> Counters {
    let nr_subs = u64::from(R::NR_SUBS);
    let opened = Geometry::<R>::opened(ring.pos());
    let consumed = ring.load(Word::Consumed);
    let oldest = if ring.load(Word::Mode) == Mode::Overwrite as u64 {
        consumed
            .max(opened.saturating_sub(capacity(ring)))
            .max(ring.load(Word::LiveStart))
    } else {
        consumed
    };
    let mut sum = Counters {
        read: ring.load(Word::Read),
        dropped: ring.load(Word::Dropped),
        commit_overrun: ring.load(Word::CommitOverrun),
        ..Counters::default()
    };
    for seq in opened.saturating_sub(nr_subs)..opened {
        let at = Geometry::<R>::offset(Geometry::<R>::start(seq));
        let commit = ring.load64(at + SUB_COMMIT);
        let before = (seq / nr_subs) * Geometry::<R>::SUB;
        let (bytes, entries) = counted(commit, before);
        sum.bytes += bytes;
        sum.entries += entries;
        // Else it was passed over, and what stands there is older.
        let is_there = ring.load64(at) == seq;
        if seq >= oldest && is_there {
            let base = ring.load64(at + SUB_HEADER - 8);
            sum.in_buffer += commit.wrapping_sub(base) / COMMIT_RECORD;
        }
    }
    sum.bytes = sum.bytes.saturating_sub(ring.load(Word::Skipped));
    sum.overrun = sum.entries.saturating_sub(sum.in_buffer + sum.read);
    sum
}
