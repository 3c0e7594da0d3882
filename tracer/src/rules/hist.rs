//! Histograms of events: sums by key, without a lock, updated from threads, interrupts and NMIs of all CPUs.
//!
//! A table with open addressing. A place is claimed by one exchange, filled, and then published. Who meets a place that is
//! claimed and not published (it may have interrupted who does) goes on to the next; so a key may come to stand twice, and
//! a reader adds up what has the same key.

use core::mem::offset_of;
use core::num::NonZeroU64;
use core::sync::atomic::{
    AtomicU32, AtomicU64,
    Ordering::{AcqRel, Acquire, Relaxed, Release},
};

use super::Stack;
use crate::filter::program::{FROM_FIELD, Raw, Word};

/// Keys of a histogram.
pub const MAX_KEYS: usize = 3;
/// Sums of a histogram beside its hits.
pub const MAX_VALUES: usize = 3;
/// Places of a histogram.
pub const ENTRIES: usize = 1024;
/// Places that a histogram has which counts by stacks. The stack of each lies in the place so many further on.
pub const STACKS: usize = ENTRIES / 2;
/// Functions of a stack that count, from the innermost on.
pub const MAX_FRAMES: usize = 2 * (MAX_KEYS + MAX_VALUES + 1);
/// Places that are looked at for a key.
const PROBES: usize = 64;

/// A bit of a source: what is counted by is the number's logarithm to base 2, rounded up.
pub const LOG2: u32 = 1 << 8;
/// A bit of a source: what is counted by is the number divided by that key's bucket size, rounded down.
pub const BUCKETS: u32 = 1 << 9;
/// The source of a key that is a stack.
pub const FROM_STACK: u32 = FROM_FIELD + 1;

const FREE: u32 = 0;
const CLAIMED: u32 = 1;
pub(super) const READY: u32 = 2;

/// What a histogram counts by, and what it adds up.
///
/// | words | |
/// |---|---|
/// | 0 | bits 0..8 the number of keys, 8..16 of values, 16..32 the places that may be used |
/// | then for each: 0 | bits 0..8 the source as in a program's tests or [`FROM_STACK`], [`LOG2`], [`BUCKETS`] |
/// | 1 | the field, as there |
/// | then, if there are buckets, for each key | their size |
#[derive(Clone, Copy, Debug)]
pub struct HistSpec<'s, W = u32> {
    words: &'s [W],
}

