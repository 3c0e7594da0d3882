//! Putting timers into the queue, at once or in steps.

use super::{Cancelled, Entry, TimerQueue};
use crate::timer_list::{Place, Sought};
use crate::{Deadline, TimerId};

/// What [`TimerQueue::insert`] did to the earliest deadline.
#[must_use = "the hardware timer must follow the earliest deadline"]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Inserted {
    /// Nothing: the hardware timer stays as it is.
    Later,
    /// It is this timer's, the one just given.
    Earliest,
    /// It was this timer's, and is a later one now ([`TimerQueue::earliest_deadline`]): the hardware timer may be set to it, or comes
    /// once for nothing.
    Moved,
}

/// What the next step of an insertion does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stage {
    /// Disarms the timer, which may be armed.
    Disarm,
    /// Puts it in front of the list, or makes room there, if that is its place.
    Front,
    /// Begins to look for its place in the list.
    LookUp,
    /// Goes on looking.
    Seek,
}

/// An insertion that has not come to its end ([`TimerQueue::insert_step`]).
#[derive(Clone, Copy, Debug)]
pub struct Insertion {
    place: Place,
    stage: Stage,
    /// It was armed and the earliest.
    was_first: bool,
}

impl Insertion {
    /// One that has not begun.
    #[must_use]
    pub const fn new(stage: Stage) -> Self {
        Self {
            place: Place::START,
            stage,
            was_first: false,
        }
    }

    #[inline(always)]
    fn result(&self, inserted: Inserted) -> Inserted {
        if self.was_first && inserted == Inserted::Later {
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
        let mut insertion = Insertion::new(Stage::Disarm);
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
        let mut insertion = Insertion::new(Stage::Disarm);
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

    /// Arms timer 0, or moves it if it is armed for a later time; whatever else is armed, by a few stores. Nothing
    /// is said where it stays as it is.
    #[inline(always)]
    pub fn hasten_0(&mut self, deadline: T) -> Option<Inserted> {
        if self.is_empty() {
            self.first = Entry::new(TimerId::new(0), deadline);
            return Some(Inserted::Earliest);
        }
        if self.first.is(TimerId::new(0)) {
            if deadline >= self.first.deadline {
                return None;
            }
            // Nothing is before it, so nothing will be.
            self.first.deadline = deadline;
            return Some(Inserted::Earliest);
        }
        if deadline >= self.timer_0 {
            return None;
        }
        self.nr_others += usize::from(self.timer_0 == T::NEVER);
        self.timer_0 = deadline;
        if deadline < self.first.deadline {
            Some(Inserted::Earliest)
        } else {
            Some(Inserted::Later)
        }
    }

    /// [`insert`](Self::insert) into a queue that is not empty, if the timer is not armed and its place is at hand: in
    /// front where there is room, or next to a timer that the list's index names.
    ///
    /// # Errors
    /// It is not: what the first of the steps does.
    #[inline(always)]
    pub fn insert_at_hand(&mut self, id: TimerId, deadline: T) -> Result<Inserted, Stage> {
        if self.is_in(id) {
            core::hint::cold_path();
            return Err(Stage::Disarm);
        }
        if deadline < self.list.earliest() {
            if !self.next[2].is_vacant() {
                core::hint::cold_path();
                return Err(Stage::Front);
            }
            return Ok(self.insert_in_front(id, deadline));
        }
        if !self.list.insert_near(id, deadline) {
            return Err(Stage::LookUp);
        }
        self.nr_others += 1;
        Ok(Inserted::Later)
    }

    /// Whether a timer of this deadline can be put in front at once ([`insert_at_hand`](Self::insert_at_hand)), unless it is
    /// armed.
    #[inline(always)]
    #[must_use]
    pub fn has_room_in_front(&self, deadline: T) -> bool {
        deadline < self.list.earliest() && self.next[2].is_vacant()
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
        match insertion.stage {
            Stage::Disarm => {
                core::hint::cold_path();
                self.begin_move(id, insertion);
                None
            }
            Stage::Front => {
                let inserted = self.front_step(id, deadline, insertion)?;
                Some(insertion.result(inserted))
            }
            Stage::LookUp => {
                if self.list.look_up(deadline, &mut insertion.place) {
                    insertion.stage = Stage::Seek;
                }
                None
            }
            Stage::Seek => {
                match self.list.seek(deadline, &mut insertion.place) {
                    Sought::NotYet => return None,
                    Sought::Gone => insertion.stage = Stage::LookUp,
                    // Somebody else has armed it meanwhile.
                    Sought::Here if self.is_in(id) => insertion.stage = Stage::Disarm,
                    // It is before all in the list: those in front have gone.
                    Sought::Here
                        if insertion.place.is_start() && deadline < self.next[2].deadline =>
                    {
                        insertion.stage = Stage::Front;
                    }
                    Sought::Here => {
                        self.nr_others += 1;
                        self.list.insert(id, deadline, &insertion.place);
                        return Some(insertion.result(Inserted::Later));
                    }
                }
                core::hint::cold_path();
                None
            }
        }
    }

    #[inline(always)]
    fn front_step(
        &mut self,
        id: TimerId,
        deadline: T,
        insertion: &mut Insertion,
    ) -> Option<Inserted> {
        if !self.is_for_front(deadline) {
            insertion.stage = Stage::LookUp;
            return None;
        }
        if self.is_empty() {
            core::hint::cold_path();
            self.first = Entry::new(id, deadline);
            return Some(Inserted::Earliest);
        }
        let last = self.next[2];
        if !last.is_vacant() {
            self.list.insert_first(last.id(), last.deadline);
            self.next[2] = Entry::VACANT;
            return None;
        }
        if self.is_in(id) {
            core::hint::cold_path();
            insertion.stage = Stage::Disarm;
            return None;
        }
        Some(self.insert_in_front(id, deadline))
    }

    /// The first step of arming an armed timer.
    #[cold]
    #[inline(never)]
    fn begin_move(&mut self, id: TimerId, insertion: &mut Insertion) {
        insertion.stage = Stage::Front;
        insertion.was_first |= self.cancel(id) == Cancelled::Earliest;
    }

    /// Whether a timer other than timer 0 is armed, in a queue that is not empty.
    #[inline(always)]
    fn is_in(&self, id: TimerId) -> bool {
        let [a, b, c] = self.next;
        self.first.is(id) || a.is(id) || b.is(id) || c.is(id) || self.list.contains(id)
    }

    /// Whether a deadline is before all in the list and the last one in front, so that it is not the list's.
    #[inline(always)]
    fn is_for_front(&self, deadline: T) -> bool {
        deadline < self.list.earliest() && deadline < self.next[2].deadline
    }

    /// Puts a timer in that is before all in the list, where there is room in front.
    #[inline(always)]
    fn insert_in_front(&mut self, id: TimerId, deadline: T) -> Inserted {
        let [a, b, _] = self.next;
        self.nr_others += 1;
        let entry = Entry::new(id, deadline);
        if deadline < self.first.deadline {
            let first = core::mem::replace(&mut self.first, entry);
            if first.is(TimerId::new(0)) {
                core::hint::cold_path();
                self.timer_0 = first.deadline;
            } else {
                self.next = [first, a, b];
            }
            if deadline >= self.timer_0 {
                core::hint::cold_path();
                return Inserted::Later;
            }
            return Inserted::Earliest;
        }
        self.next = if deadline < a.deadline {
            [entry, a, b]
        } else if deadline < b.deadline {
            [a, entry, b]
        } else {
            [a, b, entry]
        };
        Inserted::Later
    }
}
