//! Histograms of events: sums by key, without a lock, updated from threads, interrupts and NMIs of all CPUs.
//!
//! A table with open addressing. A place is claimed by one exchange, filled, and then published. Who meets a place that is
//! claimed and not published (it may have interrupted who does) goes on to the next; so a key may come to stand twice, and
//! a reader adds up what has the same key.

use core::sync::atomic::{
    AtomicU32, AtomicU64,
    Ordering::{AcqRel, Acquire, Relaxed, Release},
};

use crate::filter::program::{FROM_FIELD, Raw, Word};

/// Keys of a histogram.
pub const MAX_KEYS: usize = 3;
/// Sums of a histogram beside its hits.
pub const MAX_VALUES: usize = 3;
/// Places of a histogram.
pub const ENTRIES: usize = 1024;
/// Places that are looked at for a key.
const PROBES: usize = 64;

/// A bit of a source: what is counted by is the number's logarithm to base 2, rounded up.
pub const LOG2: u32 = 1 << 8;

const FREE: u32 = 0;
const CLAIMED: u32 = 1;
pub(super) const READY: u32 = 2;

/// What a histogram counts by, and what it adds up.
///
/// | words | |
/// |---|---|
/// | 0 | bits 0..8 the number of keys, 8..16 of values, 16..32 the places that may be used |
/// | then for each: 0 | bits 0..8 the source as in a program's tests, 8 the logarithm is meant |
/// | 1 | the field, as there |
#[derive(Clone, Copy, Debug)]
pub struct HistSpec<'s, W = u32> {
    words: &'s [W],
}

impl<'s, W: Word> HistSpec<'s, W> {
    /// Checks a description.
    #[must_use]
    pub fn new(words: &'s [W]) -> Option<Self> {
        let (nr_keys, nr_values, size) = Self { words }.head()?;
        let is_whole = words.len() == 1 + 2 * (nr_keys + nr_values);
        let is_sound = (1..=MAX_KEYS).contains(&nr_keys) && nr_values <= MAX_VALUES && size > 0;
        let mut sources = words.iter().skip(1).step_by(2);
        let has_sources = sources.all(|source| source.get() & 0xff <= FROM_FIELD);
        (is_whole && is_sound && has_sources).then_some(Self { words })
    }

    /// One that was checked before.
    #[must_use]
    pub const fn assume(words: &'s [W]) -> Self {
        Self { words }
    }

    fn head(&self) -> Option<(usize, usize, usize)> {
        let [nr_keys, nr_values, low, high] = self.words.first()?.get().to_le_bytes();
        let size = usize::from(u16::from_le_bytes([low, high]));
        Some((nr_keys.into(), nr_values.into(), size.min(ENTRIES)))
    }

    /// The number that stands at `at`, keys first.
    fn number(&self, at: usize, raw: &Raw<'_>) -> Option<u64> {
        let source = self.words.get(1 + 2 * at)?.get();
        let field = self.words.get(2 + 2 * at)?.get();
        let number = raw.number(source & 0xff, field)?;
        Some(match source & LOG2 {
            0 => number,
            _ => u64::from(64 - number.saturating_sub(1).leading_zeros()),
        })
    }
}

/// A place of a histogram.
#[repr(C)]
#[derive(Debug)]
pub struct Entry {
    pub(super) state: AtomicU32,
    pub(super) keys: [AtomicU64; MAX_KEYS],
    pub(super) hits: AtomicU64,
    pub(super) sums: [AtomicU64; MAX_VALUES],
}

/// A histogram.
#[repr(C)]
#[derive(Debug)]
pub struct Hist {
    /// Events that were counted.
    pub(super) hits: AtomicU64,
    /// Events that found no place.
    pub(super) drops: AtomicU64,
    pub(super) entries: [Entry; ENTRIES],
}

impl Hist {
    pub(super) const fn new() -> Self {
        Self {
            hits: AtomicU64::new(0),
            drops: AtomicU64::new(0),
            entries: [const {
                Entry {
                    state: AtomicU32::new(FREE),
                    keys: [const { AtomicU64::new(0) }; MAX_KEYS],
                    hits: AtomicU64::new(0),
                    sums: [const { AtomicU64::new(0) }; MAX_VALUES],
                }
            }; ENTRIES],
        }
    }

    /// Counts an event.
    pub(super) fn count<W: Word>(&self, spec: HistSpec<'_, W>, raw: &Raw<'_>) {
        let Some((nr_keys, nr_values, size)) = spec.head() else {
            return;
        };
        let number = |at| spec.number(at, raw).unwrap_or(0);
        let mut keys = [0; MAX_KEYS];
        for (at, key) in keys.iter_mut().enumerate().take(nr_keys) {
            *key = number(at);
        }
        match self.place(&keys, size) {
            Some(entry) => {
                self.hits.fetch_add(1, Relaxed);
                entry.hits.fetch_add(1, Relaxed);
                for (at, sum) in entry.sums.iter().enumerate().take(nr_values) {
                    sum.fetch_add(number(nr_keys + at), Relaxed);
                }
            }
            None => {
                self.drops.fetch_add(1, Relaxed);
            }
        }
    }

    /// The place of a key, claimed if it has none.
    fn place(&self, keys: &[u64; MAX_KEYS], size: usize) -> Option<&Entry> {
        let mix = |hash: u64, key: &u64| (hash ^ key).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let hash = keys.iter().fold(0, mix) >> 32;
        for probe in 0..PROBES.min(size) {
            let at = (hash as usize + probe) % size.max(1);
            let entry = self.entries.get(at)?;
            let state = entry.state.compare_exchange(FREE, CLAIMED, AcqRel, Acquire);
            match state {
                Ok(_) => {
                    for (cell, key) in entry.keys.iter().zip(keys) {
                        cell.store(*key, Relaxed);
                    }
                    entry.state.store(READY, Release);
                    return Some(entry);
                }
                Err(READY) => {
                    let mut pairs = entry.keys.iter().zip(keys);
                    if pairs.all(|(cell, key)| cell.load(Relaxed) == *key) {
                        return Some(entry);
                    }
                }
                Err(_) => {}
            }
        }
        None
    }

    /// Empties it. While nobody counts.
    pub(super) fn clear(&self) {
        self.hits.store(0, Relaxed);
        self.drops.store(0, Relaxed);
        for entry in &self.entries {
            entry.state.store(FREE, Relaxed);
            entry.hits.store(0, Relaxed);
            for sum in &entry.sums {
                sum.store(0, Relaxed);
            }
        }
    }
}
