//! `TimerQueue` against a `BTreeMap`.

use std::collections::{BTreeMap, HashMap};

use proptest::prelude::*;
use takt_scheduler::{Cancelled, Inserted, Insertion, TimerId, TimerQueue};

fn tid(raw: u16) -> TimerId {
    TimerId::new(raw)
}

/// Armed timers by deadline and order of insertion, which is 0 for timer 0.
#[derive(Default)]
struct Model {
    armed: BTreeMap<(u64, u64), u16>,
    keys: HashMap<u16, (u64, u64)>,
    nr_inserted: u64,
}

impl Model {
    fn earliest(&self) -> Option<(u64, u16)> {
        let (&(deadline, _), &id) = self.armed.first_key_value()?;
        Some((deadline, id))
    }

    fn is_earliest(&self, id: u16) -> bool {
        self.earliest().is_some_and(|(_, first)| first == id)
    }

    fn insert(&mut self, id: u16, deadline: u64) -> Inserted {
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

    fn cancel(&mut self, id: u16) -> Cancelled {
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

    fn pop_expired(&mut self, now: u64) -> Option<(TimerId, u64)> {
        let (deadline, id) = self.earliest().filter(|&(deadline, _)| deadline <= now)?;
        self.armed.pop_first();
        self.keys.remove(&id);
        Some((tid(id), deadline))
    }
}

#[derive(Clone, Copy, Debug)]
enum Op {
    Insert(u16, u64),
    Cancel(u16),
    PopExpired(u64),
    /// As a periodic timer does: the earliest moves by a period.
    Rearm(u64),
    /// An insertion in steps, among the other operations.
    Begin(u16, u64),
    /// One step of one of those that have begun.
    Step(usize),
    /// What the kernel does when it has the time. No one may notice.
    Tidy,
}

fn ops(nr_timers: u16, nr_deadlines: u64, len: usize) -> impl Strategy<Value = Vec<Op>> {
    let deadline = move || {
        prop_oneof![
            30 => 0..nr_deadlines,
            1 => Just(u64::MAX - 1),
            1 => Just(u64::MAX),
        ]
    };
    let op = prop_oneof![
        8 => (0..nr_timers, deadline()).prop_map(|(id, deadline)| Op::Insert(id, deadline)),
        3 => (0..nr_timers).prop_map(Op::Cancel),
        2 => (0..nr_deadlines).prop_map(Op::PopExpired),
        2 => (0..nr_deadlines).prop_map(Op::Rearm),
        3 => (0..nr_timers, deadline()).prop_map(|(id, deadline)| Op::Begin(id, deadline)),
        8 => (0..100usize).prop_map(Op::Step),
        1 => Just(Op::Tidy),
    ];
    prop::collection::vec(op, 1..len)
}

/// What can be asked of the queue at little cost.
fn check<const N: usize>(queue: &TimerQueue<N>, model: &Model) {
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

fn check_timers<const N: usize>(queue: &TimerQueue<N>, model: &Model) {
    for id in 0..N as u16 {
        let deadline = model.keys.get(&id).map(|key| key.0);
        assert_eq!(queue.is_armed(tid(id)), deadline.is_some());
        assert_eq!(queue.deadline_of(tid(id)), deadline);
    }
}

/// An insertion that has begun.
struct Begun {
    id: u16,
    deadline: u64,
    insertion: Insertion,
    is_new: bool,
    was_earliest: bool,
}

impl Begun {
    fn new(id: u16, deadline: u64) -> Self {
        Self {
            id,
            deadline,
            insertion: Insertion::NEW,
            is_new: true,
            was_earliest: false,
        }
    }

    /// One step further; whether it was the last.
    fn step<const N: usize>(&mut self, queue: &mut TimerQueue<N>, model: &mut Model) -> bool {
        if self.id == 0 || self.deadline == u64::MAX {
            let found = queue.insert(tid(self.id), self.deadline);
            let expected = model.insert(self.id, self.deadline);
            assert!(found == expected || model.armed.is_empty() && self.deadline == u64::MAX);
            return true;
        }
        let was_armed = queue.is_armed(tid(self.id));
        let is_in_front = self.is_new && !queue.is_empty();
        self.is_new = false;
        let done = if is_in_front {
            queue.insert_in_front(tid(self.id), self.deadline, &mut self.insertion)
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

fn run<const N: usize>(ops: &[Op]) {
    let mut queue = Box::new(TimerQueue::<N>::new());
    let mut model = Model::default();
    let mut begun: Vec<Begun> = Vec::new();
    for &op in ops {
        match op {
            Op::Insert(id, deadline) => {
                let expected = model.insert(id, deadline);
                let is_empty = model.armed.is_empty();
                let found = queue.insert(tid(id), deadline);
                // Never, in an empty queue: whether the clock is set for nothing does not matter.
                assert!(found == expected || is_empty && deadline == u64::MAX);
            }
            Op::Cancel(id) => assert_eq!(queue.cancel(tid(id)), model.cancel(id)),
            Op::PopExpired(now) => assert_eq!(queue.pop_expired(now), model.pop_expired(now)),
            Op::Rearm(period) => {
                if let Some((deadline, id)) = queue.earliest() {
                    let deadline = deadline.saturating_add(period);
                    assert_eq!(queue.insert(id, deadline), model.insert(id.raw(), deadline));
                }
            }
            Op::Begin(id, deadline) => begun.push(Begun::new(id, deadline)),
            Op::Tidy => queue.tidy(),
            Op::Step(_) if begun.is_empty() => {}
            Op::Step(which) => {
                let which = which % begun.len();
                if begun[which].step(&mut queue, &mut model) {
                    begun.swap_remove(which);
                }
            }
        }
        check(&queue, &model);
        if N <= 16 {
            check_timers(&queue, &model);
        }
    }
    check_timers(&queue, &model);
    while let Some(expected) = model.pop_expired(u64::MAX - 1) {
        assert_eq!(queue.pop_expired(u64::MAX - 1), Some(expected));
        check(&queue, &model);
    }
    assert_eq!(queue.pop_expired(u64::MAX - 1), None);
    check_timers(&queue, &model);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, ..ProptestConfig::default() })]

    #[test]
    fn follows_the_model_with_1_timer(ops in ops(1, 10, 100)) {
        run::<4>(&ops);
    }

    #[test]
    fn follows_the_model_with_4_timers(ops in ops(4, 10, 300)) {
        run::<4>(&ops);
    }

    #[test]
    fn follows_the_model_with_16_timers(ops in ops(16, 1000, 500)) {
        run::<16>(&ops);
    }

    #[test]
    fn follows_the_model_with_many_equal_deadlines(ops in ops(64, 3, 500)) {
        run::<64>(&ops);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn follows_the_model_with_2000_timers(ops in ops(2000, 1 << 40, 8000)) {
        run::<2048>(&ops);
    }
}

#[test]
fn a_full_queue_is_emptied_in_order() {
    let mut queue = Box::new(TimerQueue::<2048>::new());
    let mut model = Model::default();
    for i in 0..2048u64 {
        let id = (i * 1237 % 2048) as u16;
        let deadline = i.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 54;
        assert_eq!(queue.insert(tid(id), deadline), model.insert(id, deadline));
    }
    check(&queue, &model);
    check_timers(&queue, &model);
    for id in (0..2048).step_by(7) {
        assert_eq!(queue.cancel(tid(id)), model.cancel(id));
        assert_eq!(queue.cancel(tid(id)), Cancelled::NotArmed);
    }
    while let Some(expected) = model.pop_expired(2000) {
        assert_eq!(queue.pop_expired(2000), Some(expected));
    }
    assert!(queue.is_empty());
}

/// Every number of timers up to all, more and fewer of them by turns.
fn grows_and_shrinks<const N: usize>(step: usize) {
    let mut queue = Box::new(TimerQueue::<N>::new());
    let mut model = Model::default();
    let mut seed = 1u64;
    for most in (1..=N).step_by(step).chain([N, 1, N / 2, N]) {
        while model.armed.len() < most {
            seed = seed.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(1);
            // Few deadlines, so that many are equal; each id in the end.
            let (deadline, id) = (seed >> 60, (seed >> 33) as u16 % N as u16);
            let id = (0..N as u16)
                .map(|n| (id + n) % N as u16)
                .find(|id| !model.keys.contains_key(id))
                .expect("not all are armed");
            assert_eq!(queue.insert(tid(id), deadline), model.insert(id, deadline));
        }
        check(&queue, &model);
        check_timers(&queue, &model);
        // Some are cancelled, from the last armed on, the others expire in a row.
        for id in (0..N as u16).rev().step_by(3) {
            assert_eq!(queue.cancel(tid(id)), model.cancel(id));
        }
        while model.armed.len() > most / 8 {
            assert_eq!(queue.pop_expired(15), model.pop_expired(15));
            assert_eq!(queue.len(), model.armed.len());
        }
        check_timers(&queue, &model);
    }
}

#[test]
fn any_number_of_timers_comes_and_goes() {
    grows_and_shrinks::<2>(1);
    grows_and_shrinks::<4>(1);
    grows_and_shrinks::<64>(1);
    grows_and_shrinks::<128>(3);
    grows_and_shrinks::<2048>(1000);
}

/// Whatever is moved to and fro.
#[test]
fn equals_keep_their_order() {
    let mut queue = TimerQueue::<16>::new();
    for id in 0..8 {
        let _ = queue.insert(tid(id), 50);
    }
    // Four earlier ones push those that were in front behind the equal ones that were there.
    for id in 8..12 {
        let _ = queue.insert(tid(id), 40);
    }
    // They are armed for the same time as the others, and so after them.
    for id in 8..12 {
        let _ = queue.insert(tid(id), 50);
    }
    let _ = queue.insert(tid(2), 50);
    for id in [0, 1, 3, 4, 5, 6, 7, 8, 9, 10, 11, 2] {
        assert_eq!(queue.pop_expired(50), Some((tid(id), 50)));
    }
    assert!(queue.is_empty());
}

/// Steps that the insertion of a further timer takes, which is taken out again.
fn steps_to<const N: usize>(queue: &mut TimerQueue<N>, deadline: u64) -> usize {
    let id = tid(N as u16 - 1);
    let mut insertion = Insertion::NEW;
    let steps = (1..).find(|_| queue.insert_step(id, deadline, &mut insertion).is_some());
    assert!(queue.cancel(id).was_armed());
    steps.expect("an insertion comes to its end")
}

/// What the kernel relies on: few steps find any place, however the timers came to be armed, once some have been looked
/// for.
#[test]
fn searches_make_later_ones_short() {
    let ascending = |i: u64| i;
    let descending = |i: u64| 3000 - i;
    let mixed = |i: u64| i * 1237 % 2039;
    let equal = |_: u64| 77;
    let orders: [(&str, &dyn Fn(u64) -> u64); 4] = [
        ("ascending", &ascending),
        ("descending", &descending),
        ("mixed", &mixed),
        ("equal", &equal),
    ];
    for (name, deadline_of) in orders {
        for nr in [8u16, 64, 256, 2000] {
            let mut queue = Box::new(TimerQueue::<2048>::new());
            for id in 1..=nr {
                let _ = queue.insert(tid(id), deadline_of(u64::from(id)));
            }
            for deadline in (0..3000).step_by(7) {
                steps_to(&mut queue, deadline);
            }
            let most = (0..3000).map(|at| steps_to(&mut queue, at)).max();
            let most = most.expect("there are some");
            println!("{nr} timers, {name}: {most} steps");
            assert!(
                most <= 2 + nr.ilog2() as usize,
                "{nr} timers, {name}: {most} steps"
            );
            // As they expire and are armed again, it stays so.
            for _ in 0..4 * nr {
                let (deadline, id) = queue
                    .pop_expired(u64::MAX - 1)
                    .map(|(id, at)| (at, id))
                    .expect("armed");
                while queue.wants_tidying() {
                    queue.tidy();
                }
                let mut insertion = Insertion::NEW;
                let deadline = deadline + 1 + deadline_of(u64::from(id.raw())) % 1000;
                let steps =
                    (1..).find(|_| queue.insert_step(id, deadline, &mut insertion).is_some());
                let steps = steps.expect("an insertion comes to its end");
                assert!(
                    steps <= 4 + nr.ilog2() as usize,
                    "{nr} timers, {name}: {steps} steps"
                );
            }
        }
    }
}

/// Timers expire off a list with lanes in a row, and nobody clears up before the next ones are armed, the same ones and
/// others, far away and near.
#[test]
fn those_that_expired_are_in_nobodys_way() {
    let mut queue = Box::new(TimerQueue::<512>::new());
    let mut model = Model::default();
    let mut seed = 1u64;
    let mut random = |below: u64| {
        seed = seed.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(1);
        (seed >> 33) % below
    };
    let arm = |queue: &mut TimerQueue<512>, model: &mut Model, id: u16, deadline: u64| {
        let mut begun = Begun::new(id, deadline);
        let steps = (0..1_000).find(|_| begun.step(queue, model));
        assert!(steps.is_some(), "the search goes round");
    };
    for id in 1..400 {
        arm(&mut queue, &mut model, id, random(100_000));
    }
    for _ in 0..300 {
        for _ in 0..random(60) {
            let expected = model.pop_expired(u64::MAX - 1);
            assert_eq!(queue.pop_expired(u64::MAX - 1), expected);
            let Some((id, deadline)) = expected else {
                break;
            };
            match random(3) {
                0 => arm(
                    &mut queue,
                    &mut model,
                    id.raw(),
                    deadline + 100_000 + random(1_000),
                ),
                1 => arm(&mut queue, &mut model, id.raw(), deadline + random(1_000)),
                _ => {}
            }
        }
        let earliest = model.earliest().map_or(0, |(deadline, _)| deadline);
        for _ in 0..random(60) {
            let id = 1 + random(510) as u16;
            arm(&mut queue, &mut model, id, earliest + random(100_000));
        }
        check(&queue, &model);
    }
    while let Some(expected) = model.pop_expired(u64::MAX - 1) {
        assert_eq!(queue.pop_expired(u64::MAX - 1), Some(expected));
    }
    assert!(queue.is_empty());
}

/// Several insertions at once, each a step at a time, while timers are cancelled and expire: with few deadlines, so that
/// many are equal. The lanes stay in order, and no search goes round.
#[test]
fn steps_that_others_come_between() {
    const N: usize = 128;
    for (nr_deadlines, seeds) in [(1, 60), (3, 60), (20, 60), (1 << 30, 20)] {
        for mut seed in 1..=seeds {
            let mut random = |below: u64| {
                seed = u64::wrapping_mul(seed, 0x5851_F42D_4C95_7F2D)
                    .wrapping_add(0x1405_7B7E_F767_814F);
                (seed >> 33) % below
            };
            let mut queue = Box::new(TimerQueue::<N>::new());
            let mut model = Model::default();
            let mut begun: Vec<Begun> = Vec::new();
            for _ in 0..2_000 {
                let id = 1 + random(N as u64 - 1) as u16;
                let earliest = model.earliest().map_or(10, |(deadline, _)| deadline);
                match random(20) {
                    0..=5 => {
                        let mut whole = Begun::new(id, earliest + random(nr_deadlines));
                        assert!(
                            (0..1_000).any(|_| whole.step(&mut queue, &mut model)),
                            "a search goes round"
                        );
                    }
                    6..=8 if begun.len() < 3 => {
                        begun.push(Begun::new(id, earliest + random(nr_deadlines)))
                    }
                    6..=13 if !begun.is_empty() => {
                        let which = random(begun.len() as u64) as usize;
                        if begun[which].step(&mut queue, &mut model) {
                            begun.swap_remove(which);
                        }
                    }
                    14..=17 => assert_eq!(queue.cancel(tid(id)), model.cancel(id)),
                    18 => {
                        for _ in 0..random(12) {
                            assert_eq!(
                                queue.pop_expired(u64::MAX - 1),
                                model.pop_expired(u64::MAX - 1)
                            );
                        }
                    }
                    _ => queue.tidy(),
                }
                check(&queue, &model);
            }
        }
    }
}

/// A search whose timer is taken away begins anew, and not at the list's beginning.
#[test]
fn a_search_that_is_thrown_back_is_short() {
    let mut queue = Box::new(TimerQueue::<2048>::new());
    for id in 1..=2000u16 {
        let _ = queue.insert(tid(id), 10 * (u64::from(id) * 1237 % 2039));
    }
    for deadline in (0..21_000).step_by(7) {
        steps_to(&mut queue, deadline);
    }
    let deadline = 19_995;
    for stop in 1..steps_to(&mut queue, deadline) {
        let mut queue = queue.clone();
        let mut insertion = Insertion::NEW;
        for _ in 0..stop {
            assert_eq!(queue.insert_step(tid(2047), deadline, &mut insertion), None);
        }
        for id in 1..=2000 {
            if queue
                .deadline_of(tid(id))
                .is_some_and(|at| at > 19_000 && at <= deadline)
            {
                let _ = queue.cancel(tid(id));
            }
        }
        let more = (1..).find(|_| {
            queue
                .insert_step(tid(2047), deadline, &mut insertion)
                .is_some()
        });
        assert!(
            more.is_some_and(|more| more < 30),
            "{more:?} more steps after {stop}"
        );
        assert_eq!(queue.verify(), Ok(()));
    }
}

#[test]
fn a_reset_queue_is_empty_whatever_it_held() {
    let mut queue = Box::new(TimerQueue::<64>::new());
    for id in 0..64 {
        let _ = queue.insert(tid(id), u64::from(id) % 5);
    }
    queue.reset();
    let mut model = Model::default();
    check(&queue, &model);
    check_timers(&queue, &model);
    for id in (0..64).rev() {
        assert_eq!(queue.insert(tid(id), 7), model.insert(id, 7));
    }
    while let Some(expected) = model.pop_expired(7) {
        assert_eq!(queue.pop_expired(7), Some(expected));
    }
}

#[test]
fn expires_at_its_deadline_and_not_before() {
    let mut queue = TimerQueue::<16>::new();
    assert_eq!(queue.insert(tid(3), 100), Inserted::Earliest);
    assert_eq!(queue.pop_expired(99), None);
    assert_eq!(queue.pop_expired(100), Some((tid(3), 100)));
    assert_eq!(queue.pop_expired(100), None);
    assert!(!queue.is_armed(tid(3)));
}

#[test]
fn equal_deadlines_expire_in_the_order_of_insertion() {
    let mut queue = TimerQueue::<16>::new();
    for id in [9, 2, 7, 1, 15, 4] {
        let _ = queue.insert(tid(id), 50);
    }
    // Inserted again, a timer is the last.
    assert_eq!(queue.insert(tid(9), 50), Inserted::Moved);
    for id in [2, 7, 1, 15, 4, 9] {
        assert_eq!(queue.pop_expired(50), Some((tid(id), 50)));
    }
}

#[test]
fn insert_tells_when_the_earliest_deadline_changes() {
    let mut queue = TimerQueue::<16>::new();
    assert_eq!(queue.insert(tid(1), 100), Inserted::Earliest);
    assert_eq!(queue.insert(tid(2), 200), Inserted::Later);
    // An equal is not earlier.
    assert_eq!(queue.insert(tid(3), 100), Inserted::Later);
    assert_eq!(queue.insert(tid(2), 50), Inserted::Earliest);
    assert_eq!(queue.insert(tid(2), 300), Inserted::Moved);
    assert_eq!(queue.earliest(), Some((100, tid(1))));
}

#[test]
fn a_deadline_that_never_comes_disarms() {
    let mut queue = TimerQueue::<16>::new();
    let _ = queue.insert(tid(1), u64::MAX);
    assert!(!queue.is_armed(tid(1)));
    assert!(queue.is_empty());
    assert_eq!(queue.earliest(), None);
    let _ = queue.insert(tid(1), 10);
    let _ = queue.insert(tid(2), 20);
    assert_eq!(queue.insert(tid(2), u64::MAX), Inserted::Later);
    assert_eq!(queue.insert(tid(1), u64::MAX), Inserted::Moved);
    assert_eq!(queue.len(), 0);
    assert_eq!(queue.cancel(tid(1)), Cancelled::NotArmed);
}

#[test]
fn a_place_that_another_took_over_is_not_its_own() {
    let mut queue = TimerQueue::<16>::new();
    let _ = queue.insert(tid(0), 1);
    let _ = queue.insert(tid(1), 2);
    assert_eq!(queue.cancel(tid(1)), Cancelled::Later);
    let _ = queue.insert(tid(2), 3);
    assert!(!queue.is_armed(tid(1)));
    assert_eq!(queue.cancel(tid(1)), Cancelled::NotArmed);
    assert_eq!(queue.cancel(tid(2)), Cancelled::Later);
    assert!(!queue.cancel(tid(2)).was_armed());
    assert_eq!(queue.len(), 1);
}
