//! The fast paths of records that end in a text: no extra word before it, or one.
//!
//! They are for texts of 4 to 16 bytes, which two moves copy; others take the general path.

use super::{CpuRing, Geometry, record_bytes};
use crate::wire::{COMMIT_RECORD, SUB_COMMIT};

macro_rules! text_fn {
    ($(#[$doc:meta])* $plain:ident $with_ctx:ident ($($arg:ident)?) $head:literal $($at:literal)*;) => {
        $(#[$doc])*
        ///
        /// Without context in the word: for classes of layout `core24`.
        ///
        /// # Context
        /// Thread, IRQ, NMI of the ring's CPU.
        #[inline(always)]
        pub fn $plain<R: CpuRing>(ring: R, text: &[u8], word: u32 $(, $arg: u32)?) {
            #[cold]
            #[inline(never)]
            fn slow<R: CpuRing>(ring: R, text: &[u8], word: u32 $(, $arg: u32)?) {
                record_bytes(ring, word, &[$($arg)?], Some(text));
            }
            if !quick::<R, $head $(, $at)*>(ring, text, word, [$($arg)?]) {
                slow(ring, text, word $(, $arg)?);
            }
        }

        /// As the one above, with the context added to the word.
        ///
        /// # Context
        /// Thread, IRQ, NMI of the ring's CPU.
        #[inline(always)]
        pub fn $with_ctx<R: CpuRing>(ring: R, text: &[u8], word: u32 $(, $arg: u32)?) {
            $plain(ring, text, ring.with_ctx(word) $(, $arg)?);
        }
    };
}

text_fn! {
    /// Records a text.
    record_text record_text_ctx () 8 12 8 4;
}
text_fn! {
    /// Records one extra word and a text.
    record_text1 record_text1_ctx (extra) 12 16 12 8;
}

/// Records it if it goes straight through. `HEAD` bytes stand before the length, the text at `TO`, which is `BACK4` + 4
/// and `BACK8` + 8.
///
/// The end of the text is stored over its beginning where the two meet. Up to the next multiple of 4, what was in the
/// ring stays there.
#[inline(always)]
fn quick<R: CpuRing, const HEAD: u32, const TO: u32, const BACK4: u32, const BACK8: u32>(
    ring: R,
    text: &[u8],
    word: u32,
    extra: impl AsRef<[u32]>,
) -> bool {
    if !(4..=16).contains(&text.len()) {
        return false;
    }
    let len = text.len() as u32;
    let pos = ring.pos();
    let now = ring.now();
    // What is added to the commit counter: the length of the record, and one record.
    let commit = (COMMIT_RECORD + u64::from(HEAD) + 4 + 3 + u64::from(len)) & !3;
    let new = ring.position_after::<{ COMMIT_RECORD as i32 }>(pos, commit);
    if !(ring.is_noted_half((now >> 32) as u32) && ring.has_room(new) && ring.cas_pos(pos, new)) {
        return false;
    }
    let at = Geometry::<R>::offset(pos);
    ring.store32::<0>(at, now as u32);
    ring.store32::<4>(at, word);
    if let [extra, ..] = extra.as_ref() {
        ring.store32::<8>(at, *extra);
        ring.store32::<12>(at, len);
    } else {
        ring.store32::<8>(at, len);
    }
    if let (Some(first), Some(last)) = (text.first_chunk(), text.last_chunk()) {
        ring.store64::<TO>(at, u64::from_le_bytes(*first));
        ring.store64_at::<BACK8>(at, len, u64::from_le_bytes(*last));
    } else if let (Some(first), Some(last)) = (text.first_chunk(), text.last_chunk()) {
        ring.store32::<TO>(at, u32::from_le_bytes(*first));
        ring.store32_at::<BACK4>(at, len, u32::from_le_bytes(*last));
    }
    ring.add64::<SUB_COMMIT>(Geometry::<R>::sub_offset(pos), commit);
    true
}
