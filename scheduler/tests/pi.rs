//! Priority inheritance, carried out as a kernel would, against a naive fixed point.

use proptest::prelude::*;
use takt_scheduler::pi::{Check, MAX_CHAIN, PiError, PiWorld, Walk, effective_priority};
use takt_scheduler::{Links, Placement, PrioQueue, Priority, ThreadId};

fn tid(index: usize) -> ThreadId {
    ThreadId::new(index as u8)
}

fn prio(raw: u8) -> Priority {
    Priority::new(raw).expect("a priority is 0 to 99")
}

struct Thread {
    base: Priority,
    effective: Priority,
    blocked_on: Option<usize>,
}

#[derive(Default)]
struct Mutex {
    owner: Option<usize>,
    waiters: PrioQueue,
}

struct World {
    threads: Vec<Thread>,
    mutexes: Vec<Mutex>,
    links: Links<256>,
}

impl PiWorld for World {
    type Mutex = usize;

    fn base(&self, t: ThreadId) -> Priority {
        self.threads[t.index()].base
    }

    fn effective(&self, t: ThreadId) -> Priority {
        self.threads[t.index()].effective
    }

    fn top_waiter(&self, t: ThreadId) -> Option<Priority> {
        let held = self.mutexes.iter().filter(|m| m.owner == Some(t.index()));
        held.filter_map(|m| m.waiters.top_priority())
            .reduce(Priority::max_important)
    }

    fn blocked_on(&self, t: ThreadId) -> Option<usize> {
        self.threads[t.index()].blocked_on
    }

    fn owner_of(&self, m: usize) -> Option<ThreadId> {
        self.mutexes[m].owner.map(tid)
    }
}

impl World {
    fn new(bases: &[u8], nr_mutexes: usize) -> Self {
        let thread = |&base: &u8| Thread {
            base: prio(base),
            effective: prio(base),
            blocked_on: None,
        };
        Self {
            threads: bases.iter().map(thread).collect(),
            mutexes: (0..nr_mutexes).map(|_| Mutex::default()).collect(),
            links: Links::new(),
        }
    }

    /// Follows a chain and carries the changes out; how many there were.
    fn propagate(&mut self, from: usize) -> usize {
        let mut walk = Walk::new(tid(from));
        let mut nr_changes = 0;
        loop {
            let change = match walk.step(self) {
                Ok(None) if walk.pending().is_none() => return nr_changes,
                Ok(None) => continue,
                Ok(Some(change)) => change,
                Err(error) => {
                    assert_eq!(error, PiError::ChainTooLong);
                    walk.renew();
                    continue;
                }
            };
            nr_changes += 1;
            let thread = &mut self.threads[change.tid.index()];
            assert_eq!(thread.effective, change.from);
            assert_ne!(change.from, change.to);
            thread.effective = change.to;
            if let Some(m) = thread.blocked_on {
                let waiters = &mut self.mutexes[m].waiters;
                waiters.remove(&self.links, change.tid, change.from);
                match change.placement {
                    Placement::Tail => waiters.push_back(&self.links, change.tid, change.to),
                    Placement::Head => waiters.push_front(&self.links, change.tid, change.to),
                }
            }
        }
    }

    /// Whether the thread may wait for the mutex, looked at in portions.
    fn check_wait(&self, t: usize, m: usize, portion: usize) -> Result<usize, PiError> {
        let mut check = Check::new(tid(t), self.owner_of(m));
        loop {
            if let Some(depth) = check.advance(self, portion)? {
                return Ok(depth);
            }
        }
    }

    /// Takes the mutex, waits for it, or is told that it must not.
    fn lock(&mut self, t: usize, m: usize) -> Result<usize, PiError> {
        let depth = self.check_wait(t, m, usize::MAX)?;
        for portion in 1..4 {
            assert_eq!(self.check_wait(t, m, portion), Ok(depth));
        }
        match self.mutexes[m].owner {
            None => self.mutexes[m].owner = Some(t),
            Some(owner) => {
                let effective = self.threads[t].effective;
                self.threads[t].blocked_on = Some(m);
                self.mutexes[m]
                    .waiters
                    .push_back(&self.links, tid(t), effective);
                self.propagate(owner);
            }
        }
        Ok(depth)
    }

