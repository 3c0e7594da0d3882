//! Timers as a tournament: each inner node names the earlier of its two children's timers.
//!
//! Inner nodes are `1..N`, leaves `N..2N`; the parent of node `i` is `i / 2`. A leaf holds one timer or none. Leaves are
//! handed out from the first on, and only the part of the tree above as many leaves as were in use at once since it was
//! empty takes part: its root is `top`, a node of the left edge. So what an operation costs follows from the number of
//! timers and not from `N`.
//!
//! # Invariants
//! * A vacant leaf's key is [`u64::MAX`], and so is a node's below which all are vacant.
//! * Of each pair of siblings below `top`, the parent has the key and the leaf of the earlier: the lower key, or of
//!   equals the lower order. (Of two vacant ones either.)
//! * All leaves outside of `top`'s part are vacant, and above `top` are key 0 and a winner that is no leaf,
//!   where each way up ends.
//! * `place[id]` is a hint: the timer is in that leaf iff the leaf's order bears its id. A vacant leaf's bears none.

use crate::TimerId;

/// An armed timer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    pub(crate) deadline: u64,
    /// Count of insertions in the upper 48 bits, the id in the lower 16.
    pub(crate) order: u64,
}

impl Entry {
    /// No timer: later than all, and with an id that no timer has.
    pub(crate) const VACANT: Self = Self {
        deadline: u64::MAX,
        order: u64::MAX,
    };

    #[inline(always)]
    pub(crate) const fn is_vacant(self) -> bool {
        self.deadline == u64::MAX
    }

    #[inline(always)]
    pub(crate) const fn id(self) -> TimerId {
        TimerId::new(self.order as u16)
    }

    /// Whether this is the timer of that id.
    #[inline(always)]
    pub(crate) const fn is(self, id: TimerId) -> bool {
        self.id().raw() == id.raw()
    }
}

/// Words of the set of vacant leaves, enough for 2048.
const WORDS: usize = 32;
/// A winner above the root, which no leaf is.
const NO_LEAF: u16 = u16::MAX;

#[derive(Clone, Debug)]
pub(crate) struct TimerTree<const N: usize> {
    top: usize,
    /// Leaves below `top`.
    nr_leaves: usize,
    /// Vacant ones of these. Never none of all: the earliest timer is not here.
    nr_vacant: usize,
    /// Words of `vacant` that are not zero.
    vacant_words: u32,
    vacant: [u64; WORDS],
    keys: [[u64; 2]; N],
    /// The leaf that each node's key comes from.
    winners: [[u16; 2]; N],
    /// [`Entry::order`] of each leaf's timer.
    orders: [u64; N],
    place: [u16; N],
}

impl<const N: usize> TimerTree<N> {
    const IS_OF_A_SIZE: () = assert!(
        N.is_power_of_two() && N >= 2 && N <= 64 * WORDS,
        "a timer queue is for a power of two of timers, from 2 to 2048"
    );

    pub(crate) const fn new() -> Self {
        let () = Self::IS_OF_A_SIZE;
        let mut tree = Self {
            top: N,
            nr_leaves: 1,
            nr_vacant: 1,
            vacant_words: 0,
            vacant: [0; WORDS],
            keys: [[u64::MAX; 2]; N],
            winners: [[0; 2]; N],
            orders: [u64::MAX; N],
            place: [0; N],
        };
        tree.begin();
        tree
    }

    /// Empties it, whatever its bytes are.
    pub(crate) fn reset(&mut self) {
        let () = Self::IS_OF_A_SIZE;
        self.top = N;
        self.nr_leaves = 1;
        self.nr_vacant = 1;
        self.vacant_words = 0;
        self.keys.fill([u64::MAX; 2]);
        self.winners.fill([0; 2]);
        self.orders.fill(u64::MAX);
        self.place.fill(0);
        self.begin();
    }

    /// What is not the same in each entry of a table.
    const fn begin(&mut self) {
        let mut word = 0;
        while word < WORDS {
            self.vacant[word] = match N.saturating_sub(word * 64) {
                0 => 0,
                left @ 1..64 => (1 << left) - 1,
                _ => u64::MAX,
            };
            self.vacant_words |= ((self.vacant[word] != 0) as u32) << word;
            word += 1;
        }
        let leaves = self.winners.as_flattened_mut().split_at_mut(N).1;
        let mut leaf = 0;
        while leaf < leaves.len() {
            leaves[leaf] = leaf as u16;
            leaf += 1;
        }
        self.set_top(N);
    }

    /// The earliest timer's deadline; [`u64::MAX`] if there is none.
    #[inline(always)]
    pub(crate) const fn earliest(&self) -> u64 {
        self.keys.as_flattened()[self.top & (2 * N - 1)]
    }

    #[inline(always)]
    pub(crate) const fn is_empty(&self) -> bool {
        self.earliest() == u64::MAX
    }

    /// The leaf of a timer that is in the tree.
    #[inline(always)]
    pub(crate) const fn leaf_of(&self, id: TimerId) -> Option<usize> {
        let leaf = self.place[id.index() & (N - 1)] as usize;
        if self.orders[leaf & (N - 1)] as u16 == id.raw() {
            Some(leaf)
        } else {
            None
        }
    }

    /// Deadline of a leaf's timer.
    #[inline(always)]
    pub(crate) const fn deadline_at(&self, leaf: usize) -> u64 {
        self.keys.as_flattened()[(N + leaf) & (2 * N - 1)]
    }

    /// Whether all leaves that take part are in use, so that one more timer has to [`grow`](Self::grow) it.
    #[inline(always)]
    pub(crate) const fn is_full(&self) -> bool {
        self.nr_vacant == 0
    }

