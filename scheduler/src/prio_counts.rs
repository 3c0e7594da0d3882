//! How many there are of each priority: a multiset of which the most important is known at once.

use crate::Priority;
use crate::prio_queue::first_level;

/// A multiset of priorities, at most 255 of each; every operation is O(1).
///
/// All zeros are an empty one.
#[derive(Clone, Debug)]
pub struct PrioCounts {
    /// Bit `l % 64` of word `l / 64`: the count of level `l` is not 0.
    bitmap: [u64; 2],
    /// 128 and not 100, so that no index needs a check.
    counts: [u8; 128],
}

impl PrioCounts {
    /// None of any priority.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            bitmap: [0; 2],
            counts: [0; 128],
        }
    }

    /// One more of this priority. A caller who adds more than 255 gets wrong counts, never memory unsafety.
    #[inline(always)]
    pub const fn add(&mut self, prio: Priority) {
        let level = Self::level(prio);
        self.counts[level] = self.counts[level].wrapping_add(1);
        self.bitmap[level >> 6] |= 1 << (level & 63);
    }

    /// One less of this priority, of which there is one.
    #[inline(always)]
    pub const fn remove(&mut self, prio: Priority) {
        let level = Self::level(prio);
        self.counts[level] = self.counts[level].wrapping_sub(1);
        if self.counts[level] == 0 {
            self.bitmap[level >> 6] &= !(1 << (level & 63));
        }
    }

    /// The most important of them.
    #[inline(always)]
    #[must_use]
    pub const fn top(&self) -> Option<Priority> {
        match first_level(self.bitmap) {
            Some(level) => Some(Priority::from_level(level as u8)),
            None => None,
        }
    }

    #[inline(always)]
    const fn level(prio: Priority) -> usize {
        prio.rank() as usize & 127
    }
}

impl Default for PrioCounts {
    fn default() -> Self {
        Self::new()
    }
}
