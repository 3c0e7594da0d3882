//! The fast paths.
//!
//! Each is inlined into the one out-of-line function that the kernel keeps for a record size. Whatever does not go
//! straight through is left to [`slow::record`] as a tail call with the same arguments, so that the fast path needs
//! neither a stack frame nor a saved register.

use super::slow::{self, Turned};
use super::{CpuRing, Geometry, Word};
use crate::wire::{MAX_BYTES, MAX_RECORD, NEAR_FAR, SUB_COMMIT, commit_of};

/// The fast path; `slow` is called in its stead where it does not go straight through.
#[inline(always)]
fn record<R: CpuRing, const LEN: u32>(
    ring: R,
    word: u32,
    first: u64,
    second: u64,
    slow: impl FnOnce(),
) {
    loop {
        let pos = ring.pos();
        let now = ring.now();
        let new = pos + u64::from(LEN);
        if ring.is_noted_half((now >> 32) as u32) && ring.has_room(new) && ring.cas_pos(pos, new) {
            let at = Geometry::<R>::offset(pos);
            write(ring, at, now as u32, LEN, word, first, second);
            return ring.commit::<LEN>(Geometry::<R>::sub_offset(pos));
        }
        match turn_apart(ring, LEN) {
            Turned::Yes => {}
            Turned::No => return slow(),
            Turned::Lost => return,
        }
    }
}

/// Opens the next sub-buffer for who found no room for `len` bytes, if nothing else stands in the way. It is not the slow
/// path, which serves all and takes twice as long.
///
/// # Context
/// Thread, IRQ, NMI of the ring's CPU.
#[inline(always)]
pub fn turn<R: CpuRing>(ring: R, len: u32) -> Turned {
    slow::turn(ring, len)
}

#[cold]
#[inline(never)]
fn turn_apart<R: CpuRing>(ring: R, len: u32) -> Turned {
    turn(ring, len)
}

/// Writes the record of `len` bytes that was reserved at offset `at` of the ring.
#[inline(always)]
fn write<R: CpuRing>(ring: R, at: u32, ts: u32, len: u32, word: u32, first: u64, second: u64) {
    ring.store32::<0>(at, ts);
    ring.store32::<4>(at, word);
    match len {
        8 => {}
        12 => ring.store32::<8>(at, first as u32),
        16 => ring.store64::<8>(at, first),
        20 => {
            ring.store64::<8>(at, first);
            ring.store32::<16>(at, second as u32);
        }
        _ => {
            ring.store64::<8>(at, first);
            ring.store64::<16>(at, second);
        }
    }
}

