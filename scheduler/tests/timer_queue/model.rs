//! What a queue of timers is to do, in the plainest way, and what is compared.

use std::collections::{BTreeMap, HashMap};

use takt_scheduler::{Cancelled, Inserted, Insertion, TimerId, TimerQueue};

pub(crate) fn tid(raw: u16) -> TimerId {
    TimerId::new(raw)
}

/// Armed timers by deadline and order of insertion, which is 0 for timer 0.
#[derive(Default)]
pub(crate) struct Model {
    pub(crate) armed: BTreeMap<(u64, u64), u16>,
    pub(crate) keys: HashMap<u16, (u64, u64)>,
    pub(crate) nr_inserted: u64,
}

impl Model {
    pub(crate) fn earliest(&self) -> Option<(u64, u16)> {
        let (&(deadline, _), &id) = self.armed.first_key_value()?;
        Some((deadline, id))
    }

    pub(crate) fn is_earliest(&self, id: u16) -> bool {
        self.earliest().is_some_and(|(_, first)| first == id)
    }

    pub(crate) fn insert(&mut self, id: u16, deadline: u64) -> Inserted {
        let was_earliest = self.is_earliest(id);
        if let Some(key) = self.keys.remove(&id) {
            self.armed.remove(&key);
        }
        self.nr_inserted += 1;
        if deadline != u64::MAX {
            let order = if id == 0 { 0 } else { self.nr_inserted };
            self.keys.insert(id, (deadline, order));
            self.armed.insert((deadline, order), id);
        }
        if was_earliest {
            Inserted::Moved
        } else if self.is_earliest(id) {
            Inserted::Earliest
        } else {
            Inserted::Later
        }
    }

    pub(crate) fn cancel(&mut self, id: u16) -> Cancelled {
        let was_earliest = self.is_earliest(id);
        match self.keys.remove(&id) {
            None => Cancelled::NotArmed,
            Some(key) => {
                self.armed.remove(&key);
                if was_earliest {
                    Cancelled::Earliest
                } else {
                    Cancelled::Later
                }
            }
        }
    }

    pub(crate) fn pop_expired(&mut self, now: u64) -> Option<(TimerId, u64)> {
        let (deadline, id) = self.earliest().filter(|&(deadline, _)| deadline <= now)?;
        self.armed.pop_first();
        self.keys.remove(&id);
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
            insertion: Insertion::NEW,
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
            queue.insert_at_hand(tid(self.id), self.deadline)
        } else {
            queue.insert_step(tid(self.id), self.deadline, &mut self.insertion)
        };
        if was_armed && !queue.is_armed(tid(self.id)) {
            self.was_earliest |= model.cancel(self.id) == Cancelled::Earliest;
            assert_eq!(done, None);
        } else if let Some(found) = done {
            let expected = match model.insert(self.id, self.deadline) {
                _ if self.was_earliest => Inserted::Moved,
                expected => expected,
            };
            assert_eq!(found, expected);
        }
        done.is_some()
    }
}
