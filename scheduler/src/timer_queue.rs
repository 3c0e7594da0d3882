//! Armed timers in order of their deadlines, all static.
//!
//! The earliest few stand sorted in front, the others in a list ([`crate::timer_list`]). So to read the earliest is one
//! load, a queue of one timer touches nothing else, and what the timer's interrupt does, taking the earliest out, is
//! moving up three entries, or taking the first off the list, however many timers there are. Looking for the place of a
//! timer in the list may take long where many lie close together, and is done in steps ([`TimerQueue::insert_step`]),
//! between which the queue may change. A heap took the interrupt 137 to 311 instructions, a tree of winners up to 299.
//!
//! Timer 0 is never in the list: it is the quantum's, which switches move to an earlier time ([`TimerQueue::hasten_0`]), and has a
//! place of its own.
//!
//! # Invariants
//! * `first.deadline` is [`NEVER`](Deadline::NEVER) iff no timer is armed; `first.id` is stale then.
//! * `first`, `next[0]`, `next[1]`, `next[2]` are sorted, the vacant ones last, and none of them is after a timer in the
//!   list. (All of `next` may be vacant where the list is not empty.)
//! * `timer_0` is the deadline of timer 0 if it is armed and does not stand in `first`, else [`NEVER`](Deadline::NEVER). It may be
//!   before `first`: what takes that one out looks at `timer_0` next.
//!
//! # Order
//! Timers of equal deadline expire in the order of their last insertion, but timer 0 before the others. One that was
//! [hastened](TimerQueue::hasten_0) comes after the first of those that are due with it.
//!
//! # Memory
//! 13 bytes for each id, and 2 KiB.

mod insertion;

use crate::timer_list::TimerList;
use crate::{Deadline, TimerId};

pub use insertion::{Inserted, Insertion, Stage};

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

/// An armed timer.
#[derive(Clone, Copy, Debug)]
struct Entry<T> {
    deadline: T,
    /// The number, in a whole word: it is compared and moved only.
    id: u64,
}

impl<T: Deadline> Entry<T> {
    /// No timer: later than all, and with an id that no timer has.
    const VACANT: Self = Self {
        deadline: T::NEVER,
        id: u64::MAX,
    };

    #[inline(always)]
    const fn new(id: TimerId, deadline: T) -> Self {
        Self {
            deadline,
            id: id.raw() as u64,
        }
    }

    #[inline(always)]
    fn is_vacant(self) -> bool {
        self.deadline == T::NEVER
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
/// A deadline of [`NEVER`](Deadline::NEVER) means never: a timer armed with it is not armed.
#[derive(Clone, Debug)]
// Not `first` at the start: the compiler would then compute the queue's address in the interrupt, for one timer in vain.
#[repr(C)]
pub struct TimerQueue<T, const N: usize> {
    /// How many timers are armed besides the first.
    nr_others: usize,
    /// The earliest timer.
    first: Entry<T>,
    next: [Entry<T>; 3],
    timer_0: T,
    list: TimerList<T, N>,
}

impl<T: Deadline, const N: usize> TimerQueue<T, N> {
    /// A queue without timers.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            first: Entry::VACANT,
            nr_others: 0,
            next: [Entry::VACANT; 3],
            timer_0: T::NEVER,
            list: TimerList::new(),
        }
    }

    /// Empties a queue in place, whatever its bytes are: for a static one that begins as zeros, so that the image
    /// need not carry its tables.
    pub fn reset(&mut self) {
        self.first = Entry::VACANT;
        self.nr_others = 0;
        self.next = [Entry::VACANT; 3];
        self.timer_0 = T::NEVER;
        self.list.reset();
    }

    /// How many timers are armed.
    #[inline(always)]
    #[must_use]
    pub fn len(&self) -> usize {
        self.nr_others + !self.is_empty() as usize
    }

