//! Timers in the order of their deadlines: a list, and an index that says where to look in it.
//!
//! Time is divided into slots of equal length, a power of two of cycles, and the index names for each slot a timer of it.
//! A search begins at the timer that its own slot names, or the next one before it that names any, and walks from there: a
//! step or two where the slots are as long as the deadlines are apart. Slots that turn out to be too long or too short for
//! that have their length changed ([`TimerList::fit`]). So what it takes to find a place does not depend on how many timers
//! there are, but on how they are spread: of many with deadlines close together, and others far away, it walks along those.
//! A search may be left after any step and gone on with later, whatever has been put in and taken out meanwhile.
//!
//! # Invariants
//! * The list is a ring through 0, which is no timer and later than all, and is in order of deadlines.
//! * `is_in` says of each timer whether it stands in the list.
//! * The index may say anything: what it names is looked at before it is used. But what is put in or taken out leaves it
//!   such that a slot that has timers names the last of them, unless the slots were changed since they came.
//!
//! # Source
//! After R. Brown, "Calendar Queues: A Fast O(1) Priority Queue Implementation for the Simulation Event Set Problem",
//! CACM 31(10), 1988; here the calendar only finds the places, and the events stand in one list.

use crate::{Deadline, TimerId};

/// Slots that are told apart: timers further behind the earliest are looked for step by step.
const SLOTS: usize = 1024;
const WORDS: usize = SLOTS / 64;
/// The length of a slot at the beginning, as a power of two of cycles: some 65 microseconds.
const FIRST_SPAN: u32 = 16;
/// The most steps of [`TimerList::seek`] at a time.
const STEPS: usize = 3;
/// Steps back inside a slot from which on it is too long.
const MANY: u32 = 3;
/// Where slots are made longer, two to this power or twice as many reach as far as the deadline that had none.
const FAR: u32 = 2;
/// How many more searches show that slots have the wrong length than the right one, until it is changed.
const PATIENCE: u32 = 8;
/// As many at most, however often slots have become shorter and longer in turn.
const MOST_PATIENCE: u32 = 64;
/// Two to this power of cycles, some days, is farther than slots are made to reach: with slots of that length all others would share one.
const FARTHEST: u32 = 50;

/// The neighbours in the list.
#[derive(Clone, Copy, Debug)]
struct Neighbours {
    next: u16,
    prev: u16,
}

impl Neighbours {
    const NONE: Self = Self { next: 0, prev: 0 };
}

/// What a search has come to.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sought {
    NotYet,
    /// The timer where it stood is no more in the list: it is to be begun anew.
    Gone,
    /// Its place.
    Here,
}

/// Where a search stands.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    /// A timer, or 0, which is before all.
    at: u16,
    /// The deadline is not too far behind the earliest to have a slot.
    has_slot: bool,
    /// The next step gives slots another length.
    is_to_fit: bool,
    /// Steps back inside the slot.
    walked: u32,
}

impl Place {
    /// A search that has not begun.
    pub(crate) const START: Self = Self {
        at: 0,
        has_slot: true,
        is_to_fit: false,
        walked: 0,
    };

    /// Whether it is before all timers.
    #[inline(always)]
    pub(crate) const fn is_start(&self) -> bool {
        self.at == 0
    }
}

/// The timers, of the numbers `1..N`. `N` is a power of two from 2 to 2048.
#[derive(Clone, Debug)]
pub(crate) struct TimerList<T, const N: usize> {
    /// Where a slot begins.
    origin: T,
    /// The length of a slot: a power of two of cycles.
    span: u32,
    /// Searches that have shown that slots are too long or too short, less those that have not.
    misfits: u32,
    /// How many there may be.
    patience: u32,
    /// The last change made slots longer.
    was_longer: bool,
    /// The slots that name a timer.
    named: [u64; WORDS],
    /// The words of `named` that are not 0, and perhaps others.
    words: u32,
    names: [u16; SLOTS],
    deadlines: [T; N],
    links: [Neighbours; N],
    is_in: [bool; N],
}

