//! The fast paths of records that end in a text: no extra word before it, or one.

use super::{CpuRing, Geometry, record_bytes};
use crate::wire::{COMMIT_RECORD, SUB_COMMIT};

/// Longer texts take the general path.
const MAX_QUICK: usize = 16;

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
    let len = u64::from(HEAD) + 4 + ((text.len() as u64 + 3) & !3);
    let pos = ring.pos();
    let now = ring.now();
    let new = pos + len;
    if !(ring.is_noted_half((now >> 32) as u32) && ring.has_room(new) && ring.cas_pos(pos, new)) {
        return false;
    }
    let at = Geometry::<R>::offset(pos);
    ring.store32::<0>(at, now as u32);
    ring.store32::<4>(at, word);
    if HEAD == 8 {
        ring.store32::<8>(at, text.len() as u32);
        copy::<R, 12, 16, 20>(ring, at, text);
    } else {
        ring.store32::<8>(at, extra);
        ring.store32::<12>(at, text.len() as u32);
        copy::<R, 16, 20, 24>(ring, at, text);
    }
    ring.add64::<SUB_COMMIT>(Geometry::<R>::sub_offset(pos), COMMIT_RECORD + len);
    true
}

/// Copies a text of at most 16 bytes to byte `at + TO` of the ring and fills with zeros up to a multiple of 4. No loop,
/// and each place is a constant away from `at`: `TO4` and `TO8` are four and eight bytes further.
#[inline(always)]
fn copy<R: CpuRing, const TO: u32, const TO4: u32, const TO8: u32>(ring: R, at: u32, text: &[u8]) {
    let len = text.len();
    if let (Some(first), Some(last)) = (text.first_chunk::<8>(), text.last_chunk::<8>()) {
        ring.store64::<TO>(at, u64::from_le_bytes(*first));
        // What stands behind the first eight bytes; a shift by as many bits as the others have.
        let end = u64::from_le_bytes(*last).wrapping_shr(bits_short(len));
        if len > 12 {
            ring.store64::<TO8>(at, end);
        } else if len > 8 {
            ring.store32::<TO8>(at, end as u32);
        }
    } else if let (Some(first), Some(last)) = (text.first_chunk::<4>(), text.last_chunk::<4>()) {
        ring.store32::<TO>(at, u32::from_le_bytes(*first));
        if len > 4 {
            let end = u32::from_le_bytes(*last).wrapping_shr(bits_short(len));
            ring.store32::<TO4>(at, end);
        }
    } else if len != 0 {
        let word = text
            .iter()
            .rev()
            .fold(0, |word, byte| word << 8 | u32::from(*byte));
        ring.store32::<TO>(at, word);
    }
}

/// How many bits a text of `len` bytes is short of whole words, modulo the bits of a word.
#[inline(always)]
const fn bits_short(len: usize) -> u32 {
    (len as u32).wrapping_neg().wrapping_mul(8)
}