    /// Hands the mutex to its most important waiter.
    fn unlock(&mut self, m: usize) {
        let Some(owner) = self.mutexes[m].owner.take() else {
            return;
        };
        if let Some((heir, _)) = self.mutexes[m].waiters.pop(&self.links) {
            self.mutexes[m].owner = Some(heir.index());
            self.threads[heir.index()].blocked_on = None;
            self.propagate(heir.index());
        }
        self.propagate(owner);
    }

    fn time_out(&mut self, t: usize) {
        if let Some(m) = self.threads[t].blocked_on.take() {
            let effective = self.threads[t].effective;
            self.mutexes[m]
                .waiters
                .remove(&self.links, tid(t), effective);
            self.propagate(self.mutexes[m].owner.expect("waited for, so held"));
        }
    }

    fn set_base(&mut self, t: usize, base: u8) {
        self.threads[t].base = prio(base);
        self.propagate(t);
    }

    /// The definition: the greatest base of the thread and all that wait for it, however far.
    fn naive_effective(&self, t: usize) -> u8 {
        let waiters = (0..self.threads.len()).filter(|&waiter| {
            let blocked_on = self.threads[waiter].blocked_on;
            blocked_on.is_some_and(|m| self.mutexes[m].owner == Some(t))
        });
        let base = self.threads[t].base.raw();
        waiters
            .map(|waiter| self.naive_effective(waiter))
            .fold(base, u8::max)
    }

    /// The definition: the mutex's owner waits, however far, for this thread.
    fn naive_is_deadlock(&self, t: usize, m: usize) -> bool {
        self.mutexes[m].owner.is_some_and(|owner| {
            owner == t
                || self.threads[owner]
                    .blocked_on
                    .is_some_and(|next| self.naive_is_deadlock(t, next))
        })
    }

    fn check(&self) {
        for (t, thread) in self.threads.iter().enumerate() {
            assert_eq!(
                thread.effective.raw(),
                self.naive_effective(t),
                "thread {t}"
            );
        }
        for (m, mutex) in self.mutexes.iter().enumerate() {
            let waiting = self.threads.iter().filter(|t| t.blocked_on == Some(m));
            assert_eq!(mutex.waiters.iter(&self.links).count(), waiting.count());
            for (waiter, queued_with) in mutex.waiters.iter(&self.links) {
                assert_eq!(self.threads[waiter.index()].effective, queued_with);
            }
        }
    }
}

#[derive(Clone, Copy, Debug)]
enum Op {
    Lock(usize, usize),
    Unlock(usize),
    TimeOut(usize),
    SetBase(usize, u8),
}

fn ops(nr_threads: usize, nr_mutexes: usize) -> impl Strategy<Value = Vec<Op>> {
    let op = prop_oneof![
        6 => (0..nr_threads, 0..nr_mutexes).prop_map(|(t, m)| Op::Lock(t, m)),
        2 => (0..nr_mutexes).prop_map(Op::Unlock),
        1 => (0..nr_threads).prop_map(Op::TimeOut),
        2 => (0..nr_threads, 0u8..100).prop_map(|(t, base)| Op::SetBase(t, base)),
    ];
    prop::collection::vec(op, 1..150)
}

fn run(world: &mut World, ops: &[Op]) {
    for &op in ops {
        match op {
            Op::Lock(t, m) => {
                if world.threads[t].blocked_on.is_none() {
                    let is_deadlock = world.naive_is_deadlock(t, m);
                    match world.lock(t, m) {
                        Ok(_) => assert!(!is_deadlock),
                        Err(PiError::Deadlock) => assert!(is_deadlock),
                        Err(PiError::ChainTooLong) => {}
                    }
                }
            }
            Op::Unlock(m) => {
                // Only a thread that runs unlocks.
                if let Some(owner) = world.mutexes[m].owner
                    && world.threads[owner].blocked_on.is_none()
                {
                    world.unlock(m);
                }
            }
            Op::TimeOut(t) => world.time_out(t),
            Op::SetBase(t, base) => world.set_base(t, base),
        }
        world.check();
    }
}

