//! The ring buffer: one per CPU, static, without locks, written by threads, interrupts and NMIs alike.
//!
//! # How it works
//! A ring is [`CpuRing::NR_SUBS`] sub-buffers of [`CpuRing::SUB_SIZE`] bytes. The word *pos* says where it is written and
//! never wraps: its low half is the offset in the ring, its upper half counts how often the ring was gone through
//! ([`position`]). So a writer has the place without computing anything, and whoever opens a sub-buffer its sequence
//! number. A writer
//!
//! 1. **reserves**: loads *pos*, reads the TSC, and moves *pos* on by a compare-and-exchange;
//! 2. **writes** its words at the old *pos*;
//! 3. **commits**: adds its length and one record to the commit counter in the sub-buffer's header.
//!
//! # Invariants
//! * *Time ascends in buffer order.* The TSC is read between loading *pos* and the exchange of *pos*. If anybody
//!   reserved in between, the exchange fails, because *pos* never returns to an old value.
//! * *`limit` is never beyond the end of the sub-buffer that `pos` is in.* Whoever stores it computed it from a
//!   *pos* that is not newer than the present one. Too low a value is harmless: it leads to the slow path, which
//!   repairs it.
//! * *A sub-buffer is complete when the bytes committed in it equal its size*, and only a complete one is reused.
//!   So a writer that was interrupted or preempted inside a write never finds its place taken.
//! * *`ts_hi` was put into the buffer before it was noted.* So a writer that finds its own upper half there may
//!   rely on the reader knowing it. A record has the low half, and no difference to the record before: writers that nest
//!   share nothing.
//!
//! # Context
//! Writers: thread, IRQ and NMI, nested in any order, and preemptible at every step; they disable nothing and wait
//! for nothing. All of them run on the ring's CPU. [`Consumer`](consumer) functions: one thread of the same CPU.
//! [`observer`]: anybody who can read the memory, another CPU or the host included.

pub mod consumer;
mod control;
pub mod observer;
pub mod position;
mod slow;
pub mod snapshot;
mod text;
mod writer;

pub use consumer::{
    Full, Overwritten, announce, close, consume, make_room, nr_full, peek_full, prepare,
};
pub use control::{
    ARMED, Counters, Mode, RingControl, Word, capacity, counters, is_on, set_capacity, set_mode,
    tracing_off, tracing_on,
};
pub use slow::Turned;
pub use text::{record_text, record_text_ctx, record_text1, record_text1_ctx};
pub use writer::{
    record_bytes, record_bytes_ctx, record_near, record_near_ctx, record8, record8_ctx, record12,
    record12_ctx, record16, record16_ctx, record20, record20_ctx, record24, record24_ctx, turn,
};

use crate::wire::{MAX_RECORD, SUB_COMMIT, SUB_HEADER, commit_of};

/// The primitive steps of a ring, each to be one instruction if possible.
///
/// The kernel implements it for a type without content and reaches its per-CPU block through `gs`; tests implement
/// it with an interrupt between every two steps. Every method must be atomic with respect to interrupts of its CPU,
/// which every single instruction is: a `lock` prefix is not needed, with the one exception of
/// [`cas`](Self::cas) on [`Word::Limit`] where another CPU turns tracing on or off.
///
/// Methods are steps in the order in which they are called: an implementation in `asm!` must not be `pure` or
/// `nomem`, so that the compiler keeps the order. The CPU's stores must become visible to others in that order,
/// which x86 does by itself (elsewhere: release stores, acquire loads).
pub trait CpuRing: Copy {
    /// Bytes of a sub-buffer: a power of two, at least 1024 (64 in tests) and below 16 MiB.
    const SUB_SIZE: u32;
    /// Number of sub-buffers: a power of two, at least 2.
    const NR_SUBS: u32;

    /// The time stamp counter, in cycles.
    fn now(self) -> u64;
    /// The context in bits 16..=31: preempt-count byte with bit 22 set if interrupts are enabled, and the running
    /// thread in bits 24..=31. The other bits are zero.
    fn ctx(self) -> u32;
    /// The number of this CPU.
    fn cpu(self) -> u8;