    /// Adds a timer that was armed after every other one here. There is room: a leaf for each id.
    #[inline(always)]
    pub(crate) fn insert(&mut self, entry: Entry) {
        if self.is_full() {
            return self.insert_and_grow(entry);
        }
        let leaf = self.fill(entry);
        let mut i = N + leaf;
        loop {
            self.set(i, entry.deadline, leaf);
            i /= 2;
            // An equal was armed before. Above the root it ends as well.
            if *self.key(i) <= entry.deadline {
                return;
            }
        }
    }

    /// [`insert`](Self::insert) where all leaves that take part are in use: as many more do from now on.
    #[cold]
    #[inline(never)]
    fn insert_and_grow(&mut self, entry: Entry) {
        self.grow();
        self.insert(entry);
    }

    /// Adds a timer that is before every other one here.
    #[inline(always)]
    pub(crate) fn insert_first(&mut self, entry: Entry) {
        if self.is_full() {
            core::hint::cold_path();
            self.grow();
        }
        let leaf = self.fill(entry);
        let mut i = N + leaf;
        while i >= self.top {
            self.set(i, entry.deadline, leaf);
            i /= 2;
        }
    }

    /// Takes the earliest timer out; [`Entry::VACANT`] if there is none.
    #[inline(always)]
    pub(crate) fn take_first(&mut self) -> Entry {
        if self.is_empty() {
            return Entry::VACANT;
        }
        let leaf = *self.winner(self.top) as usize;
        self.take::<true>(leaf)
    }

    /// Takes the timer of a leaf out; there is one.
    #[inline(always)]
    pub(crate) fn take_at(&mut self, leaf: usize) -> Entry {
        self.take::<false>(leaf)
    }

    #[inline(always)]
    fn take<const IS_FIRST: bool>(&mut self, leaf: usize) -> Entry {
        let entry = Entry {
            deadline: core::mem::replace(self.key(N + leaf), u64::MAX),
            order: core::mem::replace(&mut self.orders[leaf & (N - 1)], u64::MAX),
        };
        self.vacant[(leaf / 64) & (WORDS - 1)] |= 1 << (leaf % 64);
        self.vacant_words |= 1 << (leaf / 64);
        self.nr_vacant += 1;
        // Up to the root, or to where another had won: nothing changes from there on. Above the root it is so as well.
        let is_end = |tree: &mut Self, node: usize| {
            if IS_FIRST {
                node == tree.top
            } else {
                *tree.winner(node / 2) != leaf as u16
            }
        };
        if is_end(self, N + leaf) {
            return entry;
        }
        // The first step needs no comparison: nothing is left here.
        let mut other = ((N + leaf) & (2 * N - 1)) ^ 1;
        let (mut key, mut winner) = (*self.key(other), *self.winner(other));
        loop {
            let node = other / 2;
            self.set(node, key, winner as usize);
            if is_end(self, node) {
                return entry;
            }
            // Once, so that the compiler knows the range of what is made of it.
            other = (node ^ 1) & (2 * N - 1);
            let (other_key, other_winner) = (*self.key(other), *self.winner(other));
            if other_key == key {
                // Whoever was armed first.
                let (a, b) = (other_winner as usize & (N - 1), winner as usize & (N - 1));
                if self.orders[a] < self.orders[b] {
                    winner = other_winner;
                }
            } else if other_key < key {
                (key, winner) = (other_key, other_winner);
            }
        }
    }

    /// Whether fewer leaves would do: it is empty.
    #[inline(always)]
    pub(crate) const fn wants_shrinking(&self) -> bool {
        self.top != N && self.is_empty()
    }

    /// As few leaves take part as at the beginning. It is empty.
    #[cold]
    #[inline(never)]
    pub(crate) fn shrink(&mut self) {
        self.set_top(N);
        (self.nr_leaves, self.nr_vacant) = (1, 1);
    }

    /// Gives a timer the first vacant leaf. One of those that take part is.
    #[inline(always)]
    fn fill(&mut self, entry: Entry) -> usize {
        // There is one, which the highest bit says to the compiler.
        let words = self.vacant_words | 1 << (WORDS - 1);
        let word = words.trailing_zeros() as usize & (WORDS - 1);
        let leaf = (word * 64 + self.vacant[word].trailing_zeros() as usize) & (N - 1);
        self.vacant[word] &= self.vacant[word].wrapping_sub(1);
        if self.vacant[word] == 0 {
            self.vacant_words &= self.vacant_words.wrapping_sub(1);
        }
        self.nr_vacant -= 1;
        self.orders[leaf & (N - 1)] = entry.order;
        self.place[entry.id().index() & (N - 1)] = leaf as u16;
        leaf
    }

    /// As many more leaves take part, all of them vacant.
    #[cold]
    #[inline(never)]
    pub(crate) fn grow(&mut self) {
        let (key, winner) = (*self.key(self.top), *self.winner(self.top));
        self.set_top(self.top / 2);
        self.nr_vacant += self.nr_leaves;
        self.nr_leaves *= 2;
        self.set(self.top, key, winner as usize);
    }

    /// Makes a node of the left edge the root: its key and winner are right.
    #[inline(always)]
    const fn set_top(&mut self, top: usize) {
        self.top = top;
        *self.key(top / 2) = 0;
        *self.winner(top / 2) = NO_LEAF;
    }

    #[inline(always)]
    const fn key(&mut self, node: usize) -> &mut u64 {
        &mut self.keys.as_flattened_mut()[node & (2 * N - 1)]
    }

    #[inline(always)]
    const fn winner(&mut self, node: usize) -> &mut u16 {
        &mut self.winners.as_flattened_mut()[node & (2 * N - 1)]
    }

    #[inline(always)]
    fn set(&mut self, node: usize, key: u64, winner: usize) {
        *self.key(node) = key;
        *self.winner(node) = winner as u16;
    }
}
