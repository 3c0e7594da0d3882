//! Timers in the order of their deadlines: a list with faster lanes above it, which the searches build themselves.
//!
//! Lane 0 names every timer, each further lane some of those of the lane below. A search begins in the highest lane and
//! goes on one below where the next timer would be too late. One that has walked [`SPACING`] steps along a lane raises
//! the timer that these lead to into the lane above: so the lanes are as dense as the searches need them, without chance,
//! and putting a timer in or taking one out touches its neighbours only. A search may be left after any step and gone on
//! with later, whatever has been put in and taken out meanwhile.
//!
//! # Invariants
//! * Each lane is a ring through 0, which is no timer and later than all, and is in order of deadlines.
//! * A timer of height `h` stands in the lanes below `h`; one of height 0 is not in the list.
//! * Lanes from `nr_lanes` on are empty.
//! * What a lane above 0 names is a timer that stands in that lane by its height, or a *relic*: one that was taken out as
//!   the first of all. Relics are the first ones of their lane, and `has_relics` says that there may be some. None is left
//!   when a search begins, and when it goes on.
//!
//! # Source
//! After W. Pugh, "Skip Lists: A Probabilistic Alternative to Balanced Trees", CACM 33(6), 1990.

use crate::TimerId;

/// More would make some searches shorter where there are thousands of timers, and each part of the list's care longer: to
/// take out the tallest, to look for relics.
const LANES: usize = 4;
/// Steps along a lane after which the one above is wanted: the highest then has some ten of 2,000 timers.
const SPACING: usize = 6;
/// The most steps of [`TimerList::seek`] at a time.
const STEPS: isize = 5;

/// The neighbours in a lane.
#[derive(Clone, Copy, Debug)]
struct Neighbours {
    next: u16,
    prev: u16,
}

impl Neighbours {
    const NONE: Self = Self { next: 0, prev: 0 };
}

/// Where a search stands.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    at: usize,
    lane: usize,
    /// The last timer passed in the lane above.
    above: usize,
    /// Steps along the lane since then.
    walked: usize,
    /// [`STEPS`]: as a number that is not known where it is used, or the compiler writes the loop down so many times.
    steps: isize,
}

impl Place {
    /// Before all.
    pub(crate) const START: Self = Self {
        at: 0,
        lane: LANES,
        above: 0,
        walked: 0,
        steps: STEPS,
    };
}

/// The timers, of the numbers `1..N`. `N` is a power of two from 2 to 2048.
#[derive(Clone, Debug)]
pub(crate) struct TimerList<const N: usize> {
    nr_lanes: usize,
    has_relics: bool,
    deadlines: [u64; N],
    lanes: [[Neighbours; N]; LANES],
    heights: [u8; N],
}

impl<const N: usize> TimerList<N> {
    pub(crate) const fn new() -> Self {
        assert!(N.is_power_of_two() && N >= 2 && N <= 2048);
        let mut list = Self {
            nr_lanes: 1,
            has_relics: false,
            deadlines: [0; N],
            lanes: [[Neighbours::NONE; N]; LANES],
            heights: [0; N],
        };
        list.deadlines[0] = u64::MAX;
        list
    }

    /// Empties a list in place, whatever its bytes are.
    pub(crate) fn reset(&mut self) {
        self.nr_lanes = 1;
        self.has_relics = false;
        for lane in &mut self.lanes {
            lane[0] = Neighbours::NONE;
        }
        self.heights.fill(0);
        self.deadlines[0] = u64::MAX;
    }

    #[inline(always)]
    const fn height(&self, id: usize) -> usize {
        self.heights[id & (N - 1)] as usize
    }

    /// The first timer of the lowest lane.
    #[inline(always)]
    const fn first(&self) -> usize {
        self.lanes[0][0].next as usize & (N - 1)
    }

    #[inline(always)]
    const fn deadline_at(&self, id: usize) -> u64 {
        self.deadlines[id & (N - 1)]
    }

    /// Whether a timer is in the list.
    #[inline(always)]
    pub(crate) const fn contains(&self, id: TimerId) -> bool {
        self.height(id.index()) != 0
    }

    /// The deadline of a timer that is in the list.
    #[inline(always)]
    pub(crate) const fn deadline_of(&self, id: TimerId) -> u64 {
        self.deadline_at(id.index())
    }