impl<'s, W: Word> HistSpec<'s, W> {
    /// Checks a description.
    #[must_use]
    pub fn new(words: &'s [W]) -> Option<Self> {
        let (nr_keys, nr_values, size) = Self { words }.head()?;
        let fields = 1 + 2 * (nr_keys + nr_values);
        let sources = || {
            let fields = words.get(1..fields).unwrap_or_default();
            fields.iter().step_by(2).map(Word::get)
        };
        let has = |bits: u32| sources().any(|source| source & bits == bits);
        let (keys, values) = (sources().take(nr_keys), sources().skip(nr_keys));
        let are_known = keys.map(|source| source & 0xff).max()? <= FROM_STACK
            && values.map(|source| source & 0xff).max().unwrap_or(0) <= FROM_FIELD;
        let sizes = words.get(fields..)?;
        let has_sizes = match has(BUCKETS) {
            true => sizes.len() == nr_keys && sizes.iter().all(|size| size.get() != 0),
            false => sizes.is_empty(),
        };
        let room = match has(FROM_STACK) {
            true => STACKS,
            false => ENTRIES,
        };
        let is_sound = (1..=MAX_KEYS).contains(&nr_keys)
            && nr_values <= MAX_VALUES
            && (1..=room).contains(&size);
        (are_known && has_sizes && is_sound).then_some(Self { words })
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

    /// The number that stands at `at`, keys first; `None` if it is a stack.
    fn number(&self, at: usize, raw: &Raw<'_>) -> Option<u64> {
        let source = self.words.get(1 + 2 * at)?.get();
        let field = self.words.get(2 + 2 * at)?.get();
        let number = raw.number(source & 0xff, field)?;
        Some(match source & (LOG2 | BUCKETS) {
            0 => number,
            LOG2 => u64::from(64 - number.saturating_sub(1).leading_zeros()),
            _ => number / self.bucket_size(at)?,
        })
    }
    /// How large the buckets of a key are.
    fn bucket_size(&self, key: usize) -> Option<NonZeroU64> {
        let (nr_keys, nr_values, _) = self.head()?;
        let size = self.words.get(1 + 2 * (nr_keys + nr_values) + key)?;
        NonZeroU64::new(size.get().into())
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

impl Entry {
    /// Where in a place that holds a stack its pairs of addresses lie.
    pub(super) const SPARE: [usize; MAX_FRAMES / 2] = {
        let mut offsets = [offset_of!(Self, hits); MAX_FRAMES / 2];
        let mut at = 0;
        while at < MAX_KEYS {
            offsets[at] = offset_of!(Self, keys) + 8 * at;
            at += 1;
        }
        while at < MAX_KEYS + MAX_VALUES {
            offsets[at] = offset_of!(Self, sums) + 8 * (at - MAX_KEYS);
            at += 1;
        }
        offsets
    };

    /// The cells of [`SPARE`](Self::SPARE).
    fn spare(&self) -> impl Iterator<Item = &AtomicU64> {
        self.keys.iter().chain(&self.sums).chain([&self.hits])
    }
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
    pub(super) fn count<S: Stack, W: Word>(&self, spec: HistSpec<'_, W>, raw: &Raw<'_>) {
        let Some((nr_keys, nr_values, size)) = spec.head() else {
            return;
        };
        // Not an array in an `Option`: the compiler would copy it by an SSE register more than interrupts keep.
        let mut callers = [0; MAX_FRAMES];
        let mut has_callers = false;
        let mut keys = [0; MAX_KEYS];
        for (at, key) in keys.iter_mut().enumerate().take(nr_keys) {
            *key = match spec.number(at, raw) {
                Some(number) => number,
                None => {
                    if !has_callers {
                        S::callers(&mut callers);
                        has_callers = true;
                    }
                    hash(&callers)
                }
            };
        }
        match self.place(&keys, size) {
            Some(entry) => {
                self.hits.fetch_add(1, Relaxed);
                entry.hits.fetch_add(1, Relaxed);
                for (at, sum) in entry.sums.iter().enumerate().take(nr_values) {
                    let number = spec.number(nr_keys + at, raw).unwrap_or(0);
                    sum.fetch_add(number, Relaxed);
                }
                if has_callers {
                    self.keep(entry, &callers);
                }
            }
            None => {
                self.drops.fetch_add(1, Relaxed);
            }
        }
    }

    /// Keeps the stack of a place, which is the same each time.
    #[inline(never)]
    fn keep(&self, entry: &Entry, callers: &[u32; MAX_FRAMES]) {
        let from = core::ptr::from_ref(entry).addr() - self.entries.as_ptr().addr();
        let place = from / size_of::<Entry>();
        let Some(stack) = self.entries.get(STACKS + place) else {
            return;
        };
        for (cell, [low, high]) in stack.spare().zip(callers.as_chunks().0) {
            cell.store(u64::from(*low) | u64::from(*high) << 32, Relaxed);
        }
    }

    /// The place of a key, claimed if it has none.
    fn place(&self, keys: &[u64; MAX_KEYS], size: usize) -> Option<&Entry> {
        let hash = keys.iter().fold(0, |hash, key| mix(hash, *key)) >> 32;
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

fn mix(hash: u64, key: u64) -> u64 {
    (hash ^ key).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// A stack as a key. Both halves of a product are in it, so that every caller moves every bit.
#[inline(never)]
fn hash(callers: &[u32; MAX_FRAMES]) -> u64 {
    callers.iter().fold(0, |hash, caller| {
        let product = mix(hash, u64::from(*caller) + 1);
        product ^ product >> 32
    })
}
