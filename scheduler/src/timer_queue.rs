//! Armed timers in order of their deadlines, all static.
//!
//! The earliest few stand sorted in front, the others in a list ([`crate::timer_list`]). So to read the earliest is one
//! load, a queue of one timer touches nothing else, and what the timer's interrupt does, taking the earliest out, is
//! moving up three entries, or taking the first off the list, however many timers there are. Looking for the place of a
//! timer in the list takes longer the more there are, and is done in steps ([`TimerQueue::insert_step`]), between which
//! the queue may change.
//!
//! Timer 0 is never in the list: it is the quantum's, which is armed and disarmed at every switch, and has a place of its
//! own.
//!
//! # Invariants
//! * `first.deadline` is [`u64::MAX`] iff no timer is armed; `first.id` is stale then.
//! * `first`, `next[0]`, `next[1]`, `next[2]` are sorted, the vacant ones last, and none of them is after a timer in the
//!   list. (All of `next` may be vacant where the list is not empty.)
//! * `timer_0` is the deadline of timer 0 if it is armed and not the first, else [`u64::MAX`]; `first` is not after it.
//!
//! # Order
//! Timers of equal deadline expire in the order of their last insertion, but timer 0 before the others.
//!
//! # Memory
//! 33 bytes for each id.

use crate::TimerId;
use crate::timer_list::{Place, TimerList};

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

/// An insertion that has not come to its end ([`TimerQueue::insert_step`]).
#[derive(Clone, Copy, Debug)]
pub struct Insertion {
    place: Place,
    /// The search has come to its end.
    is_found: bool,
    /// It was armed and the earliest.
    was_first: bool,
}

impl Insertion {
    /// One that has not begun.
    pub const NEW: Self = Self {
        place: Place::START,
        is_found: false,
        was_first: false,
    };

    #[inline(always)]
    fn result(&self, inserted: Inserted) -> Inserted {
        if self.was_first {
            Inserted::Moved
        } else {
            inserted
        }
    }
}

/// An armed timer.
#[derive(Clone, Copy, Debug)]
struct Entry {
    deadline: u64,
    /// The number, in a whole word: it is compared and moved only.
    id: u64,
}

impl Entry {
    /// No timer: later than all, and with an id that no timer has.
    const VACANT: Self = Self {
        deadline: u64::MAX,
        id: u64::MAX,
    };

    #[inline(always)]
    const fn new(id: TimerId, deadline: u64) -> Self {
        Self {
            deadline,
            id: id.raw() as u64,
        }
    }

    #[inline(always)]
    const fn is_vacant(self) -> bool {
        self.deadline == u64::MAX
    }

    #[inline(always)]
    const fn id(self) -> TimerId {
        TimerId::new(self.id as u16)
    }

    /// Whether this is the timer of that id.
    #[inline(always)]
    const fn is(self, id: TimerId) -> bool {
        self.id == id.raw() as u64
    }
}

/// The armed timers, of the ids `0..N`. `N` is a power of two from 2 to 2048.
///
/// A deadline of [`u64::MAX`] means never: a timer armed with it is not armed.
#[derive(Clone, Debug)]
// Not `first` at the start: the compiler would then compute the queue's address in the interrupt, for one timer in vain.
#[repr(C)]
pub struct TimerQueue<const N: usize> {
    /// How many timers are armed besides the first.
    nr_others: usize,
    /// The earliest timer.
    first: Entry,
    next: [Entry; 3],
    timer_0: u64,
    list: TimerList<N>,
}

