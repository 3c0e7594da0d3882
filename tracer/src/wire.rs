//! The trace wire format, version 2: the constants, the headers and the checksum, for target and host alike.
//!
//! Everything is little endian. Nothing here allocates, blocks or touches a ring: every function is a pure
//! function of its arguments and may be called in any context, NMI included.

mod frame;
pub mod line;
mod record;
mod sub;
mod sum;

pub use frame::{
    CHANNEL_LOG, CHANNEL_TRACE, FILE_MAGIC_LOG, FILE_MAGIC_TRACE, FRAME_MAGIC, FileHeader,
    FrameHeader,
};
pub use record::{
    Event, MAX_BYTES, MAX_RECORD, NEAR_BITS, NEAR_FAR, NEAR_FIRST, NEAR_IDS, event_of,
};
pub use sub::{COMMIT_BYTES, COMMIT_RECORD, SUB_COMMIT, SUB_HEADER, SubHeader, commit_of, counted};
pub use sum::{Sum, checksum};

/// The version of everything in this module. A change of any layout raises it.
pub const VERSION: u16 = 2;

/// Whether a reader of today understands that version. Version 1 is this one without near events.
pub const fn is_readable(version: u32) -> bool {
    1 <= version && version <= VERSION as u32
}

/// The event id of the built-in `clock` record, by which a sub-buffer follows the upper half of the TSC.
///
/// It is the first symbol of section `.takt.id.core`, which the linker script guarantees.
pub const CLOCK_ID: u32 = 2;

/// Bytes of a `clock` record: time stamp, word, and the new upper half of the TSC.
pub const CLOCK_LEN: u32 = 12;
/// In a `clock` record's word: bits 24..=31 have the running thread, as they do in a record with context.
pub const CLOCK_CURRENT: u32 = 1 << 8;

/// The vectors of the kernel's own interrupts and what their handlers are called. Others are named by records.
pub const KERNEL_IRQS: [(u8, &str); 4] = [
    (80, "local_timer"),
    (81, "reschedule"),
    // These two are not recorded, but whoever counts instructions sees them.
    (82, "early_timer"),
    (255, "spurious"),
];

/// Preempt-count byte, bits 0..=3: depth of `preempt_disable`.
pub const CTX_DEPTH: u8 = 0x0f;
/// Preempt-count byte, bit 4: in a hardirq.
pub const CTX_HARDIRQ: u8 = 1 << 4;
/// Preempt-count byte, bit 5: in an NMI.
pub const CTX_NMI: u8 = 1 << 5;
/// Preempt-count byte as recorded, bit 6: interrupts were enabled (`RFLAGS.IF`).
pub const CTX_IRQS_ON: u8 = 1 << 6;
/// Preempt-count byte, bit 7: **no** reschedule is due (need_resched, inverted).
pub const CTX_NO_RESCHED: u8 = 1 << 7;

/// Reads a little-endian `u32` at `at`, or `None` beyond the end.
#[inline]
pub fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    let raw = bytes.get(at..at.checked_add(4)?)?;
    Some(u32::from_le_bytes(raw.try_into().ok()?))
}

/// Reads a little-endian `u64` at `at`, or `None` beyond the end.
#[inline]
pub fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    let raw = bytes.get(at..at.checked_add(8)?)?;
    Some(u64::from_le_bytes(raw.try_into().ok()?))
}
