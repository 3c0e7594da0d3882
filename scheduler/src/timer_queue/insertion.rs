//! Putting timers into the queue, at once or in steps.

use super::{Cancelled, Entry, TimerQueue};
use crate::timer_list::Place;
use crate::{Deadline, TimerId};

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
    /// It was armed and the earliest.
    was_first: bool,
}

impl Insertion {
    /// One that has not begun.
    pub const NEW: Self = Self {
        place: Place::START,
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

impl<T: Deadline, const N: usize> TimerQueue<T, N> {
    /// Arms a timer, or moves an armed one.
    ///
    /// (A deadline of [`NEVER`](Deadline::NEVER) in an empty queue is [`Inserted::Earliest`], though nothing changes.)
    #[inline(always)]
    pub fn insert(&mut self, id: TimerId, deadline: T) -> Inserted {
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
    fn insert_among(&mut self, id: TimerId, deadline: T) -> Inserted {
        let mut insertion = Insertion::NEW;
        if deadline == T::NEVER {
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
    fn insert_0(&mut self, deadline: T) -> Inserted {
        let mut insertion = Insertion::NEW;
        self.begin_move(TimerId::new(0), &mut insertion);
        if deadline == T::NEVER {
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

    /// Arms timer 0, or moves it if it is armed for a later time; whatever else is armed, by a few stores. Says whether the
    /// earliest deadline is this one now.
    #[inline(always)]
    pub fn hasten_0(&mut self, deadline: T) -> bool {
        if self.is_empty() {
            self.first = Entry::new(TimerId::new(0), deadline);
            return true;
        }
        if self.first.is(TimerId::new(0)) {
            // Nothing is before it, so nothing will be.
            let is_hastened = deadline < self.first.deadline;
            if is_hastened {
                self.first.deadline = deadline;
            }
            return is_hastened;
        }
        if deadline >= self.timer_0 {
            return false;
        }
        self.nr_others += usize::from(self.timer_0 == T::NEVER);
        self.timer_0 = deadline;
        deadline < self.first.deadline
    }

    /// [`insert`](Self::insert) into a queue that is not empty, if the timer is not armed and its place is at hand: in
    /// front, or next to a timer that the list's index names. Else nothing, and nothing is changed.
    #[inline(always)]
    pub fn insert_at_hand(&mut self, id: TimerId, deadline: T) -> Option<Inserted> {
        if self.first.is(id) || self.is_later(id) {
            core::hint::cold_path();
            return None;
        }
        if deadline < self.list.earliest() {
            self.nr_others += 1;
            return Some(self.put_in_front(Entry::new(id, deadline)));
        }
        self.list.insert_near(id, deadline).then(|| {
            self.nr_others += 1;
            Inserted::Later
        })
    }

    /// One step of [`insert`](Self::insert) of any timer but timer 0, with any deadline but [`NEVER`](Deadline::NEVER); gives its
    /// result with the last one. Between two steps anything else may be done to the queue. A timer that is armed is
    /// disarmed in a step before the last.
    #[inline(always)]
    pub fn insert_step(
        &mut self,
        id: TimerId,
        deadline: T,
        insertion: &mut Insertion,
    ) -> Option<Inserted> {
        debug_assert!(id.raw() != 0, "timer 0 needs no steps");
        debug_assert!(deadline != T::NEVER, "never is no deadline");
        if self.list.is_to_begin(&insertion.place) {
            if self.is_first(id) || self.is_later(id) {
                core::hint::cold_path();
                insertion.was_first |= self.cancel(id) == Cancelled::Earliest;
            } else {
                self.list.look_up(deadline, &mut insertion.place);
            }
            return None;
        }
        if !self.list.seek(deadline, &mut insertion.place) {
            return None;
        }
        if self.is_empty() {
            core::hint::cold_path();
            self.first = Entry::new(id, deadline);
            return Some(insertion.result(Inserted::Earliest));
        }
        if self.first.is(id) || self.is_later(id) {
            // Somebody else has armed it meanwhile.
            core::hint::cold_path();
            insertion.place = Place::START;
            return None;
        }
        if deadline < self.list.earliest() {
            let last = self.next[2];
            if last.is_vacant() {
                self.nr_others += 1;
                let entry = Entry::new(id, deadline);
                return Some(insertion.result(self.put_where_room_is(entry)));
            }
            core::hint::cold_path();
            if deadline < last.deadline {
                // Room is made first. What a search has found is not where it was then.
                self.list.insert_first(last.id(), last.deadline);
                self.next[2] = Entry::VACANT;
                insertion.place = Place::START;
                return None;
            }
            self.nr_others += 1;
            self.list.insert_first(id, deadline);
            return Some(insertion.result(Inserted::Later));
        }
        self.nr_others += 1;
        self.list.insert(id, deadline, &insertion.place);
        Some(insertion.result(Inserted::Later))
    }

    /// The first step of arming an armed timer.
    #[cold]
    #[inline(never)]
    fn begin_move(&mut self, id: TimerId, insertion: &mut Insertion) {
        insertion.was_first |= self.cancel(id) == Cancelled::Earliest;
    }

    /// Whether a timer other than timer 0 is armed and not the earliest.
    #[inline(always)]
    fn is_later(&self, id: TimerId) -> bool {
        let [a, b, c] = self.next;
        a.is(id) || b.is(id) || c.is(id) || self.list.contains(id)
    }

    /// Puts a timer among those in front, before all in the list.
    #[inline(always)]
    fn put_in_front(&mut self, entry: Entry<T>) -> Inserted {
        let last = self.next[2];
        if !last.is_vacant() {
            core::hint::cold_path();
            if entry.deadline >= last.deadline {
                self.list.insert_first(entry.id(), entry.deadline);
                return Inserted::Later;
            }
            self.list.insert_first(last.id(), last.deadline);
        }
        self.put_where_room_is(entry)
    }

    /// The same where the last place in front is free, or what stood there is in the list by now.
    #[inline(always)]
    fn put_where_room_is(&mut self, entry: Entry<T>) -> Inserted {
        let [a, b, _] = self.next;
        let deadline = entry.deadline;
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
