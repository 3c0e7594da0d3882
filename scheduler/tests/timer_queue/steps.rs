//! Insertions in steps: that they end, soon, whatever comes between.

use takt_scheduler::{Insertion, Stage, TimerId, TimerQueue};

use super::model::{Begun, Model, check, tid};

/// Steps that an insertion takes: none further if its place is at hand.
fn steps_of<const N: usize>(queue: &mut TimerQueue<u64, N>, id: TimerId, deadline: u64) -> usize {
    let Err(stage) = queue.insert_at_hand(id, deadline) else {
        return 0;
    };
    let mut insertion = Insertion::new(stage);
    let steps = (1..).find(|_| queue.insert_step(id, deadline, &mut insertion).is_some());
    steps.expect("an insertion comes to its end")
}

/// Steps that the insertion of a further timer takes, which is taken out again.
fn steps_to<const N: usize>(queue: &mut TimerQueue<u64, N>, deadline: u64) -> usize {
    let id = tid(N as u16 - 1);
    let steps = steps_of(queue, id, deadline);
    assert!(queue.cancel(id).was_armed());
    steps
}

/// What the kernel relies on: three steps find any place, however many timers there are and came to be armed, once some
/// have been looked for.
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
            let mut queue = Box::new(TimerQueue::<u64, 2048>::new());
            for id in 1..=nr {
                let _ = queue.insert(tid(id), deadline_of(u64::from(id)));
            }
            for deadline in (0..3000).step_by(7) {
                steps_to(&mut queue, deadline);
            }
            let steps = Vec::from_iter((0..3000).map(|at| steps_to(&mut queue, at)));
            let at_hand = steps.iter().filter(|steps| **steps == 0).count();
            let nr_long = steps.iter().filter(|steps| **steps > 3).count();
            println!("{nr} timers, {name}: {at_hand} of 3000 at hand, {nr_long} took longer");
            assert!(nr_long <= 10, "{nr} timers, {name}: {nr_long} took longer");
            // As they expire and are armed again, it stays so but for a few that show that they lie otherwise now.
            let mut nr_long = 0;
            for _ in 0..4 * nr {
                let (deadline, id) = queue
                    .pop_expired(u64::MAX - 1)
                    .map(|(id, at)| (at, id))
                    .expect("armed");
                let deadline = deadline + 1 + deadline_of(u64::from(id.raw())) % 1000;
                let steps = steps_of(&mut queue, id, deadline);
                nr_long += usize::from(steps > 4 + nr.ilog2() as usize);
            }
            println!("{nr} timers, {name}: {nr_long} of {} took longer", 4 * nr);
            assert!(nr_long <= 20, "{nr} timers, {name}: {nr_long}");
        }
    }
}

/// Timers expire off a list in a row, and nobody clears up before the next ones are armed, the same ones and
/// others, far away and near.
#[test]
fn those_that_expired_are_in_nobodys_way() {
    let mut queue = Box::new(TimerQueue::<u64, 512>::new());
    let mut model = Model::default();
    let mut seed = 1u64;
    let mut random = |below: u64| {
        seed = seed.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(1);
        (seed >> 33) % below
    };
    let arm = |queue: &mut TimerQueue<u64, 512>, model: &mut Model, id: u16, deadline: u64| {
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
/// many are equal. The list stays in order, and no search goes round.
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
            let mut queue = Box::new(TimerQueue::<u64, N>::new());
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
                    _ => {}
                }
                check(&queue, &model);
            }
        }
    }
}

/// A search whose timer is taken away begins anew, and not at the list's beginning.
#[test]
fn a_search_that_is_thrown_back_is_short() {
    let mut queue = Box::new(TimerQueue::<u64, 2048>::new());
    for id in 1..=2000u16 {
        let _ = queue.insert(tid(id), 10 * (u64::from(id) * 1237 % 2039));
    }
    for deadline in (0..21_000).step_by(7) {
        steps_to(&mut queue, deadline);
    }
    let deadline = 19_995;
    for stop in 1..steps_to(&mut queue, deadline) {
        let mut queue = queue.clone();
        let mut insertion = Insertion::new(Stage::Disarm);
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

/// Whoever arms timers for the end of time, again and again, makes no search for a near place long.
#[test]
fn far_deadlines_are_in_nobodys_way() {
    for far in [u64::MAX - 1000, 1 << 60, 1 << 51] {
        let mut queue = Box::new(TimerQueue::<u64, 512>::new());
        for id in 1..=200 {
            let _ = queue.insert(tid(id), u64::from(id) * 10_000);
        }
        let (mut nr, mut nr_long) = (0, 0);
        for round in 0..2000 {
            for nr in 0..8 {
                let id = tid(300 + nr);
                steps_of(&mut queue, id, far + 100 * u64::from(nr) + round % 7);
            }
            for at in 0..8 {
                let near = (round * 8 + at) * 7919 % 2_000_000;
                nr += 1;
                nr_long += usize::from(steps_to(&mut queue, near) > 3);
            }
        }
        println!("{far:x}: {nr_long} of {nr} took longer");
        assert!(
            100 * nr_long <= nr,
            "{far:x}: {nr_long} of {nr} took longer"
        );
    }
}

/// However many stand at the end of time, and so however long it takes to find a place there: a search that is long now and then, since
/// some timers lie close together, does not change how long slots are.
#[test]
fn many_far_deadlines_wear_no_patience_out() {
    let mut queue = Box::new(TimerQueue::<u64, 512>::new());
    for id in 1..=200 {
        let _ = queue.insert(tid(id), u64::from(id) * 10_000);
    }
    for id in 201..=220 {
        let _ = queue.insert(tid(id), 1_000_000 + u64::from(id));
    }
    let (mut nr, mut nr_long) = (0, 0);
    for round in 0..2000 {
        for nr in 0..20 {
            let id = tid(300 + (round as u16 * 20 + nr) % 150);
            let _ = steps_of(&mut queue, id, (1 << 60) + u64::from(id.raw()));
        }
        steps_to(&mut queue, 1_000_205);
        for at in 0..16 {
            let near = (round * 16 + at) * 7919 % 2_000_000;
            nr += 1;
            nr_long += usize::from(steps_to(&mut queue, near) > 3);
        }
    }
    println!("{nr_long} of {nr} took longer");
    assert!(100 * nr_long <= nr, "{nr_long} of {nr} took longer");
}