proptest! {
    #[test]
    fn follows_the_model_with_few_threads(
        bases in prop::collection::vec(0u8..100, 6),
        ops in ops(6, 4),
    ) {
        run(&mut World::new(&bases, 4), &ops);
    }

    #[test]
    fn follows_the_model_with_many_threads(
        bases in prop::collection::vec(0u8..100, 60),
        ops in ops(60, 50),
    ) {
        run(&mut World::new(&bases, 50), &ops);
    }
}

/// Thread `i` holds mutex `i` and waits for mutex `i - 1`: thread 0 owns the end of the chain.
/// The links are closed from the far end, so that no check ever sees more than one.
fn chain(depth: usize) -> World {
    let mut world = World::new(&vec![10; depth + 1], depth + 1);
    for i in 0..=depth {
        assert_eq!(world.lock(i, i), Ok(0));
    }
    for i in (1..depth).rev() {
        assert_eq!(world.lock(i, i - 1), Ok(1));
    }
    world
}

#[test]
fn inherits_along_chains_of_every_depth() {
    for depth in [1, 2, 3, 8, MAX_CHAIN - 1, MAX_CHAIN] {
        let mut world = chain(depth);
        world.set_base(depth, 90);
        assert_eq!(world.lock(depth, depth - 1), Ok(depth));
        for thread in &world.threads {
            assert_eq!(thread.effective, prio(90));
        }
        world.check();
        world.time_out(depth);
        for thread in &world.threads[..depth] {
            assert_eq!(thread.effective, prio(10));
        }
        world.check();
    }
}

#[test]
fn a_longer_chain_is_refused() {
    let mut world = chain(MAX_CHAIN + 1);
    let refused = world.lock(MAX_CHAIN + 1, MAX_CHAIN);
    assert_eq!(refused, Err(PiError::ChainTooLong));
    world.check();
}

/// Others wait for each other in a circle, which one of them has yet to find: whoever waits for one of these is not refused.
#[test]
fn a_circle_of_others_is_theirs() {
    for (nr, tail) in [(2, 1), (2, 9), (3, 2), (9, 9), (16, 1), (17, 16)] {
        let mut world = chain(nr + tail);
        // Thread 0 closes the circle of the first ones.
        world.threads[0].blocked_on = Some(nr - 1);
        for portion in [1, 2, 5, usize::MAX] {
            let checked = world.check_wait(nr + tail, nr + tail - 1, portion);
            assert_eq!(checked, Ok(MAX_CHAIN), "{nr} behind {tail}");
        }
        world.threads[0].blocked_on = None;
        let checked = world.check_wait(nr + tail, nr + tail - 1, 1);
        assert_eq!(checked.is_ok(), nr + tail <= MAX_CHAIN);
    }
}

#[test]
fn a_chain_that_grew_at_its_end_is_walked_in_portions() {
    let depth = 3 * MAX_CHAIN;
    let mut world = chain(depth);
    // Raised at its beginning, the chain that nobody has seen in one piece is followed to its end.
    world.set_base(depth - 1, 95);
    assert!(
        world.threads[..depth]
            .iter()
            .all(|t| t.effective == prio(95))
    );
    world.check();
    world.set_base(depth - 1, 3);
    assert!(
        world.threads[..depth - 1]
            .iter()
            .all(|t| t.effective == prio(10))
    );
    world.check();
}