impl<T: Deadline, const N: usize> TimerList<T, N> {
    pub(crate) const fn new() -> Self {
        assert!(N.is_power_of_two() && N >= 2 && N <= 2048);
        Self {
            origin: T::ZERO,
            span: FIRST_SPAN,
            misfits: 0,
            patience: PATIENCE,
            was_longer: true,
            named: [0; WORDS],
            words: 0,
            names: [0; SLOTS],
            deadlines: [T::NEVER; N],
            links: [Neighbours::NONE; N],
            is_in: [false; N],
        }
    }

    /// Empties a list in place, whatever its bytes are.
    pub(crate) fn reset(&mut self) {
        self.forget(T::ZERO);
        self.links[0] = Neighbours::NONE;
        self.is_in.fill(false);
        self.deadlines[0] = T::NEVER;
    }

    #[inline(always)]
    const fn next(&self, id: usize) -> usize {
        self.links[id & (N - 1)].next as usize & (N - 1)
    }

    #[inline(always)]
    const fn deadline_at(&self, id: usize) -> T {
        self.deadlines[id & (N - 1)]
    }

    #[inline(always)]
    const fn has(&self, id: usize) -> bool {
        self.is_in[id & (N - 1)]
    }

    /// The slot of a deadline, as a number that goes on behind [`SLOTS`].
    #[inline(always)]
    fn slot(&self, deadline: T) -> u64 {
        deadline.cycles().wrapping_sub(self.origin.cycles()) >> (self.span & 63)
    }

    /// Whether a timer is in the list.
    #[inline(always)]
    pub(crate) const fn contains(&self, id: TimerId) -> bool {
        self.has(id.index())
    }

    /// The deadline of a timer that is in the list.
    #[inline(always)]
    pub(crate) const fn deadline_of(&self, id: TimerId) -> T {
        self.deadline_at(id.index())
    }

    /// Deadline of the earliest timer; [`NEVER`](Deadline::NEVER) if there is none.
    #[inline(always)]
    pub(crate) const fn earliest(&self) -> T {
        self.deadline_at(self.next(0))
    }

    /// Forgets all that searches have left: the index, and how long slots are. `origin` is where one begins, before all
    /// deadlines: so what comes is the same whenever it comes.
    pub(crate) fn forget(&mut self, origin: T) {
        self.origin = origin;
        self.span = FIRST_SPAN;
        self.misfits = 0;
        self.patience = PATIENCE;
        self.was_longer = true;
        self.named.fill(0);
        self.words = 0;
    }

    /// Takes the earliest timer out, the one at hand where the list is not empty. The index is left as it is: this is done
    /// in interrupts.
    #[inline(always)]
    pub(crate) const fn take_first(&mut self) -> (T, TimerId) {
        let id = self.next(0);
        self.is_in[id] = false;
        let next = self.links[id].next;
        self.links[0].next = next;
        self.links[next as usize & (N - 1)].prev = 0;
        (self.deadlines[id], TimerId::new(id as u16))
    }

    /// Goes some steps on from `place` to the last timer whose deadline is not after `deadline`; says whether it was
    /// there already.
    #[inline(always)]
    pub(crate) fn seek(&mut self, deadline: T, place: &mut Place) -> Sought {
        let at = place.at as usize & (N - 1);
        if at != 0 && !self.has(at) {
            return Sought::Gone;
        }
        let is_before = at == 0 || self.deadlines[at] <= deadline;
        if is_before && self.deadline_at(self.next(at)) > deadline {
            return Sought::Here;
        }
        if place.is_to_fit {
            core::hint::cold_path();
            place.is_to_fit = false;
            self.fit_for(deadline, place);
            return Sought::NotYet;
        }
        match is_before {
            false => self.search_back(deadline, place),
            true => self.search_forward(deadline, place),
        }
        Sought::NotYet
    }

    /// Inside a slot.
    #[inline(never)]
    fn search_back(&mut self, deadline: T, place: &mut Place) {
        let mut at = place.at as usize & (N - 1);
        for _ in 0..STEPS {
            at = self.links[at].prev as usize & (N - 1);
            place.walked += 1;
            if at == 0 || self.deadlines[at] <= deadline {
                break;
            }
        }
        place.at = at as u16;
        if place.walked == MANY {
            self.misfit(2, place);
        }
    }

