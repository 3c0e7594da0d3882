//! Armed timers in order of their deadlines, where there are few: one sorted table.
//!
//! It does what [`TimerQueue`](crate::TimerQueue) does, in the same order, in a tenth of the code. To arm or disarm a timer takes
//! longer the more there are, in one stretch, so it is for some sixteen ids at most.
//!
//! # Invariants
//! * `entries[..len]` are sorted by their deadlines, the earliest last; of equal ones the last is the one that expires first.
//! * No id is there twice.

use crate::timer_queue::{Cancelled, Inserted, Insertion, Stage};
use crate::{Deadline, TimerId};

/// The armed timers, of the ids `0..N`. Its functions are those of [`TimerQueue`](crate::TimerQueue).
#[derive(Clone, Debug)]
pub struct FewTimers<T, const N: usize> {
    len: usize,
    entries: [(T, TimerId); N],
}

impl<T: Deadline, const N: usize> FewTimers<T, N> {
    /// A queue without timers.
    #[must_use]
    pub const fn new() -> Self {
        const { assert!(N <= 64, "looking through more takes too long") };
        Self {
            len: 0,
            entries: [(T::NEVER, TimerId::new(0)); N],
        }
    }

    /// Empties a queue in place, whatever its bytes are.
    pub fn reset(&mut self) {
        self.len = 0;
    }

    fn armed(&self) -> &[(T, TimerId)] {
        self.entries.get(..self.len).unwrap_or(&[])
    }

    /// How many timers are armed.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether no timer is armed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The earliest timer with its deadline.
    #[must_use]
    pub fn earliest(&self) -> Option<(T, TimerId)> {
        self.armed().last().copied()
    }

    /// Deadline of the earliest timer; [`NEVER`](Deadline::NEVER) if there is none.
    #[must_use]
    pub fn earliest_deadline(&self) -> T {
        self.earliest().map_or(T::NEVER, |(deadline, _)| deadline)
    }

    /// The same.
    #[must_use]
    pub fn next_deadline(&self) -> T {
        self.earliest_deadline()
    }

    /// The deadline of an armed timer.
    #[must_use]
    pub fn deadline_of(&self, id: TimerId) -> Option<T> {
        self.armed()
            .iter()
            .find(|entry| entry.1 == id)
            .map(|entry| entry.0)
    }

    /// Whether a timer is armed.
    #[must_use]
    pub fn is_armed(&self, id: TimerId) -> bool {
        self.deadline_of(id).is_some()
    }

    /// There is nothing to forget.
    pub fn forget(&mut self, _: T) {}

    /// Arms a timer, or moves an armed one.
    pub fn insert(&mut self, id: TimerId, deadline: T) -> Inserted {
        debug_assert!(id.index() < N, "the queue has no timer of this id");
        let was_first = self.cancel(id) == Cancelled::Earliest;
        let mut is_first = false;
        if deadline != T::NEVER {
            let goes_before = |other: T| match id.raw() {
                0 => other < deadline,
                _ => other <= deadline,
            };
            let nr_later = self
                .armed()
                .iter()
                .take_while(|entry| !goes_before(entry.0))
                .count();
            is_first = nr_later == self.len;
            self.len += 1;
            if let Some(place) = self.entries.get_mut(nr_later..self.len) {
                place.rotate_right(1);
                place[0] = (deadline, id);
            }
        }
        match (was_first, is_first) {
            (_, true) => Inserted::Earliest,
            (true, _) => Inserted::Moved,
            _ => Inserted::Later,
        }
    }

    /// Arms timer 0, or moves it if it is armed for a later time. Nothing is said where it stays as it is.
    pub fn hasten_0(&mut self, deadline: T) -> Option<Inserted> {
        let is_hastened = self
            .deadline_of(TimerId::new(0))
            .is_none_or(|armed| deadline < armed);
        is_hastened.then(|| self.insert(TimerId::new(0), deadline))
    }

    /// [`insert`](Self::insert), at once.
    ///
    /// # Errors
    /// None.
    pub fn insert_at_hand(&mut self, id: TimerId, deadline: T) -> Result<Inserted, Stage> {
        Ok(self.insert(id, deadline))
    }

    /// Whether that is at once.
    #[must_use]
    pub fn has_room_in_front(&self, _: T) -> bool {
        true
    }

    /// [`insert`](Self::insert), at once.
    pub fn insert_step(&mut self, id: TimerId, deadline: T, _: &mut Insertion) -> Option<Inserted> {
        Some(self.insert(id, deadline))
    }

    /// Disarms a timer.
    pub fn cancel(&mut self, id: TimerId) -> Cancelled {
        let armed = self.entries.get_mut(..self.len).unwrap_or(&mut []);
        let Some(at) = armed.iter().position(|entry| entry.1 == id) else {
            return Cancelled::NotArmed;
        };
        armed[at..].rotate_left(1);
        self.len -= 1;
        match at == self.len {
            true => Cancelled::Earliest,
            false => Cancelled::Later,
        }
    }

    /// Disarms the earliest timer if its deadline is not after `now`; gives it with its deadline.
    pub fn pop_expired(&mut self, now: T) -> Option<(TimerId, T)> {
        let (deadline, id) = self.earliest().filter(|(deadline, _)| *deadline <= now)?;
        self.len -= 1;
        Some((id, deadline))
    }

    /// Timer 0 is in its place among the others.
    pub fn pop_expired_0(&mut self, _: T) -> Option<(TimerId, T)> {
        None
    }

    /// [`pop_expired`](Self::pop_expired) right behind another one.
    pub fn pop_further_expired(&mut self, now: T) -> Option<(TimerId, T)> {
        self.pop_expired(now)
    }
}

impl<T: Deadline, const N: usize> Default for FewTimers<T, N> {
    fn default() -> Self {
        Self::new()
    }
}
