//! Where packed events go.

/// The out-of-line record functions that all events of a record size share.
///
/// The kernel implements it for a type without content with functions that are not inlined, each around the function
/// of the same size in [`ring`](crate::ring). So an event's place in the code is: load the word and the extra words
/// into registers, and call. `_ctx` functions add the context to the word (layouts `core8` and `wide`), the others
/// do not (`core24`). The word is the low half of what they get: so that it can be computed as an address is, which takes one
/// instruction. Two extra words travel in one `u64`, the first of them in its low half.
///
/// # Context
/// Whatever the implementation promises; with a ring behind it: thread, IRQ and NMI.
pub trait Sink {
    /// What of the context is known where events are emitted; added to the words that the `_ctx` functions get.
    const CONTEXT: u32 = 0;
    /// Records are rare: all of them take the general way, except near events.
    const RARE: bool = false;

    /// Time stamp and word.
    fn rec8(word: usize);
    /// Time stamp and word with context.
    fn rec8_ctx(word: usize);
    /// One extra word.
    fn rec12(word: usize, a: u32);
    /// One extra word, with context.
    fn rec12_ctx(word: usize, a: u32);
    /// Two extra words.
    fn rec16(word: usize, ab: u64);
    /// Two extra words, with context.
    fn rec16_ctx(word: usize, ab: u64);
    /// Three extra words.
    fn rec20(word: usize, ab: u64, c: u32);
    /// Three extra words, with context.
    fn rec20_ctx(word: usize, ab: u64, c: u32);
    /// Four extra words.
    fn rec24(word: usize, ab: u64, cd: u64);
    /// Four extra words, with context.
    fn rec24_ctx(word: usize, ab: u64, cd: u64);
    /// A time, of which the lower half is recorded where that does; with context. A ring decides it, knowing its own time.
    fn rec_near_ctx(word: usize, time: u64);
    /// A text. It comes first, in the registers that reading the time stamp does not change.
    fn rec_text(text: &[u8], word: usize);
    /// A text, with context.
    fn rec_text_ctx(text: &[u8], word: usize);
    /// One extra word and a text.
    fn rec_text1(text: &[u8], word: usize, a: u32);
    /// One extra word and a text, with context.
    fn rec_text1_ctx(text: &[u8], word: usize, a: u32);
    /// Any number of extra words up to 8, and a dynamic field if there is one.
    fn rec_bytes(word: usize, extra: &[u32], bytes: Option<&[u8]>);
    /// Any number of extra words up to 8, and a dynamic field if there is one, with context.
    fn rec_bytes_ctx(word: usize, extra: &[u32], bytes: Option<&[u8]>);
}

/// Declares a [`Sink`] over a [`CpuRing`](crate::ring::CpuRing): one out-of-line function for each record size.
///
/// The ring is named by an expression without content, for example a unit struct of the kernel. `each [ATTRIBUTE]` behind
/// it gives every function that attribute.
///
/// ```text
/// takt_tracer::ring_sink! {
///     /// The trace ring of this CPU.
///     pub struct KernelSink => KernelRing;
/// }
/// ```
#[macro_export]
macro_rules! ring_sink {
    ($(#[$doc:meta])* $vis:vis struct $sink:ident => $ring:expr $(, each $function:tt)?;) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug)]
        $vis struct $sink;

        impl $crate::event::Sink for $sink {
            $crate::__ring_sink_fns! { [$($function)?] $ring =>
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
                rec_bytes record_bytes () (extra: &[u32], bytes: ::core::option::Option<&[u8]>);
                rec_bytes_ctx record_bytes_ctx () (extra: &[u32], bytes: ::core::option::Option<&[u8]>);
            }
        }
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __ring_sink_fns {
    ([] $ring:expr => $($rest:tt)*) => {
        $crate::__ring_sink_fns! { [[cfg(all())]] $ring => $($rest)* }
    };
    // The attribute cannot be repeated within each function, so it goes along as one piece.
    ([$attribute:tt] $ring:expr => $($name:ident $record:ident ($($text:ident: $text_ty:ty)?) ($($arg:ident: $ty:ty),*);)*) => {$(
        #[inline(always)]
        fn $name($($text: $text_ty,)? word: usize $(, $arg: $ty)*) {
            // A function of its own, since not every attribute is allowed at a trait's.
            #[inline(never)]
            # $attribute
            fn out_of_line($($text: $text_ty,)? word: u32 $(, $arg: $ty)*) {
                $crate::ring::$record($ring $(, $text)?, word $(, $arg)*);
            }
            out_of_line($($text,)? word as u32 $(, $arg)*);
        }
    )*};
}
