//! What a queue of timers is to do, in the plainest way, and what is compared.

use std::collections::{BTreeMap, HashMap};

use takt_scheduler::{Cancelled, Inserted, Insertion, Stage, TimerId, TimerQueue};

pub(crate) fn tid(raw: u16) -> TimerId {
    TimerId::new(raw)
}

/// Armed timers by deadline and order of insertion, which is 0 for timer 0.
#[derive(Default)]
pub(crate) struct Model {
    pub(crate) armed: BTreeMap<(u64, u64), u16>,
    pub(crate) keys: HashMap<u16, (u64, u64)>,
    pub(crate) nr_inserted: u64,
    /// Whom the queue has in front: the earliest, but for timer 0 if that was hastened.
    front: Option<u16>,
}

impl Model {
    /// The earliest; of timer 0 and another one of the same time, whom the queue has in front.
    pub(crate) fn earliest(&self) -> Option<(u64, u16)> {
        let deadline = self.armed.first_key_value()?.0.0;
        let front = self.front.filter(|id| self.keys[id].0 == deadline);
        Some((deadline, front.unwrap_or(*self.armed.first_key_value()?.1)))
    }

    fn remove(&mut self, id: u16) -> bool {
        let Some(key) = self.keys.remove(&id) else {
            return false;
        };
        self.armed.remove(&key);
        if self.front == Some(id) {
            self.front = self.armed.first_key_value().map(|it| *it.1);
        }
        true
    }

    fn put(&mut self, id: u16, deadline: u64) {
        self.nr_inserted += 1;
        let order = if id == 0 { 0 } else { self.nr_inserted };
        self.keys.insert(id, (deadline, order));
        self.armed.insert((deadline, order), id);
    }

    pub(crate) fn insert(&mut self, id: u16, deadline: u64) -> Inserted {
        let was_front = self.front == Some(id);
        self.remove(id);
        if deadline != u64::MAX {
            self.put(id, deadline);
            let is_front = self.front.is_none_or(|front| {
                let first = self.keys[&front].0;
                deadline < first || id == 0 && deadline == first
            });
            if is_front {
                self.front = Some(id);
            }
        }
        // Timer 0 may have been hastened to a time before those in front.
        let is_before_0 = |zero: &(u64, u64)| id == 0 || deadline < zero.0;
        if self.front == Some(id) && self.keys.get(&0).is_none_or(is_before_0) {
            Inserted::Earliest
        } else if was_front {
            Inserted::Moved
        } else {
            Inserted::Later
        }
    }

    /// Nothing where that changes nothing.
    pub(crate) fn hasten_0(&mut self, deadline: u64) -> Option<Inserted> {
        let before = self.earliest();
        if self.keys.get(&0).is_some_and(|key| key.0 <= deadline) {
            return None;
        }
        let was_front = self.front == Some(0);
        self.remove(0);
        self.put(0, deadline);
        if was_front || self.front.is_none() {
            self.front = Some(0);
        }
        match before.is_none_or(|it| deadline < it.0) {
            true => Some(Inserted::Earliest),
            false => Some(Inserted::Later),
        }
    }

    pub(crate) fn cancel(&mut self, id: u16) -> Cancelled {
        let was_front = self.front == Some(id);
        match self.remove(id) {
            false => Cancelled::NotArmed,
            true if was_front => Cancelled::Earliest,
            true => Cancelled::Later,
        }
    }

    /// Whom the queue has in front comes first, if it is due; else timer 0, if that was hastened and is due.
    pub(crate) fn pop_expired(&mut self, now: u64) -> Option<(TimerId, u64)> {
        let is_due = |id: &u16| self.keys.get(id).is_some_and(|key| key.0 <= now);
        let id = self.front.filter(is_due).or(Some(0).filter(is_due))?;
        let deadline = self.keys[&id].0;
        self.remove(id);
        Some((tid(id), deadline))
    }
}

/// What can be asked of the queue at little cost.
pub(crate) fn check<const N: usize>(queue: &TimerQueue<u64, N>, model: &Model) {
    let earliest = model.earliest();
    assert_eq!(queue.verify(), Ok(()));
    assert_eq!(queue.len(), model.armed.len());
    assert_eq!(queue.is_empty(), model.armed.is_empty());
    assert_eq!(queue.earliest(), earliest.map(|(at, id)| (at, tid(id))));
    assert_eq!(
        queue.earliest_deadline(),
        earliest.map_or(u64::MAX, |e| e.0)
    );
}

pub(crate) fn check_timers<const N: usize>(queue: &TimerQueue<u64, N>, model: &Model) {
    for id in 0..N as u16 {
        let deadline = model.keys.get(&id).map(|key| key.0);
        assert_eq!(queue.is_armed(tid(id)), deadline.is_some());
        assert_eq!(queue.deadline_of(tid(id)), deadline);
    }
}

/// An insertion that has begun.
pub(crate) struct Begun {
    pub(crate) id: u16,
    pub(crate) deadline: u64,
    pub(crate) insertion: Insertion,
    pub(crate) is_new: bool,
    pub(crate) was_earliest: bool,
}

impl Begun {
    pub(crate) fn new(id: u16, deadline: u64) -> Self {
        Self {
            id,
            deadline,
            insertion: Insertion::new(Stage::Disarm),
            is_new: true,
            was_earliest: false,
        }
    }

    /// One step further; whether it was the last.
    pub(crate) fn step<const N: usize>(
        &mut self,
        queue: &mut TimerQueue<u64, N>,
        model: &mut Model,
    ) -> bool {
        if self.id == 0 || self.deadline == u64::MAX {
            let found = queue.insert(tid(self.id), self.deadline);
            let expected = model.insert(self.id, self.deadline);
            assert!(found == expected || model.armed.is_empty() && self.deadline == u64::MAX);
            return true;
        }
        let was_armed = queue.is_armed(tid(self.id));
        let may_be_at_hand = self.is_new && !queue.is_empty();
        self.is_new = false;
        let done = if may_be_at_hand {
            let at_hand = queue.insert_at_hand(tid(self.id), self.deadline);
            self.insertion = Insertion::new(at_hand.err().unwrap_or(Stage::Disarm));
            at_hand.ok()
        } else {
            queue.insert_step(tid(self.id), self.deadline, &mut self.insertion)
        };
        if was_armed && !queue.is_armed(tid(self.id)) {
            self.was_earliest |= model.cancel(self.id) == Cancelled::Earliest;
            assert_eq!(done, None);
        } else if let Some(found) = done {
            let expected = match model.insert(self.id, self.deadline) {
                Inserted::Later if self.was_earliest => Inserted::Moved,
                expected => expected,
            };
            assert_eq!(found, expected);
            if found == Inserted::Earliest {
                assert_eq!(queue.earliest_deadline(), self.deadline);
            }
        }
        done.is_some()
    }
}
