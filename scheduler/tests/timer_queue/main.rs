//! `TimerQueue` against a `BTreeMap`.

mod few;
mod model;
mod steps;

use model::{Begun, Model, check, check_timers, tid};
use proptest::prelude::*;
use takt_scheduler::{Cancelled, Inserted, TimerId, TimerQueue};

#[derive(Clone, Copy, Debug)]
enum Op {
    Insert(u16, u64),
    /// Of timer 0.
    Hasten(u64),
    Cancel(u16),
    PopExpired(u64),
    /// As a periodic timer does: the earliest moves by a period.
    Rearm(u64),
    /// An insertion in steps, among the other operations.
    Begin(u16, u64),
    /// One step of one of those that have begun.
    Step(usize),
    /// What was learnt is forgotten, and slots begin there, wherever that is.
    Forget(u64),
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
        2 => (0..nr_deadlines).prop_map(Op::Hasten),
        3 => (0..nr_timers).prop_map(Op::Cancel),
        2 => (0..nr_deadlines).prop_map(Op::PopExpired),
        2 => (0..nr_deadlines).prop_map(Op::Rearm),
        3 => (0..nr_timers, deadline()).prop_map(|(id, deadline)| Op::Begin(id, deadline)),
        8 => (0..100usize).prop_map(Op::Step),
        1 => deadline().prop_map(Op::Forget),
    ];
    prop::collection::vec(op, 1..len)
}

/// Takes the earliest one out that is due, in one of the two ways.
fn pop<const N: usize>(queue: &mut TimerQueue<u64, N>, now: u64) -> Option<(TimerId, u64)> {
    let popped = match now % 2 {
        0 => queue.pop_expired(now),
        _ => queue.pop_further_expired(now),
    };
    if popped.is_some() {
        assert_eq!(queue.next_deadline(), queue.earliest_deadline());
    }
    popped.or_else(|| queue.pop_expired_0(now))
}

fn run<const N: usize>(ops: &[Op]) {
    let mut queue = Box::new(TimerQueue::<u64, N>::new());
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
            Op::Hasten(deadline) => {
                assert_eq!(queue.hasten_0(deadline), model.hasten_0(deadline));
            }
            Op::Cancel(id) => assert_eq!(queue.cancel(tid(id)), model.cancel(id)),
            Op::PopExpired(now) => assert_eq!(pop(&mut queue, now), model.pop_expired(now)),
            Op::Rearm(period) => {
                if let Some((deadline, id)) = queue.earliest() {
                    let deadline = deadline.saturating_add(period);
                    assert_eq!(queue.insert(id, deadline), model.insert(id.raw(), deadline));
                }
            }
            Op::Forget(origin) => queue.forget(origin),
            Op::Begin(id, deadline) => begun.push(Begun::new(id, deadline)),
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
        let popped = queue.pop_further_expired(u64::MAX - 1);
        assert_eq!(popped, Some(expected));
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
    let mut queue = Box::new(TimerQueue::<u64, 2048>::new());
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
    let mut queue = Box::new(TimerQueue::<u64, N>::new());
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
    let mut queue = TimerQueue::<u64, 16>::new();
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

#[test]
fn a_reset_queue_is_empty_whatever_it_held() {
    let mut queue = Box::new(TimerQueue::<u64, 64>::new());
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
    let mut queue = TimerQueue::<u64, 16>::new();
    assert_eq!(queue.insert(tid(3), 100), Inserted::Earliest);
    assert_eq!(queue.pop_expired(99), None);
    assert_eq!(queue.pop_expired(100), Some((tid(3), 100)));
    assert_eq!(queue.pop_expired(100), None);
    assert!(!queue.is_armed(tid(3)));
}

#[test]
fn equal_deadlines_expire_in_the_order_of_insertion() {
    let mut queue = TimerQueue::<u64, 16>::new();
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
    let mut queue = TimerQueue::<u64, 16>::new();
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
    let mut queue = TimerQueue::<u64, 16>::new();
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
    let mut queue = TimerQueue::<u64, 16>::new();
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
