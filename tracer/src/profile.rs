//! [`Entry`]: what the function profiler keeps of a function on a CPU, for a host that reads the RAM.
//!
//! An image with the profiler has a table of entries for each CPU, one after the other, under the name [`SYMBOL`]; in a
//! table the entry of a function is at the function's id. The value of the symbol [`MAX_FUNCTIONS`] is the length of a
//! table. The word under [`ENABLED`] is 1 while it is on.

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Name of the tables.
pub const SYMBOL: &str = "TAKT_FUNCTION_PROFILE";
/// Name of a word of 32 bits.
pub const ENABLED: &str = "TAKT_FUNCTION_PROFILE_ENABLED";
/// Name of the symbol whose value is the number of entries in a table.
pub const MAX_FUNCTIONS: &str = "takt_max_functions";

/// What is kept of a function. Zeros at the beginning.
#[repr(C)]
#[derive(Debug)]
pub struct Entry {
    /// How often it was entered.
    pub hits: AtomicU64,
    /// Cycles from its entries to its returns.
    pub cycles: AtomicU64,
    /// The sum of the squares of these times, in cycles²: the low half, and the high half.
    pub squares: [AtomicU64; 2],
}

impl Entry {
    /// Nothing yet.
    pub const fn new() -> Self {
        Self {
            hits: AtomicU64::new(0),
            cycles: AtomicU64::new(0),
            squares: [const { AtomicU64::new(0) }; 2],
        }
    }

    /// Forgets everything.
    pub fn clear(&self) {
        let [low, high] = &self.squares;
        for word in [&self.hits, &self.cycles, low, high] {
            word.store(0, Relaxed);
        }
    }

    /// What it holds.
    pub fn view(&self) -> View {
        let [low, high] = [&self.squares[0], &self.squares[1]].map(|half| half.load(Relaxed));
        View {
            hits: self.hits.load(Relaxed),
            cycles: self.cycles.load(Relaxed),
            squares: u128::from(low) | u128::from(high) << 64,
        }
    }
}

impl Default for Entry {
    fn default() -> Self {
        Self::new()
    }
}

/// An entry, read.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct View {
    /// [`Entry::hits`]
    pub hits: u64,
    /// [`Entry::cycles`]
    pub cycles: u64,
    /// [`Entry::squares`]
    pub squares: u128,
}

impl View {
    /// Bytes of an entry.
    pub const SIZE: usize = size_of::<Entry>();

    /// Reads an entry out of a RAM.
    pub fn decode(bytes: &[u8; Self::SIZE]) -> Self {
        let word = |at| crate::wire::u64_at(bytes, at).unwrap_or(0);
        Self {
            hits: word(0),
            cycles: word(8),
            squares: u128::from(word(16)) | u128::from(word(24)) << 64,
        }
    }

    /// The time of all calls in ns, for a TSC of so many Hz; `u64::MAX` if it is more.
    pub fn ns(&self, tsc_hz: u64) -> u64 {
        let ns = u128::from(self.cycles) * 1_000_000_000 / u128::from(tsc_hz.max(1));
        u64::try_from(ns).unwrap_or(u64::MAX)
    }

    /// The variance of the calls' times (that of a sample: over n - 1), in ns²; 0 for fewer than two calls. `u64::MAX` if
    /// it is more.
    pub fn variance_ns2(&self, tsc_hz: u64) -> u64 {
        let hits = u128::from(self.hits);
        if hits < 2 {
            return 0;
        }
        // Σ(x - x̄)² = Σx² - (Σx)²/n, in cycles² first, so that rounding does not spoil the difference.
        let mean = u128::from(self.cycles) * u128::from(self.cycles) / hits;
        let variance = self.squares.saturating_sub(mean) / (hits - 1);
        let scale = |value: u128| {
            let hz = u128::from(tsc_hz.max(1));
            match value.checked_mul(1_000_000_000) {
                Some(product) => product / hz,
                None => (value / hz).saturating_mul(1_000_000_000),
            }
        };
        u64::try_from(scale(scale(variance))).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_is_read_as_it_lies_there() {
        let entry = Entry::new();
        entry.hits.store(3, Relaxed);
        entry.cycles.store(u64::MAX - 1, Relaxed);
        entry.squares[1].store(5, Relaxed);
        let mut bytes = [0; View::SIZE];
        bytes[0] = 3;
        bytes[8..16].copy_from_slice(&(u64::MAX - 1).to_le_bytes());
        bytes[24] = 5;
        let view = entry.view();
        assert_eq!(view, View::decode(&bytes));
        assert_eq!((view.hits, view.squares), (3, 5 << 64));
        entry.clear();
        assert_eq!(entry.view(), View::default());
    }

    #[test]
    fn times_and_variances() {
        let of = |times: &[u64]| View {
            hits: times.len() as u64,
            cycles: times.iter().sum(),
            squares: times.iter().map(|time| u128::from(*time).pow(2)).sum(),
        };
        let view = of(&[2, 4, 4, 4, 5, 5, 7, 9]);
        assert_eq!(
            (view.ns(1_000_000_000), view.variance_ns2(1_000_000_000)),
            (40, 4)
        );
        assert_eq!(
            (view.ns(2_000_000_000), view.variance_ns2(2_000_000_000)),
            (20, 1)
        );
        assert_eq!(of(&[7]).variance_ns2(1), 0);
        assert_eq!(of(&[]).variance_ns2(0), 0);
        let wrong = View {
            hits: 2,
            cycles: 10,
            squares: 0,
        };
        assert_eq!(wrong.variance_ns2(1_000_000_000), 0);
        let huge = View {
            hits: 2,
            cycles: u64::MAX,
            squares: u128::MAX,
        };
        assert_eq!((huge.ns(1), huge.variance_ns2(1)), (u64::MAX, u64::MAX));
    }
}