    /// Loads a control word.
    fn load(self, word: Word) -> u64;
    /// Stores a control word.
    fn store(self, word: Word, value: u64);
    /// Adds to a control word, in one instruction.
    fn add(self, word: Word, value: u64);
    /// Replaces `old` by `new` in a control word, in one instruction; returns whether it did.
    fn cas(self, word: Word, old: u64, new: u64) -> bool;

    /// Loads 8 bytes of the ring at byte `offset`, a multiple of 8.
    fn load64(self, offset: u32) -> u64;
    /// Stores 4 bytes into the ring at byte `offset + DISP`, a multiple of 4.
    fn store32<const DISP: u32>(self, offset: u32, value: u32);
    /// Stores 8 bytes into the ring at byte `offset + DISP`, a multiple of 4.
    fn store64<const DISP: u32>(self, offset: u32, value: u64);
    /// Adds to the 8 bytes at byte `offset + DISP` of the ring, a multiple of 8, in one instruction.
    fn add64<const DISP: u32>(self, offset: u32, value: u64);

    /// A loop of the slow path comes round: for who has to know which loops there are.
    #[inline(always)]
    fn round(self) {}

    /// The next sub-buffer is about to be claimed: whatever a writer assumes of the records before the claim must not be
    /// relied on after it, since a reader may begin there.
    #[inline(always)]
    fn opening(self) {}

    /// Stores 4 bytes into the ring at byte `base + index + DISP`, of any alignment, over bytes of a record's own words.
    /// Override with a single instruction.
    #[inline(always)]
    fn store32_at<const DISP: u32>(self, base: u32, index: u32, value: u32) {
        store_bytes(self, base + index + DISP, &value.to_le_bytes());
    }
    /// As [`store32_at`](Self::store32_at), 8 bytes.
    #[inline(always)]
    fn store64_at<const DISP: u32>(self, base: u32, index: u32, value: u64) {
        store_bytes(self, base + index + DISP, &value.to_le_bytes());
    }

    /// Stores bytes into the ring from byte `offset` on, a multiple of 4. Up to the next multiple of 4 the ring may be given
    /// anything.
    #[inline]
    fn store_text(self, offset: u32, bytes: &[u8]) {
        for (at, chunk) in (offset..).step_by(4).zip(bytes.chunks(4)) {
            let mut last = [0; 4];
            last[..chunk.len()].copy_from_slice(chunk);
            self.store32::<0>(at, u32::from_le_bytes(last));
        }
    }

    /// Hot path: `word` with the context added. Override with an `or` from memory where that is all there is to it.
    #[inline(always)]
    fn with_ctx(self, word: u32) -> u32 {
        word | self.ctx()
    }
    /// Hot path: loads [`Word::Pos`]. Override with a single instruction.
    #[inline(always)]
    fn pos(self) -> u64 {
        self.load(Word::Pos)
    }
    /// Hot path: `pos + sum - LESS`. Override with one `lea`, which compilers make two of.
    #[inline(always)]
    fn position_after<const LESS: i32>(self, pos: u64, sum: u64) -> u64 {
        pos + sum - LESS as u64
    }
    /// Hot path: [`cas`](Self::cas) on [`Word::Pos`]. Override with a `cmpxchg` that branches on the zero flag.
    #[inline(always)]
    fn cas_pos(self, old: u64, new: u64) -> bool {
        self.cas(Word::Pos, old, new)
    }
    /// Hot path: whether `new` is not above [`Word::Limit`]. Override with a `cmp` that branches.
    #[inline(always)]
    fn has_room(self, new: u64) -> bool {
        new <= self.load(Word::Limit)
    }
    /// Hot path: whether `half` is the noted upper half of the TSC ([`Word::TsHi`]). Override with a `cmp` that
    /// branches.
    #[inline(always)]
    fn is_noted_half(self, half: u32) -> bool {
        half == self.load(Word::TsHi) as u32
    }
    /// Hot path: commits one record of `LEN` bytes in the sub-buffer at byte `sub` of the ring. Override with an
    /// `add` of the immediate operand [`commit_of(LEN)`](crate::wire::commit_of) at displacement [`SUB_COMMIT`].
    #[inline(always)]
    fn commit<const LEN: u32>(self, sub: u32) {
        self.add64::<SUB_COMMIT>(sub, u64::from(commit_of(LEN)));
    }
}