    /// Along timers that the index does not name: it does from now on.
    #[inline(never)]
    fn search_forward(&mut self, deadline: T, place: &mut Place) {
        for _ in 1..STEPS {
            let next = self.next(place.at.into());
            if self.deadlines[next] > deadline {
                return;
            }
            place.at = next as u16;
            if place.has_slot {
                self.name(next);
            }
        }
        if place.has_slot {
            return;
        }
        if self.distance(deadline) >> FARTHEST == 0 {
            // What has no slot is looked for along all the others of that kind.
            self.misfit(4, place);
        } else if place.walked == 0 {
            // What that takes says nothing of slots, nor does that it was looked up.
            place.walked = 1;
            self.misfits += 1;
        }
    }

    /// Begins a search at the timer that the index names for a deadline's slot or the next one before, or before all;
    /// does not yet, if that one has gone. Says whether it has begun.
    #[inline(always)]
    pub(crate) fn look_up(&mut self, deadline: T, place: &mut Place) -> bool {
        self.misfits = self.misfits.saturating_sub(1);
        let first = self.slot(self.earliest());
        let mut slot = self.slot(deadline);
        *place = Place::START;
        let mut ahead = slot.wrapping_sub(first);
        if ahead >= SLOTS as u64 {
            core::hint::cold_path();
            if slot < first {
                return true;
            }
            place.has_slot = false;
            ahead = SLOTS as u64 - 1;
            slot = first + ahead;
        }
        let mut index = slot as usize / 64 % WORDS;
        let mut word = self.named[index] & (!0 >> (63 - slot % 64));
        if word == 0 {
            // The next one before, round to this one itself.
            let words = (self.words | self.words << WORDS) & ((1 << (index + WORDS)) - 1);
            if words == 0 {
                return true;
            }
            index = words.ilog2() as usize % WORDS;
            word = self.named[index];
            if word == 0 {
                core::hint::cold_path();
                self.words &= !(1 << index);
                return false;
            }
        }
        let found = 64 * index + word.ilog2() as usize;
        let named = self.names[found] as usize & (N - 1);
        let back = (slot as usize).wrapping_sub(found) % SLOTS;
        if back as u64 > ahead {
            // It is ahead of the deadline, and none is behind.
            core::hint::cold_path();
        } else if self.has(named)
            && self.slot(self.deadlines[named]) == slot.wrapping_sub(back as u64)
        {
            place.at = named as u16;
        } else {
            core::hint::cold_path();
            self.unname(found);
            return false;
        }
        true
    }

    #[inline(always)]
    const fn unname(&mut self, place: usize) {
        self.named[place / 64 % WORDS] &= !(1 << (place % 64));
    }

    /// Has a timer's slot name it.
    #[inline(always)]
    fn name(&mut self, id: usize) {
        let place = self.slot(self.deadlines[id]) as usize % SLOTS;
        self.names[place] = id as u16;
        self.named[place / 64] |= 1 << (place % 64);
        self.words |= 1 << (place / 64);
    }

    /// Puts a timer behind the one where a search has ended.
    #[inline(always)]
    pub(crate) fn insert(&mut self, id: TimerId, deadline: T, place: &Place) {
        let id = id.index() & (N - 1);
        self.put_behind(place.at.into(), id, deadline);
        // Where the search went back it is not the last of its slot.
        if place.has_slot && place.walked == 0 {
            self.name(id);
        }
    }

    /// Puts a timer that is not before all in, if its place is next to the one that its slot names; says whether it was.
    #[inline(always)]
    pub(crate) fn insert_near(&mut self, id: TimerId, deadline: T) -> bool {
        let slot = self.slot(deadline);
        let place = slot as usize % SLOTS;
        let named = self.names[place] as usize & (N - 1);
        if !self.has(named) || self.slot(self.deadlines[named]) != slot {
            return false;
        }
        let id = id.index() & (N - 1);
        let mut at = named;
        if self.deadlines[at] <= deadline {
            if self.deadline_at(self.next(at)) <= deadline {
                return false;
            }
            self.names[place] = id as u16;
        } else {
            at = self.links[at].prev as usize & (N - 1);
            if self.deadlines[at] > deadline {
                at = self.links[at].prev as usize & (N - 1);
                if self.deadlines[at] > deadline {
                    return false;
                }
            }
        }
        self.put_behind(at, id, deadline);
        true
    }