#[test]
fn a_walk_stops_when_its_portion_is_used_up() {
    let depth = MAX_CHAIN + 2;
    let mut world = chain(depth);
    world.threads[depth - 1].base = prio(95);
    let mut walk = Walk::new(tid(depth - 1));
    for _ in 0..MAX_CHAIN {
        let change = walk
            .step(&world)
            .expect("within the portion")
            .expect("more to do");
        let thread = &mut world.threads[change.tid.index()];
        thread.effective = change.to;
        let m = thread.blocked_on.expect("all but the last wait");
        let waiters = &mut world.mutexes[m].waiters;
        waiters.remove(&world.links, change.tid, change.from);
        waiters.push_back(&world.links, change.tid, change.to);
    }
    assert_eq!(walk.step(&world), Err(PiError::ChainTooLong));
    assert_eq!(
        walk.step(&world),
        Err(PiError::ChainTooLong),
        "until renewed"
    );
    assert_eq!(walk.pending(), Some(tid(depth - 1 - MAX_CHAIN)));
    walk.renew();
    assert!(walk.step(&world).is_ok_and(|change| change.is_some()));
}

#[test]
fn a_walk_ends_where_nothing_changes() {
    let mut world = World::new(&[50, 10, 10, 60], 3);
    world.lock(0, 0).expect("free");
    world.lock(1, 1).expect("free");
    world.lock(2, 2).expect("free");
    world.lock(1, 0).expect("no cycle");
    world.lock(2, 1).expect("no cycle");
    // Thread 2 gains, thread 1 gains, thread 0 is above already.
    world.threads[2].base = prio(40);
    assert_eq!(world.propagate(2), 2);
    world.check();
    assert_eq!(world.propagate(2), 0);
    world.lock(3, 2).expect("no cycle");
    assert_eq!(world.threads[0].effective, prio(60));
    world.check();
}

#[test]
fn a_walk_goes_on_behind_a_thread_that_another_walk_has_changed() {
    let mut world = chain(3);
    world.threads[2].base = prio(90);
    // The other walk: its first step, and then something more important runs.
    let change = Walk::new(tid(2)).step(&world).expect("short");
    let change = change.expect("a change");
    world.threads[2].effective = change.to;
    let waiters = &mut world.mutexes[1].waiters;
    waiters.remove(&world.links, change.tid, change.from);
    waiters.push_back(&world.links, change.tid, change.to);
    assert_eq!(world.propagate(2), 2);
    world.check();
}

#[test]
fn cycles_are_refused() {
    let mut world = World::new(&[1, 2, 3], 3);
    for t in 0..3 {
        world.lock(t, t).expect("free");
    }
    assert_eq!(world.lock(0, 0), Err(PiError::Deadlock), "not recursive");
    assert_eq!(world.lock(0, 1), Ok(1));
    assert_eq!(world.lock(1, 0), Err(PiError::Deadlock));
    assert_eq!(world.lock(1, 2), Ok(1));
    assert_eq!(world.lock(2, 0), Err(PiError::Deadlock));
    world.check();
}

#[test]
fn a_raise_goes_behind_equals_and_a_loss_before_them() {
    let mut world = World::new(&[10, 10, 50], 2);
    world.lock(0, 0).expect("free");
    world.lock(1, 1).expect("free");
    world.lock(1, 0).expect("no cycle");
    world.threads[1].base = prio(50);
    let raise = Walk::new(tid(1))
        .step(&world)
        .expect("short")
        .expect("a change");
    assert_eq!(raise.placement, Placement::Tail);
    assert_eq!((raise.from, raise.to), (prio(10), prio(50)));
    world.threads[1].base = prio(5);
    let loss = Walk::new(tid(1))
        .step(&world)
        .expect("short")
        .expect("a change");
    assert_eq!(loss.placement, Placement::Head);
}

#[test]
fn the_most_important_of_base_and_waiters_counts() {
    let none: [Priority; 0] = [];
    assert_eq!(effective_priority(prio(20), none), prio(20));
    assert_eq!(effective_priority(prio(20), [prio(10), prio(5)]), prio(20));
    assert_eq!(
        effective_priority(prio(20), [prio(30), prio(99), prio(40)]),
        prio(99)
    );
}
