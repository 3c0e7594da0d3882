//! Where trace points send their records: the record functions, in assembly.

use takt_tracer::event::Sink;

use crate::arch::record;

/// The halves of a pair of extra words.
#[inline(always)]
fn halves(pair: u64) -> (u32, u32) {
    (pair as u32, (pair >> 32) as u32)
}

/// Declares a [`Sink`] over the record functions: those for words with context have the names behind `_ctx`, and of the
/// context they get `$context`.
macro_rules! sink {
    ($(#[$doc:meta])* $vis:vis $sink:ident, $context:expr, $rare:literal, $rec8:ident $rec12:ident $rec16:ident $rec20:ident $rec24:ident $near:ident $text:ident $text1:ident
        $bytes:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug)]
        $vis struct $sink;

        impl Sink for $sink {
            const CONTEXT: u32 = $context;
            const RARE: bool = $rare;

            #[inline(always)]
            fn rec_near_ctx(word: usize, time: u64) {
                record::$near(word, time);
            }

            sink! { @functions rec8 rec12 rec16 rec20 rec24 rec_text rec_text1 rec_bytes =>
                rec8 rec12 rec16 rec20 rec24 rec_text rec_text1 rec_bytes }
            sink! { @functions rec8_ctx rec12_ctx rec16_ctx rec20_ctx rec24_ctx rec_text_ctx rec_text1_ctx rec_bytes_ctx =>
                $rec8 $rec12 $rec16 $rec20 $rec24 $text $text1 $bytes }
        }
    };
    (@functions $rec8:ident $rec12:ident $rec16:ident $rec20:ident $rec24:ident $text:ident $text1:ident $bytes:ident =>
        $to8:ident $to12:ident $to16:ident $to20:ident $to24:ident $to_text:ident $to_text1:ident $to_bytes:ident) => {
        #[inline(always)]
        fn $rec8(word: usize) {
            record::$to8(word);
        }

        #[inline(always)]
        fn $rec12(word: usize, a: u32) {
            record::$to12(word, a);
        }

        #[inline(always)]
        fn $rec16(word: usize, ab: u64) {
            let (a, b) = halves(ab);
            record::$to16(word, a, b);
        }

        #[inline(always)]
        fn $rec20(word: usize, ab: u64, c: u32) {
            let (a, b) = halves(ab);
            record::$to20(word, a, b, c);
        }

        #[inline(always)]
        fn $rec24(word: usize, ab: u64, cd: u64) {
            let ((a, b), (c, d)) = (halves(ab), halves(cd));
            record::$to24(word, a, b, c, d);
        }

        #[inline(always)]
        fn $text(text: &[u8], word: usize) {
            record::$to_text(word, text.as_ptr(), text.len());
        }

        #[inline(always)]
        fn $text1(text: &[u8], word: usize, a: u32) {
            record::$to_text1(word, text.as_ptr(), text.len(), a);
        }

        #[inline(always)]
        fn $bytes(word: usize, extra: &[u32], bytes: Option<&[u8]>) {
            let (text, len) = bytes.map_or((core::ptr::null(), 0), |text| (text.as_ptr(), text.len()));
            record::$to_bytes(word, text, len, extra.as_ptr(), extra.len());
        }
    };
}

sink! {
    /// Where trace points send their records: this CPU's ring.
    pub KernelSink, record::IRQS_ON, false, rec8_ctx rec12_ctx rec16_ctx rec20_ctx rec24_ctx rec_near_ctx rec_text_ctx rec_text1_ctx rec_bytes_ctx
}
sink! {
    /// Where trace points send their records when interrupts are known to be off.
    pub IrqsOffSink, 0, false, rec8_known rec12_known rec16_known rec20_known rec24_known rec_near_known rec_text_known rec_text1_known rec_bytes_known
}
sink! {
    /// Where trace points send their records when interrupts are known to be on.
    pub IrqsOnSink, record::IRQS_ON, false, rec8_known rec12_known rec16_known rec20_known rec24_known rec_near_known rec_text_known rec_text1_known rec_bytes_known
}
#[cfg(feature = "latency-tracers")]
sink! {
    /// Where the tracers send records of which there are few, when interrupts are known to be off: no image needs a quick
    /// function for these.
    pub(crate) RareSink, 0, true, rec8_known rec12_known rec16_known rec20_known rec24_known rec_near_known rec_text_known rec_text1_known rec_bytes_known
}
