//! Armed timers in order of their deadlines, all static.
//!
//! The earliest few stand sorted in front, the others in a tournament ([`crate::timer_tree`]). So
//! to read the earliest is one load, a queue of one timer touches nothing else, and what the
//! timer's interrupt does, taking the earliest out, is moving up three entries however many timers
//! there are. Only when that happens several times with nothing done in between does the tournament
//! have to tell its first at once; else [`TimerQueue::care`] moves it up beforehand, which the
//! kernel calls where a thread has armed or disarmed a timer.
//!
//! # Invariants
//! * `first.deadline` is [`u64::MAX`] iff no timer is armed; `first.order` is stale then.
//! * `first`, `next[0]`, `next[1]`, `next[2]` are sorted, the vacant ones last, and none of them is
//!   after a timer in `tree`.
//!
//! # Order
//! Timers of equal deadline expire in the order of their last insertion. The places in front keep
//! that order by themselves; the tree looks at the count of insertions where deadlines are equal.
//! (The counter has 48 bits; at a million a second it wraps after nine years, and then equals of
//! that instant may swap once.)
//!
//! # Memory
//! 30 bytes for each id.

use crate::TimerId;
use crate::timer_tree::{Entry, TimerTree};

/// What [`TimerQueue::cancel`] found.
#[must_use = "after `Earliest` the hardware timer is set for a timer that is gone"]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cancelled {
    /// It was not armed: never was, or has expired already.
    NotArmed,
    /// It was armed and not the earliest: the hardware timer stays as it is.
    Later,
    /// It was the earliest: the earliest deadline is another now, or none.
    Earliest,
}

impl Cancelled {
    /// Whether the timer was armed.
    #[inline]
    #[must_use]
    pub const fn was_armed(self) -> bool {
        !matches!(self, Self::NotArmed)
    }
}

/// What [`TimerQueue::insert`] did to the earliest deadline.
#[must_use = "the hardware timer must follow the earliest deadline"]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Inserted {
    /// Nothing: the hardware timer stays as it is.
    Later,
    /// It is this timer's, the one just given.
    Earliest,
    /// The timer had it before and was moved: ask [`TimerQueue::earliest_deadline`] whose it is now.
    Moved,
}

/// The armed timers, of the ids `0..N`. `N` is a power of two from 2 to 2048.
///
/// A deadline of [`u64::MAX`] means never: a timer armed with it is not armed.
#[derive(Clone, Debug)]
// Not `first` at the start: the compiler would then compute the queue's address in the interrupt, for one timer in vain.
#[repr(C)]
pub struct TimerQueue<const N: usize> {
    /// The next insertion's count, in the place it has in [`Entry::order`].
    nr_inserted: u64,
    /// How many timers are armed besides the first.
    nr_others: usize,
    /// The earliest timer.
    first: Entry,
    next: [Entry; 3],
    tree: TimerTree<N>,
}

