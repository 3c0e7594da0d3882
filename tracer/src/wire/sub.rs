//! The sub-buffer header and the commit counter in it.

use super::{VERSION, u32_at, u64_at};

/// Bytes of the header at the start of each sub-buffer.
pub const SUB_HEADER: u32 = 40;
/// Offset of the commit counter in the header.
pub const SUB_COMMIT: u32 = 24;
/// The part of the commit counter that counts bytes; a sub-buffer is smaller than this.
pub const COMMIT_BYTES: u64 = 0x00ff_ffff;
/// What a record adds to the commit counter besides its bytes.
///
/// Small enough that the sum of both is an immediate operand of a single `add`.
pub const COMMIT_RECORD: u64 = 1 << 24;

/// What a record of `len` bytes adds to the commit counter.
pub const fn commit_of(len: u32) -> u32 {
    COMMIT_RECORD as u32 + len
}

/// What a slot's commit counter stands for, bytes and records: `before` is what its sub-buffers before this one had room for.
#[inline]
pub const fn counted(commit: u64, before: u64) -> (u64, u64) {
    let bytes = before.wrapping_add(commit.wrapping_sub(before) & COMMIT_BYTES);
    (bytes, commit.wrapping_sub(bytes) / COMMIT_RECORD)
}

/// The header of a sub-buffer.
///
/// | offset | field |
/// |---|---|
/// | 0 | `u64 seq` |
/// | 8 | `u64 ts` |
/// | 16 | `u32 lost` |
/// | 20 | `u8 cpu`, `u8 current`, `u8 ctx`, `u8 version` |
/// | 24 | `u64 commit` |
/// | 32 | `u64 base` |
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct SubHeader {
    /// 0, 1, 2 … per CPU. Slot `seq % NR_SUBS` of the ring holds it.
    pub seq: u64,
    /// TSC when the sub-buffer was opened, in cycles.
    pub ts: u64,
    /// Events lost on this CPU since tracing began and before this sub-buffer was opened, modulo 2^32.
    ///
    /// Cumulative, so that a reader that misses sub-buffers still knows the number.
    pub lost: u32,
    /// The CPU.
    pub cpu: u8,
    /// The thread that was running when the sub-buffer was opened.
    pub current: u8,
    /// The preempt-count byte at that moment, as in a record.
    pub ctx: u8,
    /// Format version of the sub-buffer.
    pub version: u8,
    /// Bytes committed in this slot since tracing began, plus [`COMMIT_RECORD`] for each record.
    ///
    /// Never set, only added to: nested writers may commit before the header itself is written.
    pub commit: u64,
    /// `commit` when the sub-buffer was opened.
    pub base: u64,
}

impl SubHeader {
    /// Bytes committed in this sub-buffer so far, header and padding included.
    pub const fn committed(&self) -> u32 {
        (self.commit.wrapping_sub(self.base) & COMMIT_BYTES) as u32
    }

    /// Records committed in this sub-buffer so far (`clock` records are not counted).
    pub const fn records(&self) -> u64 {
        self.commit.wrapping_sub(self.base) >> COMMIT_RECORD.trailing_zeros()
    }

    /// The 8 bytes at offset 16: `lost` and the four single bytes.
    #[inline]
    pub const fn mark(&self) -> u64 {
        let mark = u32::from_le_bytes([self.cpu, self.current, self.ctx, self.version]);
        self.lost as u64 | (mark as u64) << 32
    }

    /// The header as bytes.
    pub fn encode(&self) -> [u8; SUB_HEADER as usize] {
        let mut out = [0; SUB_HEADER as usize];
        let words = [self.seq, self.ts, self.mark(), self.commit, self.base];
        for (place, word) in out.as_chunks_mut::<8>().0.iter_mut().zip(words) {
            *place = word.to_le_bytes();
        }
        out
    }

    /// Reads a header; `None` if `bytes` is too short. The version is not judged.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let [cpu, current, ctx, version] = u32_at(bytes, 20)?.to_le_bytes();
        Some(Self {
            seq: u64_at(bytes, 0)?,
            ts: u64_at(bytes, 8)?,
            lost: u32_at(bytes, 16)?,
            cpu,
            current,
            ctx,
            version,
            commit: u64_at(bytes, 24)?,
            base: u64_at(bytes, 32)?,
        })
    }

    /// The version byte of the current format.
    pub const VERSION: u8 = VERSION as u8;
}
