//! How many there are of each priority: a multiset of which the most important is known at once.

use crate::Priority;
use crate::levels::Levels;

/// A multiset of priorities, at most 255 of each; every operation is O(1).
///
/// All zeros are an empty one.
#[derive(Clone, Debug)]
pub struct PrioCounts {
    /// Those whose count is not 0.
    levels: Levels,
    counts: [u8; Levels::NR],
}

impl PrioCounts {
    /// Where the bits of the levels in use are, for assembly: bit `l` is that of rank `l`, in words of 64.
    pub const LEVELS: usize = core::mem::offset_of!(Self, levels);
    /// Where the counts of the ranks are, for assembly: a byte each.
    pub const COUNTS: usize = core::mem::offset_of!(Self, counts);

    /// None of any priority.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            levels: Levels::new(),
            counts: [0; Levels::NR],
        }
    }

    /// One more of this priority. A caller who adds more than 255 gets wrong counts, never memory unsafety.
    #[inline(always)]
    pub const fn add(&mut self, prio: Priority) {
        let count = &mut self.counts[Levels::index(prio)];
        *count = count.wrapping_add(1);
        let _ = self.levels.insert(prio);
    }

    /// One less of this priority, of which there is one.
    #[inline(always)]
    pub const fn remove(&mut self, prio: Priority) {
        let count = &mut self.counts[Levels::index(prio)];
        *count = count.wrapping_sub(1);
        if *count == 0 {
            self.levels.remove(prio);
        }
    }

    /// [`remove`](Self::remove), if there is one.
    pub const fn remove_if_any(&mut self, prio: Priority) {
        if self.counts[Levels::index(prio)] != 0 {
            self.remove(prio);
        }
    }

    /// [`remove`](Self::remove) of the only one there is: no bit to look for.
    #[inline(always)]
    pub const fn remove_only(&mut self, prio: Priority) {
        self.counts[Levels::index(prio)] = 0;
        self.levels = Levels::new();
    }

    /// The most important of them.
    #[inline(always)]
    #[must_use]
    pub const fn top(&self) -> Option<Priority> {
        self.levels.first_priority()
    }
}

impl Default for PrioCounts {
    fn default() -> Self {
        Self::new()
    }
}