    /// Deadline of the earliest timer; [`u64::MAX`] if there is none.
    #[inline(always)]
    pub(crate) const fn earliest(&self) -> u64 {
        self.deadline_at(self.first())
    }

    /// Takes the earliest timer out, the one at hand where the list is not empty. In the other lanes it stays, as a relic:
    /// this is done in interrupts.
    #[inline(always)]
    pub(crate) const fn take_first(&mut self) -> (u64, TimerId) {
        let id = self.first();
        self.has_relics |= self.heights[id] > 1;
        self.heights[id] = 0;
        let next = self.lanes[0][id].next;
        self.lanes[0][0].next = next;
        self.lanes[0][next as usize & (N - 1)].prev = 0;
        (self.deadlines[id], TimerId::new(id as u16))
    }

    /// Goes some steps on from `place` to the last timer whose deadline is not after `deadline`; says whether it is
    /// there. A place where no such timer stands any more is as good as [`Place::START`]; one that a search has walked
    /// far to is made easier to find for the next one.
    #[inline(always)]
    pub(crate) fn seek(&mut self, deadline: u64, place: &mut Place) -> bool {
        if place.walked >= SPACING || self.has_relics {
            self.tidy_or_raise(deadline, place);
            return false;
        }
        let (mut at, mut lane) = (place.at & (N - 1), place.lane);
        if at != 0 && !self.is_on_the_way(at, lane, deadline) {
            (at, lane) = (0, LANES);
            place.above = 0;
            place.walked = 0;
        }
        lane = if lane < self.nr_lanes {
            lane
        } else {
            self.nr_lanes - 1
        };
        let mut left = place.steps;
        let mut from = left + place.walked as isize;
        let (mut row, mut below) = (&self.lanes[0], self.lanes[..=lane].iter());
        if let Some(highest) = below.next_back() {
            row = highest;
        }
        while left > 0 {
            let next = row[at].next as usize & (N - 1);
            if self.deadlines[next] <= deadline {
                at = next;
            } else if let Some(lower) = below.next_back() {
                row = lower;
                place.above = at;
                // As much work as two steps, and none along this lane.
                left -= 1;
                from = left - 1;
            } else {
                break;
            }
            left -= 1;
        }
        place.at = at;
        place.lane = below.len();
        place.walked = (from - left) as usize;
        left > 0
    }

    /// Whether a timer stands in a lane and is not after `deadline`.
    #[inline(always)]
    const fn is_on_the_way(&self, id: usize, lane: usize, deadline: u64) -> bool {
        self.height(id) > lane && self.deadline_at(id) <= deadline
    }

    /// Whether a search of a moment ago has found what is still the place.
    #[inline(always)]
    pub(crate) const fn is_place(&self, deadline: u64, place: &Place) -> bool {
        let at = place.at;
        place.lane == 0
            && (at == 0 || self.is_on_the_way(at, 0, deadline))
            && self.deadline_at(self.lanes[0][at & (N - 1)].next as usize) > deadline
    }

    /// Puts a timer behind the one where a search has ended.
    #[inline(always)]
    pub(crate) const fn insert(&mut self, id: TimerId, deadline: u64, place: &Place) {
        self.insert_behind(place.at, id, deadline);
    }

    /// Puts a timer that is not after any other before all.
    #[inline(always)]
    pub(crate) const fn insert_first(&mut self, id: TimerId, deadline: u64) {
        self.insert_behind(0, id, deadline);
    }

    #[inline(always)]
    const fn insert_behind(&mut self, behind: usize, id: TimerId, deadline: u64) {
        let id = id.index() & (N - 1);
        self.deadlines[id] = deadline;
        self.heights[id] = 1;
        link(&mut self.lanes[0], id, behind);
    }

    /// Takes a timer out that is in the list.
    #[inline(always)]
    pub(crate) fn remove(&mut self, id: TimerId) {
        let id = id.index() & (N - 1);
        let height = core::mem::replace(&mut self.heights[id], 0);
        unlink(&mut self.lanes[0], id);
        if height > 1 {
            self.remove_above(id, height.into());
        }
    }

    #[cold]
    #[inline(never)]
    fn remove_above(&mut self, id: usize, height: usize) {
        if let Some(lanes) = self.lanes.get_mut(1..height) {
            for lane in lanes {
                unlink(lane, id);
            }
        }
    }