impl<const N: usize> TimerQueue<N> {
    /// A queue without timers.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            first: Entry::VACANT,
            nr_others: 0,
            next: [Entry::VACANT; 3],
            timer_0: u64::MAX,
            list: TimerList::new(),
        }
    }

    /// Empties a queue in place, whatever its bytes are: for a static one that begins as zeros, so that the image
    /// need not carry its tables.
    pub fn reset(&mut self) {
        self.first = Entry::VACANT;
        self.nr_others = 0;
        self.next = [Entry::VACANT; 3];
        self.timer_0 = u64::MAX;
        self.list.reset();
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
        self.deadline_of(id).is_some()
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
        if id.raw() == 0 {
            return if self.timer_0 == u64::MAX {
                None
            } else {
                Some(self.timer_0)
            };
        }
        let [a, b, c] = self.next;
        if a.is(id) {
            Some(a.deadline)
        } else if b.is(id) {
            Some(b.deadline)
        } else if c.is(id) {
            Some(c.deadline)
        } else if self.list.contains(id) {
            Some(self.list.deadline_of(id))
        } else {
            None
        }
    }

    /// Arms a timer, or moves an armed one.
    ///
    /// (A deadline of `u64::MAX` in an empty queue is [`Inserted::Earliest`], though nothing changes.)
    #[inline(always)]
    pub fn insert(&mut self, id: TimerId, deadline: u64) -> Inserted {
        debug_assert!(id.index() < N, "the queue has no timer of this id");
        if self.is_empty() {
            self.first = Entry::new(id, deadline);
            Inserted::Earliest
        } else if id.raw() == 0 {
            self.insert_0(deadline)
        } else {
            self.insert_among(id, deadline)
        }
    }

    /// [`insert`](Self::insert) into a queue that is not empty.
    #[inline(never)]
    fn insert_among(&mut self, id: TimerId, deadline: u64) -> Inserted {
        let mut insertion = Insertion::NEW;
        if deadline == u64::MAX {
            self.begin_move(id, &mut insertion);
            return insertion.result(Inserted::Later);
        }
        loop {
            if let Some(inserted) = self.insert_step(id, deadline, &mut insertion) {
                return inserted;
            }
        }
    }

    /// [`insert`](Self::insert) of timer 0 into a queue that is not empty.
    #[cold]
    #[inline(never)]
    fn insert_0(&mut self, deadline: u64) -> Inserted {
        let mut insertion = Insertion::NEW;
        self.begin_move(TimerId::new(0), &mut insertion);
        if deadline == u64::MAX {
            return insertion.result(Inserted::Later);
        }
        if deadline > self.first.deadline {
            self.timer_0 = deadline;
            self.nr_others += 1;
            return insertion.result(Inserted::Later);
        }
        let first = core::mem::replace(&mut self.first, Entry::new(TimerId::new(0), deadline));
        if !first.is_vacant() {
            let [a, b, c] = self.next;
            self.next = [first, a, b];
            self.nr_others += 1;
            if !c.is_vacant() {
                self.list.insert_first(c.id(), c.deadline);
            }
        }
        insertion.result(Inserted::Earliest)
    }

    /// The first step of [`insert`](Self::insert) into a queue that is not empty, and the only one if the timer is not
    /// armed and its place is in front. As [`insert_step`](Self::insert_step).
    #[inline(always)]
    pub fn insert_in_front(
        &mut self,
        id: TimerId,
        deadline: u64,
        insertion: &mut Insertion,
    ) -> Option<Inserted> {
        if self.first.is(id) || self.is_later(id) {
            core::hint::cold_path();
            self.begin_move(id, insertion);
            return None;
        }
        if deadline >= self.list.earliest() {
            return None;
        }
        self.nr_others += 1;
        Some(insertion.result(self.put_in_front(Entry::new(id, deadline))))
    }

    /// One step of [`insert`](Self::insert) of any timer but timer 0, with any deadline but [`u64::MAX`]; gives its
    /// result with the last one. Between two steps anything else may be done to the queue. A timer that is armed is
    /// disarmed in a step before the last.
    #[inline(always)]
    pub fn insert_step(
        &mut self,
        id: TimerId,
        deadline: u64,
        insertion: &mut Insertion,
    ) -> Option<Inserted> {
        debug_assert!(id.raw() != 0, "timer 0 needs no steps");
        debug_assert!(deadline != u64::MAX, "never is no deadline");
        if !insertion.is_found {
            insertion.is_found = self.list.seek(deadline, &mut insertion.place);
            return None;
        }
        if self.is_empty() {
            core::hint::cold_path();
            self.first = Entry::new(id, deadline);
            return Some(insertion.result(Inserted::Earliest));
        }
        let is_in_front = self.insert_in_front(id, deadline, insertion);
        if is_in_front.is_some() || !insertion.is_found {
            return is_in_front;
        }
        insertion.is_found = false;
        if !self.list.is_place(deadline, &insertion.place) {
            return None;
        }
        self.nr_others += 1;
        self.list.insert(id, deadline, &insertion.place);
        Some(insertion.result(Inserted::Later))
    }

    /// Whether [`tidy`](Self::tidy) has something to do.
    #[inline(always)]
    #[must_use]
    pub const fn wants_tidying(&self) -> bool {
        self.list.has_relics()
    }

    /// One step of what the next search would else have to do first: of timers that have expired something is left in
    /// the list. Never needed.
    #[inline(always)]
    pub fn tidy(&mut self) {
        self.list.tidy();
    }

    /// Checks the list's invariants, in O(N); for tests.
    ///
    /// # Errors
    /// What is not as it has to be.
    pub fn verify(&self) -> Result<(), &'static str> {
        self.list.verify()
    }

    /// The first step of arming an armed timer.
    #[cold]
    #[inline(never)]
    fn begin_move(&mut self, id: TimerId, insertion: &mut Insertion) {
        insertion.was_first |= self.cancel(id) == Cancelled::Earliest;
        insertion.is_found = false;
    }

    /// Disarms a timer.
    #[inline(always)]
    pub fn cancel(&mut self, id: TimerId) -> Cancelled {
        if !self.is_first(id) {
            return if id.raw() == 0 {
                self.cancel_0()
            } else {
                self.cancel_later(id)
            };
        }
        if self.nr_others == 0 {
            self.first.deadline = u64::MAX;
        } else {
            self.cancel_first();
        }
        Cancelled::Earliest
    }

    /// Disarms the earliest timer if its deadline is not after `now`; gives it with its deadline.
    ///
    /// `now` must be below [`u64::MAX`]: a counter of cycles gets there after a hundred years.
    #[inline(always)]
    pub const fn pop_expired(&mut self, now: u64) -> Option<(TimerId, u64)> {
        debug_assert!(now < u64::MAX, "the clock is at its end");
        let expired = (self.first.id(), self.first.deadline);
        if expired.1 > now {
            None
        } else if self.nr_others == 0 {
            self.first.deadline = u64::MAX;
            Some(expired)
        } else {
            Some(self.pop_among())
        }
    }

    /// Whether a timer is armed and the earliest.
    #[inline(always)]
    const fn is_first(&self, id: TimerId) -> bool {
        self.first.is(id) && !self.is_empty()
    }

    /// Whether a timer other than timer 0 is armed and not the earliest.
    #[inline(always)]
    const fn is_later(&self, id: TimerId) -> bool {
        let [a, b, c] = self.next;
        a.is(id) || b.is(id) || c.is(id) || self.list.contains(id)
    }

    #[inline(never)]
    const fn cancel_first(&mut self) {
        self.pop_among();
    }

    /// Takes the earliest out, where there is another timer.
    #[inline(always)]
    const fn pop_among(&mut self) -> (TimerId, u64) {
        let [a, b, c] = self.next;
        if self.timer_0 <= a.deadline {
            core::hint::cold_path();
            return self.pop_and_refill();
        }
        let first = self.first;
        self.nr_others -= 1;
        self.first = a;
        self.next = [b, c, Entry::VACANT];
        (first.id(), first.deadline)
    }

    /// The next one is the first of the list, or timer 0. (Where there is neither timer 0 nor one in front, both have
    /// the last of all deadlines.)
    #[cold]
    #[inline(never)]
    const fn pop_and_refill(&mut self) -> (TimerId, u64) {
        let first = self.first;
        self.nr_others -= 1;
        if self.timer_0 <= self.list.earliest() {
            self.first = Entry::new(TimerId::new(0), self.timer_0);
            self.timer_0 = u64::MAX;
        } else {
            let (deadline, id) = self.list.take_first();
            self.first = Entry::new(id, deadline);
        }
        (first.id(), first.deadline)
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
        } else if self.list.contains(id) {
            self.list.remove(id);
        } else {
            return Cancelled::NotArmed;
        }
        self.nr_others -= 1;
        Cancelled::Later
    }

    #[cold]
    const fn cancel_0(&mut self) -> Cancelled {
        if self.timer_0 == u64::MAX {
            return Cancelled::NotArmed;
        }
        self.timer_0 = u64::MAX;
        self.nr_others -= 1;
        Cancelled::Later
    }

    /// Puts a timer among those in front, before all in the list.
    #[inline(always)]
    const fn put_in_front(&mut self, entry: Entry) -> Inserted {
        let [a, b, c] = self.next;
        let deadline = entry.deadline;
        if !c.is_vacant() {
            core::hint::cold_path();
            if deadline >= c.deadline {
                self.list.insert_first(entry.id(), deadline);
                return Inserted::Later;
            }
            self.list.insert_first(c.id(), c.deadline);
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
        if self.first.is(TimerId::new(0)) {
            core::hint::cold_path();
            self.timer_0 = self.first.deadline;
            self.next = [a, b, Entry::VACANT];
        }
        self.first = entry;
        Inserted::Earliest
    }
}

impl<const N: usize> Default for TimerQueue<N> {
    fn default() -> Self {
        Self::new()
    }
}
