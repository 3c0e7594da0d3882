//! Armed timers in order of their deadlines.
//!
//! A binary min-heap, all static. The earliest timer, the root, lies outside of the array: to
//! read it is one load, and a queue of one timer touches nothing else. Slots not in use hold a
//! key above all others, so the way down needs no look at the number of timers.
//!
//! The children of the root are `slots[0..2]`, those of `slots[s]` are `slots[2(s + 1)..][..2]`.
//!
//! Two children and not four: counted over pop and insert of periodic timers, that takes fewer
//! instructions up to some 300 timers (a fifth fewer with two or three).
//!
//! # Invariants
//! * A node's key is below those of its children. Keys differ: the deadline, then the order of
//!   insertion, then the id.
//! * `first.deadline` is [`u64::MAX`] iff no timer is armed; `first.order` is stale then.
//! * Slots from `nr_slots` on are [`Entry::VACANT`].
//! * `place[id]` is a hint: the timer is in that slot iff the slot's entry bears its id. So
//!   neither arming nor expiry of the root has to write it.
//!
//! # Order
//! Timers of equal deadline expire in the order of their last insertion. It costs one `sbb` a
//! comparison and nothing in a queue of one. (The counter of insertions has 48 bits; at a million
//! a second it wraps after nine years, and then equals of that instant may swap once.)

use crate::TimerId;

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

/// Children of a node.
const ARITY: usize = 2;

/// An armed timer in the heap.
#[derive(Clone, Copy, Debug)]
struct Entry {
    deadline: u64,
    /// Count of insertions in the upper 48 bits, the id in the lower 16.
    order: u64,
}

impl Entry {
    /// A slot not in use: above every key, and with an id that no timer has.
    const VACANT: Self = Self {
        deadline: u64::MAX,
        order: u64::MAX,
    };

    /// What the heap is ordered by.
    #[inline]
    const fn key(self) -> u128 {
        (self.deadline as u128) << 64 | self.order as u128
    }

    #[inline]
    const fn id(self) -> TimerId {
        TimerId::new(self.order as u16)
    }
}

/// The armed timers, of the ids `0..N`. `N` is a power of two from 2 to 2048.
///
/// A deadline of [`u64::MAX`] means never: a timer armed with it is not armed.
#[derive(Clone, Debug)]
pub struct TimerQueue<const N: usize> {
    /// The root: the earliest timer.
    first: Entry,
    /// How many timers are armed besides the root.
    nr_slots: usize,
    /// The next insertion's count, in the place it has in [`Entry::order`].
    nr_inserted: u64,
    place: [u16; N],
    slots: [Entry; N],
}

impl<const N: usize> TimerQueue<N> {
    /// A queue without timers.
    #[must_use]
    pub const fn new() -> Self {
        const { assert!(N.is_power_of_two() && N >= ARITY && N <= 2048) };
        Self {
            first: Entry::VACANT,
            nr_slots: 0,
            nr_inserted: 1 << 16,
            place: [0; N],
            slots: [Entry::VACANT; N],
        }
    }

    /// Empties a queue in place, whatever its bytes are: for a static one that begins as zeros, so that the image
    /// need not carry its tables.
    pub fn reset(&mut self) {
        self.first = Entry::VACANT;
        self.nr_slots = 0;
        self.nr_inserted = 1 << 16;
        self.place.fill(0);
        self.slots.fill(Entry::VACANT);
    }

    /// How many timers are armed.
    #[inline(always)]
    #[must_use]
    pub const fn len(&self) -> usize {
        self.nr_slots + !self.is_empty() as usize
    }

