//! `FewTimers`: the same model.

use proptest::prelude::*;
use takt_scheduler::{FewTimers, Insertion, Stage};

use super::model::{Model, tid};
use super::{Op, ops};

fn run(ops: &[Op]) {
    let mut queue = FewTimers::<u64, 16>::new();
    let mut model = Model::default();
    for &op in ops {
        match op {
            Op::Insert(id, deadline) => {
                assert_eq!(queue.insert(tid(id), deadline), model.insert(id, deadline));
            }
            Op::Begin(id, deadline) => {
                let mut insertion = Insertion::new(Stage::Disarm);
                let inserted = queue.insert_step(tid(id), deadline, &mut insertion);
                assert_eq!(inserted, Some(model.insert(id, deadline)));
            }
            Op::Hasten(deadline) => {
                let is_later = queue.deadline_of(tid(0)).is_some_and(|it| it <= deadline);
                assert_eq!(
                    queue.hasten_0(deadline),
                    (!is_later).then(|| model.insert(0, deadline))
                );
            }
            Op::Cancel(id) => assert_eq!(queue.cancel(tid(id)), model.cancel(id)),
            Op::PopExpired(now) => assert_eq!(queue.pop_expired(now), model.pop_expired(now)),
            Op::Rearm(period) => {
                if let Some((deadline, id)) = queue.earliest() {
                    let deadline = deadline.saturating_add(period);
                    assert_eq!(queue.insert(id, deadline), model.insert(id.raw(), deadline));
                }
            }
            Op::Step(_) | Op::Forget(_) => {}
        }
        let earliest = model.earliest();
        assert_eq!(queue.earliest(), earliest.map(|(at, id)| (at, tid(id))));
        assert_eq!(
            queue.earliest_deadline(),
            earliest.map_or(u64::MAX, |it| it.0)
        );
        assert_eq!(queue.len(), model.armed.len());
        for id in 0..16 {
            let deadline = model.keys.get(&id).map(|key| key.0);
            assert_eq!(queue.deadline_of(tid(id)), deadline);
        }
    }
    while let Some(expected) = model.pop_expired(u64::MAX - 1) {
        assert_eq!(queue.pop_further_expired(u64::MAX - 1), Some(expected));
    }
    assert!(queue.is_empty());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, ..ProptestConfig::default() })]

    #[test]
    fn follows_the_model(ops in ops(16, 1000, 500)) {
        run(&ops);
    }

    #[test]
    fn follows_the_model_with_many_equal_deadlines(ops in ops(16, 3, 500)) {
        run(&ops);
    }
}
