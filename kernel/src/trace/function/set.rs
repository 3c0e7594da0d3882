//! Sets of functions.

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::entry::entries;
use crate::compact::counted;
use crate::config::MAX_FUNCTIONS;

/// Words of a set.
pub(super) const WORDS: usize = MAX_FUNCTIONS / 64;

/// A set of functions, named by their ids: the place in [`entries`], which is that in the image's section
/// `__patchable_function_entries`, where the host finds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Filter([u64; WORDS]);

impl Filter {
    /// No function.
    pub const NONE: Self = Self([0; WORDS]);
    /// Every function that may be traced.
    pub const ALL: Self = Self([u64::MAX; WORDS]);

    /// The functions with these ids. One that does not exist is left out.
    #[must_use]
    pub fn of_ids(ids: impl IntoIterator<Item = usize>) -> Self {
        let mut filter = Self::NONE;
        ids.into_iter().for_each(|id| filter.insert(id));
        filter
    }

    /// The functions that begin at these addresses. Other addresses are left out.
    #[must_use]
    pub fn of_addresses(addresses: &[usize]) -> Self {
        Self::of_ids(addresses.iter().filter_map(|address| id_of(*address)))
    }

    /// Adds a function.
    pub fn insert(&mut self, id: usize) {
        if let Some(word) = self.0.get_mut(id / 64) {
            *word |= 1 << (id % 64);
        }
    }

    /// Takes a function out.
    pub fn remove(&mut self, id: usize) {
        if let Some(word) = self.0.get_mut(id / 64) {
            *word &= !(1 << (id % 64));
        }
    }

    /// Whether it is in the set.
    #[must_use]
    pub fn contains(&self, id: usize) -> bool {
        self.0
            .get(id / 64)
            .is_some_and(|word| word >> (id % 64) & 1 != 0)
    }

    /// The ids of those in it.
    pub(super) fn ids(&self) -> impl Iterator<Item = u32> + Clone {
        (0..MAX_FUNCTIONS as u32).filter(|id| self.contains(*id as usize))
    }

    /// What is in this set and not in the other.
    #[must_use]
    pub fn without(mut self, other: &Self) -> Self {
        for (word, other) in self.0.iter_mut().zip(other.0) {
            *word &= !other;
        }
        self
    }
}

/// The id of the function that begins at an address.
///
/// # Context
/// Any.
#[must_use]
#[inline(never)]
pub fn id_of(address: usize) -> Option<usize> {
    entries().binary_search(&address).ok()
}

/// A set that a hook looks into while another CPU changes it.
#[derive(Debug)]
pub(super) struct SharedFilter([AtomicU64; WORDS]);

impl SharedFilter {
    pub(super) const fn none() -> Self {
        Self([const { AtomicU64::new(0) }; WORDS])
    }

    pub(super) const fn all() -> Self {
        Self([const { AtomicU64::new(u64::MAX) }; WORDS])
    }

    /// The word that a host begins to read at.
    pub(super) const fn first_word(&self) -> &AtomicU64 {
        &self.0[0]
    }

    #[inline(never)]
    pub(super) fn load(&self) -> Filter {
        let mut filter = Filter::NONE;
        for i in counted(WORDS) {
            filter.0[i] = self.word(i).load(Relaxed);
        }
        filter
    }

    #[inline(never)]
    pub(super) fn store(&self, filter: &Filter) {
        for i in counted(WORDS) {
            self.word(i).store(filter.0[i], Relaxed);
        }
    }

    /// One of its words, below [`WORDS`].
    #[inline(always)]
    pub(super) fn word(&self, number: usize) -> &AtomicU64 {
        &self.0[number]
    }

    /// Whether the function that begins at this address is in it.
    #[inline(never)]
    pub(super) fn has(&self, ip: u32) -> bool {
        id_of(ip as usize).is_some_and(|id| self.contains(id))
    }

    #[inline(never)]
    pub(super) fn contains(&self, id: usize) -> bool {
        self.0
            .get(id / 64)
            .is_some_and(|word| word.load(Relaxed) >> (id % 64) & 1 != 0)
    }
}