    /// Whether no timer is armed.
    #[inline(always)]
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.first.deadline == u64::MAX
    }

    /// Whether a timer is armed.
    #[inline]
    #[must_use]
    pub const fn is_armed(&self, id: TimerId) -> bool {
        self.is_first(id) || self.slot_of(id).is_some()
    }

    /// Deadline of the earliest timer; [`u64::MAX`] if there is none.
    #[inline(always)]
    #[must_use]
    pub const fn earliest_deadline(&self) -> u64 {
        self.first.deadline
    }

    /// The earliest timer with its deadline.
    ///
    /// A periodic timer is best looked at here and moved by [`insert`](Self::insert): one way
    /// through the heap instead of the two of taking it out and putting it in again.
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
        match self.slot_of(id) {
            Some(slot) => Some(self.slots[slot & (N - 1)].deadline),
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
        if self.nr_slots == 0 {
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
        } else if self.nr_slots == 0 {
            self.first.deadline = u64::MAX;
            Some(expired)
        } else {
            // Gives what is already known, so that nothing need survive the call.
            Some(self.pop_among())
        }
    }

    /// Whether a timer is armed and the earliest.
    #[inline(always)]
    const fn is_first(&self, id: TimerId) -> bool {
        self.first.id().raw() == id.raw() && !self.is_empty()
    }

    /// The slot of a timer that is armed and not the earliest.
    #[inline(always)]
    const fn slot_of(&self, id: TimerId) -> Option<usize> {
        let slot = self.place[id.index() & (N - 1)] as usize;
        if self.slots[slot & (N - 1)].id().raw() == id.raw() {
            Some(slot)
        } else {
            None
        }
    }

    /// Takes the root out of the heap, where there is another timer.
    #[inline(never)]
    fn pop_among(&mut self) -> (TimerId, u64) {
        let first = self.first;
        let last = self.take_last();
        self.settle_from_first(last);
        (first.id(), first.deadline)
    }

    /// [`cancel`](Self::cancel) of a timer other than the root.
    #[inline(never)]
    fn cancel_later(&mut self, id: TimerId) -> Cancelled {
        let Some(slot) = self.slot_of(id) else {
            return Cancelled::NotArmed;
        };
        let last = self.take_last();
        if slot != self.nr_slots {
            self.settle(slot, last);
        }
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
        if self.first.id().raw() == id.raw() {
            return self.move_first(entry);
        }
        if let Some(slot) = self.slot_of(id) {
            return Self::inserted(self.settle(slot, entry));
        }
        let slot = self.nr_slots;
        self.nr_slots += 1;
        Self::inserted(self.sift_up(slot, entry))
    }

    /// A timer that was not the root, and whether it is now.
    #[inline(always)]
    const fn inserted(is_first: bool) -> Inserted {
        if is_first {
            Inserted::Earliest
        } else {
            Inserted::Later
        }
    }

    /// [`insert`](Self::insert) with a deadline that never comes.
    #[cold]
    fn insert_never(&mut self, id: TimerId) -> Inserted {
        match self.cancel(id) {
            Cancelled::Earliest => Inserted::Moved,
            Cancelled::Later | Cancelled::NotArmed => Inserted::Later,
        }
    }

    /// [`insert`](Self::insert) of the root.
    #[inline(never)]
    fn move_first(&mut self, entry: Entry) -> Inserted {
        self.settle_from_first(entry);
        Inserted::Moved
    }

    /// Takes the last slot's entry out; there is one.
    #[inline(always)]
    fn take_last(&mut self) -> Entry {
        self.nr_slots -= 1;
        core::mem::replace(&mut self.slots[self.nr_slots & (N - 1)], Entry::VACANT)
    }

    /// Puts an entry in for the root, wherever it belongs.
    #[inline(always)]
    fn settle_from_first(&mut self, entry: Entry) {
        let (slot, child) = self.least_child(0).unwrap_or((0, Entry::VACANT));
        if entry.key() < child.key() {
            self.first = entry;
        } else {
            self.first = child;
            self.sift_down(slot, entry);
        }
    }

    /// Puts an entry in for the one in `slot`, wherever it belongs; whether it is now the root.
    #[inline(never)]
    fn settle(&mut self, slot: usize, entry: Entry) -> bool {
        if entry.key() < self.slots[slot & (N - 1)].key() {
            self.sift_up(slot, entry)
        } else {
            self.sift_down(slot, entry);
            false
        }
    }

    /// Puts an entry in at `slot`, or nearer to the root if it is before its parents; whether it
    /// is now the root.
    #[inline(always)]
    fn sift_up(&mut self, mut slot: usize, entry: Entry) -> bool {
        while let Some(&above) = self.slots.get((slot / ARITY).wrapping_sub(1)) {
            if above.key() < entry.key() {
                self.put(slot, entry);
                return false;
            }
            self.put(slot, above);
            slot = slot / ARITY - 1;
        }
        let is_first = entry.key() < self.first.key();
        if is_first {
            self.put(slot, self.first);
            self.first = entry;
        } else {
            self.put(slot, entry);
        }
        is_first
    }

    /// Puts an entry in at `slot`, or further down if children are before it.
    #[inline(always)]
    fn sift_down(&mut self, mut slot: usize, entry: Entry) {
        while let Some((below, child)) = self.least_child(slot + 1) {
            if entry.key() < child.key() {
                break;
            }
            self.put(slot, child);
            slot = below;
        }
        self.put(slot, entry);
    }

    /// The least of a group of children with its slot; `None` beyond the end of the array.
    #[inline(always)]
    fn least_child(&self, group: usize) -> Option<(usize, Entry)> {
        let [left, right] = *self.slots.as_chunks::<ARITY>().0.get(group)?;
        let (offset, least) = if right.key() < left.key() {
            (1, right)
        } else {
            (0, left)
        };
        Some((group * ARITY + offset, least))
    }

    /// Writes a slot and notes the place.
    #[inline(always)]
    fn put(&mut self, slot: usize, entry: Entry) {
        self.slots[slot & (N - 1)] = entry;
        self.place[entry.id().index() & (N - 1)] = slot as u16;
    }
}

impl<const N: usize> Default for TimerQueue<N> {
    fn default() -> Self {
        Self::new()
    }
}
