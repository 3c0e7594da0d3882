//! The fast paths of records that end in a text: no extra word before it, or one.

use super::{CpuRing, Geometry, record_bytes};
use crate::wire::{SUB_COMMIT, commit_of};

/// Longer texts take the general path.
const MAX_QUICK: usize = 64;

/// Records a text.
///
/// # Context
/// Thread, IRQ, NMI of the ring's CPU.
#[inline(always)]
pub fn record_text<R: CpuRing>(ring: R, word: u32, text: &[u8]) {
    #[cold]
    #[inline(never)]
    fn slow<R: CpuRing>(ring: R, word: u32, text: &[u8]) {
        record_bytes(ring, word, &[], Some(text));
    }
    if !quick::<R, 8>(ring, word, 0, text) {
        slow(ring, word, text);
    }
}

/// Records one extra word and a text.
///
/// # Context
/// Thread, IRQ, NMI of the ring's CPU.
#[inline(always)]
pub fn record_text1<R: CpuRing>(ring: R, word: u32, extra: u32, text: &[u8]) {
    #[cold]
    #[inline(never)]
    fn slow<R: CpuRing>(ring: R, word: u32, extra: u32, text: &[u8]) {
        record_bytes(ring, word, &[extra], Some(text));
    }
    if !quick::<R, 12>(ring, word, extra, text) {
        slow(ring, word, extra, text);
    }
}

/// As [`record_text`], with the context added to the word.
///
/// # Context
/// Thread, IRQ, NMI of the ring's CPU.
#[inline(always)]
pub fn record_text_ctx<R: CpuRing>(ring: R, word: u32, text: &[u8]) {
    record_text(ring, ring.with_ctx(word), text);
}

/// As [`record_text1`], with the context added to the word.
///
/// # Context
/// Thread, IRQ, NMI of the ring's CPU.
#[inline(always)]
pub fn record_text1_ctx<R: CpuRing>(ring: R, word: u32, extra: u32, text: &[u8]) {
    record_text1(ring, ring.with_ctx(word), extra, text);
}

/// Records it if it goes straight through; `HEAD` bytes stand before the length.
#[inline(always)]
fn quick<R: CpuRing, const HEAD: u32>(ring: R, word: u32, extra: u32, text: &[u8]) -> bool {
    if text.len() > MAX_QUICK {
        return false;
    }
    let len = HEAD + 4 + text.len().next_multiple_of(4) as u32;
    let pos = ring.pos();
    let now = ring.now();
    let new = pos + u64::from(len);
    if !(ring.is_noted_half((now >> 32) as u32) && ring.has_room(new) && ring.cas_pos(pos, new)) {
        return false;
    }
    let at = Geometry::<R>::offset(pos);
    ring.store32::<0>(at, now as u32);
    ring.store32::<4>(at, word);
    if HEAD == 12 {
        ring.store32::<8>(at, extra);
    }
    ring.store32::<0>(at + HEAD, text.len() as u32);
    copy(ring, at + HEAD + 4, text);
    ring.add64::<SUB_COMMIT>(Geometry::<R>::sub_offset(pos), u64::from(commit_of(len)));
    true
}

/// Copies a text to byte `at` of the ring and fills with zeros up to a multiple of 4.
#[inline(always)]
fn copy<R: CpuRing>(ring: R, mut at: u32, text: &[u8]) {
    let mut rest = text;
    while let Some((chunk, behind)) = rest.split_first_chunk::<8>() {
        ring.store64::<0>(at, u64::from_le_bytes(*chunk));
        at += 8;
        rest = behind;
    }
    if rest.is_empty() {
        return;
    }
    let last = match text.last_chunk::<8>() {
        // The end of the text, less what stands before the rest.
        Some(end) => u64::from_le_bytes(*end) >> (64 - 8 * rest.len()),
        None => rest
            .iter()
            .rev()
            .fold(0, |last, byte| last << 8 | u64::from(*byte)),
    };
    if rest.len() > 4 {
        ring.store64::<0>(at, last);
    } else {
        ring.store32::<0>(at, last as u32);
    }
}
