//! Which levels of priority are in use: a bitmap, of which the most important level is known at once.

use crate::Priority;

/// A set of levels. All zeros are an empty one.
///
/// Bit `l % 64` of word `l / 64` is level `l`. A level is the rank of its priority, so that the lowest bit is the first:
/// `bsf` gives it as it is, whereas `bsr` would need two `xor` more.
#[derive(Clone, Debug)]
pub(crate) struct Levels([u64; 2]);

impl Levels {
    /// Tables with something for each level have so many entries: 128 and not 100, so that no index needs a check.
    pub(crate) const NR: usize = 128;

    #[cfg_attr(feature = "fast-paths", inline(always))]
    pub(crate) const fn new() -> Self {
        Self([0; 2])
    }

    #[cfg_attr(feature = "fast-paths", inline(always))]
    pub(crate) const fn is_empty(&self) -> bool {
        self.0[0] | self.0[1] == 0
    }

    /// Whether the level of this priority is in the set.
    #[cfg_attr(feature = "fast-paths", inline(always))]
    pub(crate) const fn has(&self, prio: Priority) -> bool {
        self.0[Self::word(prio)] & Self::bit(prio) != 0
    }

    /// Says whether it was not there.
    #[cfg_attr(feature = "fast-paths", inline(always))]
    pub(crate) const fn insert(&mut self, prio: Priority) -> bool {
        // A branch, where the place of the word would take three instructions to compute.
        if Self::is_in_first(prio) {
            Self::insert_in(&mut self.0[0], prio)
        } else {
            core::hint::cold_path();
            Self::insert_in(&mut self.0[1], prio)
        }
    }

    #[cfg_attr(feature = "fast-paths", inline(always))]
    const fn insert_in(word: &mut u64, prio: Priority) -> bool {
        // One `bts` of a copy, where to test the bit first takes its mask as well.
        let with = *word | Self::bit(prio);
        let is_new = with != *word;
        if is_new {
            *word = with;
        }
        is_new
    }

    #[cfg_attr(feature = "fast-paths", inline(always))]
    pub(crate) const fn remove(&mut self, prio: Priority) {
        // One `rol`, where the complement of the bit would take a shift and a `not`.
        let others = (!1u64).rotate_left(Self::index(prio) as u32);
        if Self::is_in_first(prio) {
            self.0[0] &= others;
        } else {
            core::hint::cold_path();
            self.0[1] &= others;
        }
    }

    /// The most important level. As a number and not as a priority, which would narrow it to a byte.
    #[cfg_attr(feature = "fast-paths", inline(always))]
    pub(crate) const fn first(&self) -> Option<usize> {
        if self.0[0] != 0 {
            return Some(self.0[0].trailing_zeros() as usize);
        }
        // Priorities below 36: two instructions more.
        core::hint::cold_path();
        if self.0[1] != 0 {
            Some(self.0[1].trailing_zeros() as usize | 64)
        } else {
            None
        }
    }

    /// The most important level, or `last` if there is none.
    #[cfg_attr(feature = "fast-paths", inline(always))]
    pub(crate) const fn first_or(&self, last: usize) -> usize {
        match self.first() {
            Some(level) => level,
            None => last,
        }
    }

    /// The priority of the most important level.
    #[cfg_attr(feature = "fast-paths", inline(always))]
    pub(crate) const fn first_priority(&self) -> Option<Priority> {
        match self.first() {
            Some(level) => Some(Priority::from_level(level as u8)),
            None => None,
        }
    }

    /// Those that are less important than this priority.
    #[cfg_attr(feature = "fast-paths", inline(always))]
    pub(crate) const fn below(&self, prio: Priority) -> Self {
        // The bits above its own.
        let below = !1 << (Self::index(prio) & 63);
        if Self::word(prio) == 0 {
            Self([self.0[0] & below, self.0[1]])
        } else {
            Self([0, self.0[1] & below])
        }
    }

    /// The level of a priority as an index of a table.
    #[cfg_attr(feature = "fast-paths", inline(always))]
    pub(crate) const fn index(prio: Priority) -> usize {
        prio.rank() as usize & (Self::NR - 1)
    }

    /// Whether a priority's level is in the first word. Of its rank as it is: then no mask is needed for an index, either.
    #[cfg_attr(feature = "fast-paths", inline(always))]
    const fn is_in_first(prio: Priority) -> bool {
        prio.rank() < 64
    }

    #[cfg_attr(feature = "fast-paths", inline(always))]
    const fn word(prio: Priority) -> usize {
        Self::index(prio) >> 6
    }

    #[cfg_attr(feature = "fast-paths", inline(always))]
    const fn bit(prio: Priority) -> u64 {
        1 << (Self::index(prio) & 63)
    }
}