macro_rules! record_fn {
    ($($(#[$doc:meta])* $plain:ident $with_ctx:ident $len:literal ($($arg:ident: $ty:ty),*) $first:expr, $second:expr;)*) => {$(
        $(#[$doc])*
        ///
        /// Without context in the word: for classes of layout `core24`.
        ///
        /// # Context
        /// Thread, IRQ, NMI of the ring's CPU.
        #[inline(always)]
        pub fn $plain<R: CpuRing>(ring: R, word: u32 $(, $arg: $ty)*) {
            // Takes the arguments as they are, so that the fast path need not widen them.
            #[cold]
            #[inline(never)]
            fn slow<R: CpuRing>(ring: R, word: u32 $(, $arg: $ty)*) {
                slow::record(ring, word, $first, $second, $len);
            }
            record::<R, $len>(ring, word, $first, $second, || slow(ring, word $(, $arg)*));
        }

        $(#[$doc])*
        ///
        /// Adds the context to the word.
        ///
        /// # Context
        /// Thread, IRQ, NMI of the ring's CPU.
        #[inline(always)]
        pub fn $with_ctx<R: CpuRing>(ring: R, word: u32 $(, $arg: $ty)*) {
            $plain(ring, ring.with_ctx(word) $(, $arg)*);
        }
    )*};
}

record_fn! {
    /// Records 8 bytes: time stamp and word.
    record8 record8_ctx 8 () 0, 0;
    /// Records 12 bytes: time stamp, word and one extra word.
    record12 record12_ctx 12 (a: u32) u64::from(a), 0;
    /// Records 16 bytes: time stamp, word and two extra words, the first in the low half of `ab`.
    record16 record16_ctx 16 (ab: u64) ab, 0;
    /// Records 20 bytes: time stamp, word and three extra words, the first in the low half of `ab`.
    record20 record20_ctx 20 (ab: u64, c: u32) ab, u64::from(c);
    /// Records 24 bytes: time stamp, word and four extra words, the first in the low half of `ab`.
    record24 record24_ctx 24 (ab: u64, cd: u64) ab, cd;
}

/// Records a near event: 12 bytes with the lower half of `time` where its upper half is that of the record's own time, else
/// 16 bytes with all of it, as on the slow path. Bits 1..=12 of `word` but for the fields are zero.
///
/// # Context
/// Thread, IRQ, NMI of the ring's CPU.
#[inline(always)]
pub fn record_near<R: CpuRing>(ring: R, word: u32, time: u64) {
    let pos = ring.pos();
    let now = ring.now();
    if !ring.is_noted_half((now >> 32) as u32) {
        return slow::record(ring, word | NEAR_FAR, time, 0, 16);
    }
    let is_far = (time ^ now) >> 32 != 0;
    let (len, word_there) = match is_far {
        true => (16, word | NEAR_FAR),
        false => (12, word),
    };
    let new = pos + u64::from(len);
    if !(ring.has_room(new) && ring.cas_pos(pos, new)) {
        return slow::record(ring, word | NEAR_FAR, time, 0, 16);
    }
    let at = Geometry::<R>::offset(pos);
    write(ring, at, now as u32, len, word_there, time, 0);
    match is_far {
        true => ring.commit::<16>(Geometry::<R>::sub_offset(pos)),
        false => ring.commit::<12>(Geometry::<R>::sub_offset(pos)),
    }
}

/// As [`record_near`], with the context added to the word.
///
/// # Context
/// Thread, IRQ, NMI of the ring's CPU.
#[inline(always)]
pub fn record_near_ctx<R: CpuRing>(ring: R, word: u32, time: u64) {
    record_near(ring, ring.with_ctx(word), time);
}

/// Records extra words, and a dynamic field if there is one, without context in the word.
///
/// Not a hot path. At most 8 extra words are taken, and of `bytes` what fits ([`MAX_BYTES`], and never more than a
/// sub-buffer).
///
/// # Context
/// Thread, IRQ, NMI of the ring's CPU.
#[inline]
pub fn record_bytes<R: CpuRing>(ring: R, word: u32, extra: &[u32], bytes: Option<&[u8]>) {
    let extra = extra.get(..8).unwrap_or(extra);
    let head = 8 + 4 * extra.len() as u32;
    // What fits into a ring for tests is less.
    let room = Geometry::<R>::MAX_LEN.saturating_sub(head + 4) & !3;
    // One byte too many says that there were more.
    let room = (room as usize).min(MAX_BYTES + 1);
    let bytes = bytes.map(|bytes| bytes.get(..room).unwrap_or(bytes));
    let len = head + bytes.map_or(0, |bytes| 4 + ((bytes.len() as u32 + 3) & !3));
    if Geometry::<R>::MAX_LEN < MAX_RECORD as u32 && len > Geometry::<R>::MAX_LEN {
        ring.add(Word::Dropped, 1); // nor does all
        return;
    }
    let Some((pos, ts)) = slow::reserve(ring, len) else {
        return;
    };
    let mut at = Geometry::<R>::offset(pos.get());
    ring.store32::<0>(at, ts as u32);
    ring.store32::<4>(at, word);
    for word in extra {
        ring.store32::<8>(at, *word);
        at += 4;
    }
    if let Some(bytes) = bytes {
        ring.store32::<8>(at, bytes.len() as u32);
        ring.store_text(at + 12, bytes);
    }
    let sub = Geometry::<R>::sub_offset(pos.get());
    ring.add64::<SUB_COMMIT>(sub, u64::from(commit_of(len)));
}

/// As [`record_bytes`], with the context added to the word.
///
/// # Context
/// Thread, IRQ, NMI of the ring's CPU.
#[inline]
pub fn record_bytes_ctx<R: CpuRing>(ring: R, word: u32, extra: &[u32], bytes: Option<&[u8]>) {
    record_bytes(ring, ring.with_ctx(word), extra, bytes);
}
