//! Where packed events go.

use crate::wire::NEAR_FAR;

/// The out-of-line record functions that all events of a record size share.
///
/// The kernel implements it for a type without content with functions that are not inlined, each around the function
/// of the same size in [`ring`](crate::ring). So an event's place in the code is: load the word and the extra words
/// into registers, and call. `_ctx` functions add the context to the word (layouts `core8` and `wide`), the others
/// do not (`core24`). The word is the low half of what they get: so that it can be computed as an address is, which takes one
/// instruction. Two extra words travel in one `u64`, the first of them in its low half. Who has no functions for the sizes leaves
/// them to those for any number of words.
///
/// # Context
/// Whatever the implementation promises; with a ring behind it: thread, IRQ and NMI.
pub trait Sink {
    /// What of the context is known where events are emitted; added to the words that the `_ctx` functions get.
    const CONTEXT: u32 = 0;
    /// Records are rare: all of them take the general way, except near events.
    const RARE: bool = false;

    /// Time stamp and word.
    #[inline(always)]
    fn rec8(word: usize) {
        Self::rec_bytes(word, &[], None);
    }
    /// Time stamp and word, with context.
    #[inline(always)]
    fn rec8_ctx(word: usize) {
        Self::rec_bytes_ctx(word, &[], None);
    }
    /// One extra word.
    #[inline(always)]
    fn rec12(word: usize, a: u32) {
        Self::rec_bytes(word, &[a], None);
    }
    /// One extra word, with context.
    #[inline(always)]
    fn rec12_ctx(word: usize, a: u32) {
        Self::rec_bytes_ctx(word, &[a], None);
    }
    /// Two extra words.
    #[inline(always)]
    fn rec16(word: usize, ab: u64) {
        Self::rec_bytes(word, &halves(ab), None);
    }
    /// Two extra words, with context.
    #[inline(always)]
    fn rec16_ctx(word: usize, ab: u64) {
        Self::rec_bytes_ctx(word, &halves(ab), None);
    }
    /// Three extra words.
    #[inline(always)]
    fn rec20(word: usize, ab: u64, c: u32) {
        let [a, b] = halves(ab);
        Self::rec_bytes(word, &[a, b, c], None);
    }
    /// Three extra words, with context.
    #[inline(always)]
    fn rec20_ctx(word: usize, ab: u64, c: u32) {
        let [a, b] = halves(ab);
        Self::rec_bytes_ctx(word, &[a, b, c], None);
    }
    /// Four extra words.
    #[inline(always)]
    fn rec24(word: usize, ab: u64, cd: u64) {
        let ([a, b], [c, d]) = (halves(ab), halves(cd));
        Self::rec_bytes(word, &[a, b, c, d], None);
    }
    /// Four extra words, with context.
    #[inline(always)]
    fn rec24_ctx(word: usize, ab: u64, cd: u64) {
        let ([a, b], [c, d]) = (halves(ab), halves(cd));
        Self::rec_bytes_ctx(word, &[a, b, c, d], None);
    }
    /// A time, of which the lower half is recorded where that does; with context. A ring decides it, knowing its own time; who does
    /// not know records all of it.
    #[inline(always)]
    fn rec_near_ctx(word: usize, time: u64) {
        Self::rec16_ctx(word | NEAR_FAR as usize, time);
    }
    /// A text. It comes first, in the registers that reading the time stamp does not change.
    #[inline(always)]
    fn rec_text(text: &[u8], word: usize) {
        Self::rec_bytes(word, &[], Some(text));
    }
    /// A text, with context.
    #[inline(always)]
    fn rec_text_ctx(text: &[u8], word: usize) {
        Self::rec_bytes_ctx(word, &[], Some(text));
    }
    /// One extra word and a text.
    #[inline(always)]
    fn rec_text1(text: &[u8], word: usize, a: u32) {
        Self::rec_bytes(word, &[a], Some(text));
    }
    /// One extra word and a text, with context.
    #[inline(always)]
    fn rec_text1_ctx(text: &[u8], word: usize, a: u32) {
        Self::rec_bytes_ctx(word, &[a], Some(text));
    }
    /// Any number of extra words up to 8, and a dynamic field if there is one.
    fn rec_bytes(word: usize, extra: &[u32], bytes: Option<&[u8]>);
    /// Any number of extra words up to 8, and a dynamic field if there is one, with context.
    fn rec_bytes_ctx(word: usize, extra: &[u32], bytes: Option<&[u8]>);
}

/// Declares a [`Sink`] over a [`CpuRing`](crate::ring::CpuRing): one out-of-line function for each record size.
///
/// The ring is named by an expression without content, for example a unit struct of the kernel.
///
/// ```text
/// takt_tracer::ring_sink! {
///     /// The trace ring of this CPU.
///     pub struct KernelSink => KernelRing;
/// }
/// ```
#[macro_export]
macro_rules! ring_sink {
    ($(#[doc = $doc:expr])* $vis:vis struct $sink:ident => $ring:expr;) => {
        $(#[doc = $doc])*
        #[derive(Clone, Copy, Debug)]
        $vis struct $sink;

        impl $crate::event::Sink for $sink {
            $crate::__ring_sink_fns! { $ring =>
                rec8 record8 () ();
                rec8_ctx record8_ctx () ();
                rec12 record12 () (a: u32);
                rec12_ctx record12_ctx () (a: u32);
                rec16 record16 () (ab: u64);
                rec16_ctx record16_ctx () (ab: u64);
                rec20 record20 () (ab: u64, c: u32);
                rec20_ctx record20_ctx () (ab: u64, c: u32);
                rec24 record24 () (ab: u64, cd: u64);
                rec24_ctx record24_ctx () (ab: u64, cd: u64);
                rec_near_ctx record_near_ctx () (time: u64);
                rec_text record_text (text: &[u8]) ();
                rec_text_ctx record_text_ctx (text: &[u8]) ();
                rec_text1 record_text1 (text: &[u8]) (a: u32);
                rec_text1_ctx record_text1_ctx (text: &[u8]) (a: u32);
                rec_bytes record_bytes () (extra: &[u32], bytes: $crate::__core::option::Option<&[u8]>);
                rec_bytes_ctx record_bytes_ctx () (extra: &[u32], bytes: $crate::__core::option::Option<&[u8]>);
            }
        }
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __ring_sink_fns {
    ($ring:expr => $($name:ident $record:ident ($($text:ident: $text_ty:ty)?) ($($arg:ident: $ty:ty),*);)*) => {$(
        #[inline(always)]
        fn $name($($text: $text_ty,)? word: usize $(, $arg: $ty)*) {
            #[inline(never)]
            fn out_of_line($($text: $text_ty,)? word: u32 $(, $arg: $ty)*) {
                $crate::ring::$record($ring $(, $text)?, word $(, $arg)*);
            }
            out_of_line($($text,)? word as u32 $(, $arg)*);
        }
    )*};
}

/// The two words of one, the lower half first.
#[inline(always)]
const fn halves(both: u64) -> [u32; 2] {
    [both as u32, (both >> 32) as u32]
}