    /// Puts a timer that is not after any other before all.
    #[inline(always)]
    pub(crate) fn insert_first(&mut self, id: TimerId, deadline: T) {
        let id = id.index() & (N - 1);
        self.put_behind(0, id, deadline);
        if self.slot(self.deadline_at(self.next(id))) != self.slot(deadline) {
            self.name(id);
        }
    }

    #[inline(always)]
    fn put_behind(&mut self, behind: usize, id: usize, deadline: T) {
        self.deadlines[id] = deadline;
        self.is_in[id] = true;
        link(&mut self.links, id, behind);
    }

    /// Takes a timer out that is in the list.
    #[inline(always)]
    pub(crate) fn remove(&mut self, id: TimerId) {
        let id = id.index() & (N - 1);
        self.is_in[id] = false;
        let prev = self.links[id].prev as usize & (N - 1);
        unlink(&mut self.links, id);
        let slot = self.slot(self.deadlines[id]);
        let place = slot as usize % SLOTS;
        if self.names[place] == id as u16 {
            self.names[place] = prev as u16;
            if self.slot(self.deadlines[prev]) != slot {
                self.unname(place);
            }
        }
    }

    /// A search is a long one. After some of them slots are given another length.
    #[inline(always)]
    const fn misfit(&mut self, weight: u32, place: &mut Place) {
        self.misfits += weight;
        place.is_to_fit = self.misfits >= 2 * self.patience;
    }

    /// The search for a deadline is a long one: slots are too long if it has one, and else too short. They are given another length:
    /// some two timers to a slot here, or slots as far as there.
    #[cold]
    #[inline(never)]
    fn fit_for(&mut self, deadline: T, place: &Place) {
        self.fit(if place.has_slot {
            let last = self.names[self.slot(deadline) as usize % SLOTS];
            let last = self.deadline_at(last.into());
            let here = match place.at {
                0 => deadline,
                at => self.deadline_at(at.into()),
            };
            let passed = last.cycles().saturating_sub(here.cycles());
            if passed == 0 {
                // All at once: no length would tell them apart.
                return;
            }
            (self.span.saturating_sub(1)).min((2 * (passed / u64::from(MANY)) + 1).ilog2())
        } else {
            (self.distance(deadline) | 1).ilog2().saturating_sub(FAR)
        });
    }

    /// How far a deadline is behind the earliest.
    fn distance(&self, deadline: T) -> u64 {
        (deadline.cycles()).saturating_sub(self.earliest().cycles())
    }

    /// Gives slots another length, and names no timer until searches come by. Takes more misfits the next time if slots
    /// become shorter and longer in turn: no length is right for all deadlines.
    fn fit(&mut self, span: u32) {
        let is_longer = span > self.span;
        if is_longer != self.was_longer {
            self.patience = (2 * self.patience).min(MOST_PATIENCE);
        }
        self.was_longer = is_longer;
        self.misfits = 0;
        self.span = span;
        self.named.fill(0);
    }

    /// Checks the invariants, in O(N); for tests.
    ///
    /// # Errors
    /// What is not as it has to be.
    pub(crate) fn verify(&self) -> Result<(), &'static str> {
        let (mut at, mut nr) = (0, 0);
        loop {
            let next = self.next(at);
            if self.links[next].prev as usize != at {
                return Err("the ring is not one");
            }
            if next == 0 {
                break;
            }
            nr += 1;
            if nr > N || !self.is_in[next] {
                return Err("the list has what is not in it");
            }
            if at != 0 && self.deadlines[at] > self.deadlines[next] {
                return Err("the list is not in order");
            }
            at = next;
        }
        if nr != self.is_in.iter().filter(|is_in| **is_in).count() {
            return Err("a timer is not in the list");
        }
        Ok(())
    }
}

#[inline(always)]
const fn link<const N: usize>(links: &mut [Neighbours; N], id: usize, behind: usize) {
    let next = links[behind & (N - 1)].next;
    links[id & (N - 1)] = Neighbours {
        next,
        prev: behind as u16,
    };
    links[behind & (N - 1)].next = id as u16;
    links[next as usize & (N - 1)].prev = id as u16;
}

#[inline(always)]
const fn unlink<const N: usize>(links: &mut [Neighbours; N], id: usize) {
    let Neighbours { next, prev } = links[id & (N - 1)];
    links[prev as usize & (N - 1)].next = next;
    links[next as usize & (N - 1)].prev = prev;
}
