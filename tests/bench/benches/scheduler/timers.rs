//! A timer is armed, cancelled, expires, among others with random deadlines.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use orx_priority_queue::{DaryHeapOfIndices, PriorityQueue, PriorityQueueDecKey};
use takt_scheduler::{TimerId, TimerQueue};

use crate::measure::{BATCH, Random, row};

/// Ids that the queues have room for.
const IDS: usize = 2048;
const SPAN: u64 = 1 << 31;

trait Timers {
    const NAME: &'static str;
    fn new() -> Self;
    fn arm(&mut self, id: usize, deadline: u64);
    /// Takes a timer back; not if the structure cannot.
    fn cancel(&mut self, id: usize, deadline: u64) -> bool;
    /// The earliest.
    fn expire(&mut self) -> Option<usize>;
}

struct Takt(Box<TimerQueue<u64, IDS>>);

impl Timers for Takt {
    const NAME: &'static str = "Takt";

    fn new() -> Self {
        Self(Box::new(TimerQueue::new()))
    }

    fn arm(&mut self, id: usize, deadline: u64) {
        let _ = self.0.insert(TimerId::new(id as u16), deadline);
    }

    fn cancel(&mut self, id: usize, _: u64) -> bool {
        self.0.cancel(TimerId::new(id as u16)).was_armed()
    }

    fn expire(&mut self) -> Option<usize> {
        self.0.pop_expired(u64::MAX - 1).map(|(id, _)| id.index())
    }
}

impl Timers for BTreeMap<(u64, u16), ()> {
    const NAME: &'static str = "BTreeMap";

    fn new() -> Self {
        Self::new()
    }

    fn arm(&mut self, id: usize, deadline: u64) {
        self.insert((deadline, id as u16), ());
    }

    fn cancel(&mut self, id: usize, deadline: u64) -> bool {
        self.remove(&(deadline, id as u16)).is_some()
    }

    fn expire(&mut self) -> Option<usize> {
        self.pop_first().map(|((_, id), ())| usize::from(id))
    }
}

impl Timers for BinaryHeap<Reverse<(u64, u16)>> {
    const NAME: &'static str = "BinaryHeap";

    fn new() -> Self {
        Self::new()
    }

    fn arm(&mut self, id: usize, deadline: u64) {
        self.push(Reverse((deadline, id as u16)));
    }

    /// All would have to be looked at.
    fn cancel(&mut self, _: usize, _: u64) -> bool {
        false
    }

    fn expire(&mut self) -> Option<usize> {
        self.pop().map(|Reverse((_, id))| usize::from(id))
    }
}

/// Of `orx-priority-queue`: knows where each id stands.
type Heap4 = DaryHeapOfIndices<usize, u64, 4>;

impl Timers for Heap4 {
    const NAME: &'static str = "4-ary heap, indexed";

    fn new() -> Self {
        Self::with_index_bound(IDS)
    }

    fn arm(&mut self, id: usize, deadline: u64) {
        self.push(id, deadline);
    }

    fn cancel(&mut self, id: usize, _: u64) -> bool {
        self.remove(&id);
        true
    }

    fn expire(&mut self) -> Option<usize> {
        self.pop().map(|(id, _)| id)
    }
}

/// The others, armed: ids from 1 on.
fn armed<T: Timers>(nr: usize, random: &mut Random) -> (T, Vec<u64>) {
    let mut timers = T::new();
    let deadlines: Vec<_> = (0..nr).map(|_| random.below(SPAN)).collect();
    for (at, deadline) in deadlines.iter().enumerate() {
        timers.arm(at + 1, *deadline);
    }
    (timers, deadlines)
}

fn of<T: Timers>() {
    for nr in [3, 10, 100, 1_000] {
        let mut random = Random(0x9e37_79b9_7f4a_7c15);
        let id = nr + 1;
        row("timer armed", T::NAME, nr, |clock| {
            let (mut timers, _) = armed::<T>(nr, &mut random);
            for _ in 0..BATCH {
                let deadline = random.below(SPAN);
                clock.time(|| timers.arm(id, deadline));
                if !timers.cancel(id, deadline) {
                    timers = armed::<T>(nr, &mut random).0;
                }
            }
        });
        let (mut one, _) = armed::<T>(1, &mut random);
        // `armed` gives its only timer the number 1.
        let deadline = 5;
        one.arm(2, deadline);
        if one.cancel(2, deadline) {
            row("timer cancelled", T::NAME, nr, |clock| {
                let (mut timers, mut deadlines) = armed::<T>(nr, &mut random);
                for _ in 0..BATCH {
                    let at = random.below(nr as u64) as usize;
                    assert!(clock.time(|| timers.cancel(at + 1, deadlines[at])));
                    deadlines[at] = random.below(SPAN);
                    timers.arm(at + 1, deadlines[at]);
                }
            });
        }
        row("timer expires", T::NAME, nr, |clock| {
            let (mut timers, mut deadlines) = armed::<T>(nr, &mut random);
            for _ in 0..BATCH {
                let id = clock.time(|| timers.expire()).expect("timers are armed");
                let now = deadlines[id - 1];
                deadlines[id - 1] = now + random.below(SPAN);
                timers.arm(id, deadlines[id - 1]);
            }
        });
    }
}

pub fn all() {
    of::<Takt>();
    of::<Heap4>();
    of::<BTreeMap<(u64, u16), ()>>();
    of::<BinaryHeap<Reverse<(u64, u16)>>>();
}