impl<const N: usize> TimerQueue<N> {
    /// A queue without timers.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            first: Entry::VACANT,
            nr_others: 0,
            nr_inserted: 1 << 16,
            next: [Entry::VACANT; 3],
            tree: TimerTree::new(),
        }
    }

    /// Empties a queue in place, whatever its bytes are: for a static one that begins as zeros, so that the image
    /// need not carry its tables.
    pub fn reset(&mut self) {
        self.first = Entry::VACANT;
        self.nr_others = 0;
        self.nr_inserted = 1 << 16;
        self.next = [Entry::VACANT; 3];
        self.tree.reset();
    }

    /// How many timers are armed.
    #[inline(always)]
    #[must_use]
    pub const fn len(&self) -> usize {
        self.nr_others + !self.is_empty() as usize
    }

    /// Whether no timer is armed.
    #[inline(always)]
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.first.is_vacant()
    }

    /// Whether a timer is armed.
    #[inline]
    #[must_use]
    pub const fn is_armed(&self, id: TimerId) -> bool {
        self.is_first(id) || self.is_later(id)
    }

    /// Deadline of the earliest timer; [`u64::MAX`] if there is none.
    #[inline(always)]
    #[must_use]
    pub const fn earliest_deadline(&self) -> u64 {
        self.first.deadline
    }

    /// The earliest timer with its deadline.
    #[inline(always)]
    #[must_use]
    pub const fn earliest(&self) -> Option<(u64, TimerId)> {
        if self.is_empty() {
            None
        } else {
            Some((self.first.deadline, self.first.id()))
        }
    }

    /// The deadline of an armed timer.
    #[inline]
    #[must_use]
    pub const fn deadline_of(&self, id: TimerId) -> Option<u64> {
        if self.is_first(id) {
            return Some(self.first.deadline);
        }
        let mut i = 0;
        while i < self.next.len() {
            if self.next[i].is(id) {
                return Some(self.next[i].deadline);
            }
            i += 1;
        }
        match self.tree.leaf_of(id) {
            Some(leaf) => Some(self.tree.deadline_at(leaf)),
            None => None,
        }
    }

    /// Arms a timer, or moves an armed one.
    ///
    /// (A deadline of `u64::MAX` in an empty queue is [`Inserted::Earliest`], though nothing changes.)
    #[inline(always)]
    pub fn insert(&mut self, id: TimerId, deadline: u64) -> Inserted {
        debug_assert!(id.index() < N, "the queue has no timer of this id");
        if self.is_empty() {
            // Alone, a timer needs no count: every later one gets a higher.
            self.first = Entry {
                deadline,
                order: id.raw() as u64,
            };
            Inserted::Earliest
        } else {
            self.insert_among(id, deadline)
        }
    }

    /// Disarms a timer.
    #[inline(always)]
    pub fn cancel(&mut self, id: TimerId) -> Cancelled {
        if !self.is_first(id) {
            return self.cancel_later(id);
        }
        if self.nr_others == 0 {
            self.first.deadline = u64::MAX;
        } else {
            self.pop_among();
        }
        Cancelled::Earliest
    }

    /// Disarms the earliest timer if its deadline is not after `now`; gives it with its deadline.
    ///
    /// `now` must be below [`u64::MAX`]: a counter of cycles gets there after a hundred years.
    #[inline(always)]
    pub fn pop_expired(&mut self, now: u64) -> Option<(TimerId, u64)> {
        debug_assert!(now < u64::MAX, "the clock is at its end");
        let expired = (self.first.id(), self.first.deadline);
        if expired.1 > now {
            None
        } else if self.nr_others == 0 {
            self.first.deadline = u64::MAX;
            Some(expired)
        } else {
            // Gives what is already known, so that nothing need survive the call.
            Some(self.pop_among())
        }
    }

    /// Whether [`care`](Self::care) has something to do.
    #[inline(always)]
    #[must_use]
    pub const fn wants_care(&self) -> bool {
        self.wants_room()
            || self.next[1].is_vacant() && (!self.tree.is_empty() || self.tree.wants_shrinking())
    }

    /// Whether [`insert`](Self::insert) of a further timer might have to make room first.
    #[inline(always)]
    #[must_use]
    pub const fn wants_room(&self) -> bool {
        !self.next[2].is_vacant() || self.tree.is_full()
    }

    /// One step of preparing what [`insert`](Self::insert) and [`pop_expired`](Self::pop_expired) else do themselves:
    /// three timers in front and room for one more, there and in the tournament. Never needed, but
    /// makes those short; a few steps at most are wanted after each other.
    #[inline(never)]
    pub fn care(&mut self) {
        let [a, b, c] = &mut self.next;
        if self.tree.is_full() {
            self.tree.grow();
        } else if !c.is_vacant() {
            let last = core::mem::replace(c, Entry::VACANT);
            self.tree.insert_first(last);
        } else if b.is_vacant() {
            if self.tree.wants_shrinking() {
                return self.tree.shrink();
            }
            let place = if a.is_vacant() { a } else { b };
            *place = self.tree.take_first();
        }
    }

    /// Whether a timer is armed and the earliest.
    #[inline(always)]
    const fn is_first(&self, id: TimerId) -> bool {
        self.first.is(id) && !self.is_empty()
    }

    /// Whether a timer is armed and not the earliest.
    #[inline(always)]
    const fn is_later(&self, id: TimerId) -> bool {
        let [a, b, c] = self.next;
        a.is(id) || b.is(id) || c.is(id) || self.tree.leaf_of(id).is_some()
    }

    /// Takes the earliest out, where there is another timer.
    #[inline(never)]
    fn pop_among(&mut self) -> (TimerId, u64) {
        let first = self.first;
        self.nr_others -= 1;
        let [a, b, c] = self.next;
        self.first = a;
        self.next = [b, c, Entry::VACANT];
        if a.is_vacant() {
            self.refill();
        }
        (first.id(), first.deadline)
    }

    /// The first is to come out of the tree.
    #[cold]
    #[inline(never)]
    fn refill(&mut self) {
        self.first = self.tree.take_first();
    }

    /// [`cancel`](Self::cancel) of a timer other than the earliest.
    #[inline(never)]
    fn cancel_later(&mut self, id: TimerId) -> Cancelled {
        let [a, b, c] = self.next;
        if a.is(id) {
            self.next = [b, c, Entry::VACANT];
        } else if b.is(id) {
            self.next = [a, c, Entry::VACANT];
        } else if c.is(id) {
            self.next[2] = Entry::VACANT;
        } else if let Some(leaf) = self.tree.leaf_of(id) {
            self.tree.take_at(leaf);
        } else {
            return Cancelled::NotArmed;
        }
        self.nr_others -= 1;
        Cancelled::Later
    }

    /// [`insert`](Self::insert) into a queue that is not empty.
    #[inline(never)]
    fn insert_among(&mut self, id: TimerId, deadline: u64) -> Inserted {
        if deadline == u64::MAX {
            return self.insert_never(id);
        }
        let entry = Entry {
            deadline,
            order: self.nr_inserted | id.raw() as u64,
        };
        self.nr_inserted = self.nr_inserted.wrapping_add(1 << 16);
        // Not `is_first`, which asks again whether the queue is empty.
        if self.first.is(id) {
            return self.move_first(entry);
        }
        if self.is_later(id) {
            return self.move_later(entry);
        }
        self.nr_others += 1;
        self.put(entry)
    }

    /// [`insert`](Self::insert) of one that is armed and not the earliest.
    #[inline(never)]
    fn move_later(&mut self, entry: Entry) -> Inserted {
        let _: Cancelled = self.cancel_later(entry.id());
        self.nr_others += 1;
        self.put(entry)
    }

    /// [`insert`](Self::insert) with a deadline that never comes.
    #[cold]
    fn insert_never(&mut self, id: TimerId) -> Inserted {
        match self.cancel(id) {
            Cancelled::Earliest => Inserted::Moved,
            Cancelled::Later | Cancelled::NotArmed => Inserted::Later,
        }
    }

    /// [`insert`](Self::insert) of the earliest.
    #[inline(never)]
    fn move_first(&mut self, entry: Entry) -> Inserted {
        if self.nr_others == 0 {
            self.first = entry;
        } else {
            self.pop_among();
            self.nr_others += 1;
            let _: Inserted = self.put(entry);
        }
        Inserted::Moved
    }

    /// Puts the timer that was armed last where it belongs.
    #[inline(always)]
    fn put(&mut self, entry: Entry) -> Inserted {
        let [a, b, c] = self.next;
        let deadline = entry.deadline;
        if deadline >= self.tree.earliest() || deadline >= c.deadline {
            self.tree.insert(entry);
            return Inserted::Later;
        }
        if !c.is_vacant() {
            return self.make_room_and_put(entry);
        }
        if deadline >= b.deadline {
            self.next[2] = entry;
            return Inserted::Later;
        }
        self.next[2] = b;
        if deadline >= a.deadline {
            self.next[1] = entry;
            return Inserted::Later;
        }
        self.next[1] = a;
        if deadline >= self.first.deadline {
            self.next[0] = entry;
            return Inserted::Later;
        }
        self.next[0] = self.first;
        self.first = entry;
        Inserted::Earliest
    }

    /// [`put`](Self::put) among those in front, of which the last goes into the tree.
    #[inline(never)]
    fn make_room_and_put(&mut self, entry: Entry) -> Inserted {
        self.care();
        self.put(entry)
    }
}

impl<const N: usize> Default for TimerQueue<N> {
    fn default() -> Self {
        Self::new()
    }
}