    #[cold]
    #[inline(never)]
    fn tidy_or_raise(&mut self, deadline: u64, place: &mut Place) {
        if self.has_relics {
            self.tidy();
        } else {
            self.raise(deadline, place);
        }
    }

    /// Whether relics may be left.
    #[inline(always)]
    pub(crate) const fn has_relics(&self) -> bool {
        self.has_relics
    }

    /// Takes a relic out, of the highest lane that has one; or there is none any more.
    #[inline(never)]
    pub(crate) fn tidy(&mut self) {
        let mut number = self.nr_lanes;
        while number > 1 {
            number -= 1;
            let Some(lane) = self.lanes.get_mut(number) else {
                return;
            };
            let first = lane[0].next as usize & (N - 1);
            if first == 0 {
                if number + 1 == self.nr_lanes {
                    self.nr_lanes = number;
                }
            } else if self.heights[first] as usize <= number {
                return unlink(lane, first);
            }
        }
        self.has_relics = false;
    }

    /// Has the timer that [`SPACING`] steps lead to from the one above stand in that lane too, if what the search has found
    /// is still so.
    fn raise(&mut self, deadline: u64, place: &mut Place) {
        place.walked -= SPACING;
        let above = place.above & (N - 1);
        let number = place.lane + 1;
        let (Some(row), Some(lane)) = (self.lanes.get(place.lane), self.lanes.get(number)) else {
            return;
        };
        let next = lane[above].next as usize & (N - 1);
        let is_there = above == 0 || self.height(above) > number;
        if !is_there || self.deadlines[next] <= deadline {
            return;
        }
        // By the list's own links: of equals either may be before the other.
        let mut id = above;
        for _ in 0..SPACING {
            id = row[id].next as usize & (N - 1);
            if id == 0 {
                return;
            }
        }
        if self.height(id) != number || self.deadlines[id] > deadline {
            return;
        }
        link(&mut self.lanes[number], id, above);
        self.heights[id] += 1;
        place.above = id;
        self.nr_lanes = self.nr_lanes.max(number + 1);
    }

    /// Checks the invariants, in O(N); for tests.
    ///
    /// # Errors
    /// What is not as it has to be.
    pub(crate) fn verify(&self) -> Result<(), &'static str> {
        // Where each timer stands in lane 0, from 1 on.
        let mut places = [0; N];
        for (number, lane) in self.lanes.iter().enumerate() {
            let (mut at, mut place, mut nr_live) = (0, 0, 0);
            for nr in 0.. {
                let next = lane[at].next as usize;
                if lane[next].prev as usize != at {
                    return Err("a ring is not one");
                }
                if next == 0 {
                    break;
                }
                if nr > N || number >= self.nr_lanes.max(1) {
                    return Err("a lane has too many timers");
                }
                if self.height(next) > number {
                    nr_live += 1;
                    if number == 0 {
                        places[next] = nr_live;
                        if at != 0 && self.deadlines[at] > self.deadlines[next] {
                            return Err("the list is not in order");
                        }
                    } else if places[next] <= place {
                        return Err("a lane is not in the list's order");
                    }
                    place = places[next];
                } else if number == 0 || nr_live != 0 || !self.has_relics {
                    return Err("a relic where none can be");
                }
                at = next;
            }
            if nr_live
                != self
                    .heights
                    .iter()
                    .filter(|h| **h as usize > number)
                    .count()
            {
                return Err("a timer is not in its lanes");
            }
        }
        Ok(())
    }
}

#[inline(always)]
const fn link<const N: usize>(lane: &mut [Neighbours; N], id: usize, behind: usize) {
    let next = lane[behind & (N - 1)].next;
    lane[id & (N - 1)] = Neighbours {
        next,
        prev: behind as u16,
    };
    lane[behind & (N - 1)].next = id as u16;
    lane[next as usize & (N - 1)].prev = id as u16;
}

#[inline(always)]
const fn unlink<const N: usize>(lane: &mut [Neighbours; N], id: usize) {
    let Neighbours { next, prev } = lane[id & (N - 1)];
    lane[prev as usize & (N - 1)].next = next;
    lane[next as usize & (N - 1)].prev = prev;
}