/// An upper half of the TSC as [`Word::TsHi`] has it: in both halves of the word. So one comparison does for the time of a
/// record and for a time in it, and who has only the former compares half of the word.
#[must_use]
pub const fn noted(half: u64) -> u64 {
    half << 32 | half & u32::MAX as u64
}

/// What follows from a ring's geometry, checked when the ring is first used.
struct Geometry<R: CpuRing>(core::marker::PhantomData<R>);

impl<R: CpuRing> Geometry<R> {
    const SUB: u64 = {
        assert!(
            R::SUB_SIZE.is_power_of_two() && R::NR_SUBS.is_power_of_two(),
            "sizes are powers of two"
        );
        assert!(
            R::SUB_SIZE >= 64 && R::SUB_SIZE < 1 << 24,
            "a sub-buffer has 64 bytes to 8 MiB"
        );
        assert!(R::NR_SUBS >= 2, "a ring has at least two sub-buffers");
        assert!(
            (R::SUB_SIZE as u64) * (R::NR_SUBS as u64) <= 1 << 31,
            "a ring has at most 2 GiB"
        );
        R::SUB_SIZE as u64
    };
    /// Longest record that this ring takes; 24 bytes always fit.
    const MAX_LEN: u32 = {
        let room = Self::SUB as u32 - SUB_HEADER;
        if room < MAX_RECORD as u32 {
            room
        } else {
            MAX_RECORD as u32
        }
    };

    /// Bytes of the ring.
    const SIZE: u64 = Self::SUB * R::NR_SUBS as u64;

    /// The offset in the ring of position `pos`.
    #[inline(always)]
    const fn offset(pos: u64) -> u32 {
        (pos & (Self::SIZE - 1)) as u32
    }

    /// The offset in the ring of the sub-buffer in which position `pos` lies.
    #[inline(always)]
    const fn sub_offset(pos: u64) -> u32 {
        Self::offset(pos & !(Self::SUB - 1))
    }

    /// The first sub-buffer boundary that is not below `pos`. Where the ring ends it is its end, not its beginning.
    const fn end(pos: u64) -> u64 {
        (pos + Self::SUB - 1) & !(Self::SUB - 1)
    }

    /// How far it is from `pos` to that boundary.
    const fn left(pos: u64) -> u64 {
        pos.wrapping_neg() & (Self::SUB - 1)
    }

    /// The sequence number of the sub-buffer in which `pos` lies, or which begins there.
    const fn seq(pos: u64) -> u64 {
        position::bytes(pos, Self::SIZE) / Self::SUB
    }

    /// How many sub-buffers were opened before the one that is opened behind the one in which `pos` lies.
    #[inline(never)]
    fn opened(pos: u64) -> u64 {
        Self::seq(Self::end(pos))
    }

    /// The position at which sub-buffer `seq` begins.
    const fn start(seq: u64) -> u64 {
        position::after(seq * Self::SUB, Self::SIZE)
    }

    /// The byte part of the commit counter of `seq`'s slot when every sub-buffer before `seq` in it is complete.
    const fn complete_before(seq: u64) -> u64 {
        (seq / R::NR_SUBS as u64).wrapping_mul(Self::SUB) & crate::wire::COMMIT_BYTES
    }
}

/// Stores bytes at any place, a word at a time: for rings that are memory of whole words.
#[inline]
fn store_bytes<R: CpuRing>(ring: R, at: u32, bytes: &[u8]) {
    for (at, byte) in (at..).zip(bytes) {
        let word = at & !3;
        let old = ring.load64(word & !7) >> (8 * (word & 4));
        let shift = 8 * (at & 3);
        ring.store32::<0>(
            word,
            old as u32 & !(0xff << shift) | u32::from(*byte) << shift,
        );
    }
}
