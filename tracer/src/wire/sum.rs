//! The checksum of frames and of the image.

/// Odd, so that multiplying by it loses nothing; otherwise arbitrary.
const MULTIPLIER: u64 = 0x9e37_79b9_7f4a_7c15;
/// Where a sum begins: not zero, so that leading zero words count.
const SEED: u64 = 0x5441_4b54_5452_4331;

/// A running 64-bit checksum over words of 8 bytes.
///
/// Every step is a bijection of the state for a given word and of the word for a given state, so a single
/// damaged word always changes the result. It is no cryptographic hash: it finds damage, not malice.
///
/// # Context
/// IRQ-safe, NMI-safe: a value of its own, no shared state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sum(u64);

impl Sum {
    /// A sum over nothing.
    pub const fn new() -> Self {
        Self(SEED)
    }

    /// Adds one word.
    #[inline]
    #[must_use]
    pub const fn word(self, word: u64) -> Self {
        let mixed = (self.0 ^ word).wrapping_mul(MULTIPLIER);
        Self(mixed ^ (mixed >> 29))
    }

    /// Adds bytes; a last incomplete word is padded with zeros.
    ///
    /// Only the last part may have a length that is not a multiple of 8, else the padding counts as data.
    #[inline]
    #[must_use]
    pub fn bytes(self, bytes: &[u8]) -> Self {
        let mut sum = self;
        let (words, rest) = bytes.as_chunks::<8>();
        for word in words {
            sum = sum.word(u64::from_le_bytes(*word));
        }
        if rest.is_empty() {
            return sum;
        }
        let mut last = [0; 8];
        last[..rest.len()].copy_from_slice(rest);
        sum.word(u64::from_le_bytes(last))
    }

    /// The sum so far.
    pub const fn value(self) -> u64 {
        self.0
    }
}

impl Default for Sum {
    fn default() -> Self {
        Self::new()
    }
}

/// The checksum of one run of bytes, as the file header uses it for the image.
///
/// Lengths that differ only by trailing zeros are told apart, because the length is the first word.
pub fn checksum(bytes: &[u8]) -> u64 {
    Sum::new().word(bytes.len() as u64).bytes(bytes).value()
}