    /// Whether no timer is armed.
    #[inline(always)]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.first.is_vacant()
    }

    /// Whether a timer is armed.
    #[inline]
    #[must_use]
    pub fn is_armed(&self, id: TimerId) -> bool {
        self.deadline_of(id).is_some()
    }

    /// Deadline of the earliest timer; [`NEVER`](Deadline::NEVER) if there is none.
    #[inline(always)]
    #[must_use]
    pub fn earliest_deadline(&self) -> T {
        self.timer_0.min(self.first.deadline)
    }

    /// [`earliest_deadline`](Self::earliest_deadline) right after one has [expired](Self::pop_expired), by one load: also after
    /// insertions, but not after [`hasten_0`](Self::hasten_0).
    #[inline(always)]
    #[must_use]
    pub const fn next_deadline(&self) -> T {
        self.first.deadline
    }

    /// The earliest timer with its deadline.
    #[inline(always)]
    #[must_use]
    pub fn earliest(&self) -> Option<(T, TimerId)> {
        if self.is_empty() {
            None
        } else if self.timer_0 < self.first.deadline {
            Some((self.timer_0, TimerId::new(0)))
        } else {
            Some((self.first.deadline, self.first.id()))
        }
    }

    /// The deadline of an armed timer.
    #[inline]
    #[must_use]
    pub fn deadline_of(&self, id: TimerId) -> Option<T> {
        if self.is_first(id) {
            return Some(self.first.deadline);
        }
        if id.raw() == 0 {
            return if self.timer_0 == T::NEVER {
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

    /// Forgets what earlier searches have left, and takes the same steps for the next ones whenever they come: `origin`
    /// is a time from which on all deadlines count, none of them before it.
    pub fn forget(&mut self, origin: T) {
        self.list.forget(origin);
    }

    /// Checks the list's invariants, in O(N); for tests.
    ///
    /// # Errors
    /// What is not as it has to be.
    pub fn verify(&self) -> Result<(), &'static str> {
        self.list.verify()
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
            self.first.deadline = T::NEVER;
        } else {
            self.cancel_first();
        }
        Cancelled::Earliest
    }

    /// Disarms the earliest timer if its deadline is not after `now`; gives it with its deadline.
    ///
    /// `now` must be below [`NEVER`](Deadline::NEVER): a counter of cycles gets there after a hundred years.
    #[inline(always)]
    pub fn pop_expired(&mut self, now: T) -> Option<(TimerId, T)> {
        debug_assert!(now < T::NEVER, "the clock is at its end");
        let expired = (self.first.id(), self.first.deadline);
        if expired.1 > now {
            None
        } else if self.nr_others == 0 {
            self.first.deadline = T::NEVER;
            Some(expired)
        } else {
            Some(self.pop_among())
        }
    }

    /// [`pop_expired`](Self::pop_expired) where that gave none: timer 0, if it was [hastened](Self::hasten_0) and is due.
    #[cold]
    pub fn pop_expired_0(&mut self, now: T) -> Option<(TimerId, T)> {
        let deadline = self.timer_0;
        (deadline <= now).then(|| {
            self.timer_0 = T::NEVER;
            self.nr_others -= 1;
            (TimerId::new(0), deadline)
        })
    }

    /// [`pop_expired`](Self::pop_expired) right behind another one, as code of its own: of several that are due each waits for
    /// those before it.
    #[inline(always)]
    pub fn pop_further_expired(&mut self, now: T) -> Option<(TimerId, T)> {
        let expired = (self.first.id(), self.first.deadline);
        if expired.1 > now {
            return None;
        }
        if self.nr_others == 0 {
            self.first.deadline = T::NEVER;
        } else if self.timer_0 <= self.next[0].deadline {
            self.refill();
        } else {
            self.pop_among();
        }
        Some(expired)
    }

    /// Whether a timer is armed and the earliest.
    #[inline(always)]
    fn is_first(&self, id: TimerId) -> bool {
        self.first.is(id) && !self.is_empty()
    }

    #[inline(never)]
    fn cancel_first(&mut self) {
        self.pop_among();
    }

    /// Takes the earliest out, where there is another timer.
    #[inline(always)]
    fn pop_among(&mut self) -> (TimerId, T) {
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

    #[cold]
    #[inline(never)]
    fn pop_and_refill(&mut self) -> (TimerId, T) {
        let first = self.first;
        self.refill();
        (first.id(), first.deadline)
    }

    /// The next one is the first of the list, or timer 0. (Where there is neither timer 0 nor one in front, both have
    /// the last of all deadlines.)
    #[inline(always)]
    fn refill(&mut self) {
        self.nr_others -= 1;
        if self.timer_0 <= self.list.earliest() {
            self.first = Entry::new(TimerId::new(0), self.timer_0);
            self.timer_0 = T::NEVER;
        } else {
            let (deadline, id) = self.list.take_first();
            self.first = Entry::new(id, deadline);
        }
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
    fn cancel_0(&mut self) -> Cancelled {
        if self.timer_0 == T::NEVER {
            return Cancelled::NotArmed;
        }
        self.timer_0 = T::NEVER;
        self.nr_others -= 1;
        Cancelled::Later
    }
}

impl<T: Deadline, const N: usize> Default for TimerQueue<T, N> {
    fn default() -> Self {
        Self::new()
    }
}
