//! [`Cost`]: instructions, with what comes on top as often as something happens.

use crate::explore::{GIVE, HANDLER, REPEATED, WAIT};
use crate::marks::REPEATS;

/// So many instructions, and so many more each time that one of the things happens that are counted: by their numbers in
/// [`Marks`](crate::marks::Marks). However many loops count the same, it happens that often in all of them together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Cost {
    pub(crate) own: u64,
    /// Calls of functions that are not the kernel's.
    pub(crate) handlers: u64,
    /// Locks of several CPUs that are taken.
    pub(crate) waits: u64,
    /// All three each time; as long as it has to be.
    pub(crate) each: Vec<[u64; 3]>,
}

impl Cost {
    /// Of an edge.
    pub(crate) fn of_edge(cost: u64) -> Self {
        let mut each = Vec::new();
        if cost >= REPEATED {
            each.resize(REPEATS + 1, [0; 3]);
            each[REPEATS][0] = cost / REPEATED;
        }
        Self {
            own: cost % HANDLER,
            handlers: cost % WAIT / HANDLER,
            waits: cost % GIVE / WAIT,
            each,
        }
    }

    /// One behind the other.
    pub(crate) fn plus(&self, other: &Self) -> Self {
        let mut sum = self.clone();
        sum.own += other.own;
        sum.handlers += other.handlers;
        sum.waits += other.waits;
        sum.raise_each(other);
        sum
    }

    /// Raises it to what is not less than both; whether it has more instructions then.
    pub(crate) fn raise(&mut self, other: &Self) -> bool {
        let is_more = self.own < other.own;
        self.own = self.own.max(other.own);
        self.handlers = self.handlers.max(other.handlers);
        self.waits = self.waits.max(other.waits);
        self.raise_each(other);
        is_more
    }

    /// As often as what is counted by that number happens, once for once. What else it counts is counted in all of these together.
    pub(crate) fn times(&self, by: usize) -> Self {
        let mut each = self.each.clone();
        each.resize(each.len().max(by + 1), [0; 3]);
        each[by] = [self.own, self.handlers, self.waits];
        Self {
            each,
            ..Self::default()
        }
    }

    fn raise_each(&mut self, other: &Self) {
        if self.each.len() < other.each.len() {
            self.each.resize(other.each.len(), [0; 3]);
        }
        for (mine, others) in self.each.iter_mut().zip(&other.each) {
            *mine = std::array::from_fn(|nr| mine[nr].max(others[nr]));
        }
    }
}
