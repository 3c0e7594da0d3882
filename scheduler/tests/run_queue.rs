//! `RunQueue` against a plain model of the POSIX rules.

use std::collections::VecDeque;

use proptest::prelude::*;
use takt_scheduler::{Links, Next, Placement, Policy, Priority, Resched, RunQueue, ThreadId};

const IDLE: u8 = 0;

fn tid(raw: u8) -> ThreadId {
    ThreadId::new(raw)
}

fn prio(raw: u8) -> Priority {
    Priority::new(raw).expect("a priority is 0 to 99")
}

/// Ready threads by priority, as the standard describes them.
struct Model {
    levels: Vec<VecDeque<u8>>,
    prios: Vec<u8>,
    is_ready: Vec<bool>,
    current: u8,
    /// A reschedule was asked for since the last choice.
    is_due: bool,
}

impl Model {
    fn new() -> Self {
        Self {
            levels: vec![VecDeque::new(); 100],
            prios: vec![0; 256],
            is_ready: vec![false; 256],
            current: IDLE,
            is_due: false,
        }
    }

    fn is_idle(&self) -> bool {
        self.current == IDLE
    }

    fn current_level(&mut self) -> &mut VecDeque<u8> {
        let p = self.prios[usize::from(self.current)];
        &mut self.levels[usize::from(p)]
    }

    fn enqueue(&mut self, t: u8, p: u8) {
        self.prios[usize::from(t)] = p;
        self.is_ready[usize::from(t)] = true;
        self.levels[usize::from(p)].push_back(t);
    }

    fn dequeue(&mut self, t: u8) {
        self.is_ready[usize::from(t)] = false;
        let p = self.prios[usize::from(t)];
        self.levels[usize::from(p)].retain(|&other| other != t);
    }

    /// Whether a thread of this priority would be the first of all.
    fn beats_all(&self, p: u8) -> bool {
        let top = self.top();
        top == IDLE || p > self.prios[usize::from(top)]
    }

    fn top(&self) -> u8 {
        let first = self.levels.iter().rev().find_map(|level| level.front());
        first.copied().unwrap_or(IDLE)
    }

    fn pick(&mut self) -> Next {
        let top = self.top();
        self.is_due = false;
        if top == self.current {
            return Next::Stay;
        }
        self.current = top;
        Next::Switch(tid(top))
    }

    fn note(&mut self, preempts: bool) -> Resched {
        self.is_due |= preempts;
        if preempts {
            Resched::Preempt
        } else {
            Resched::Keep
        }
    }

    fn set_priority(&mut self, t: u8, p: u8, placement: Placement) -> Resched {
        self.dequeue(t);
        let is_behind_running = t != self.current
            && !self.is_idle()
            && self.levels[usize::from(p)].front() == Some(&self.current);
        self.enqueue(t, p);
        if placement == Placement::Head {
            let level = &mut self.levels[usize::from(p)];
            level.pop_back();
            level.insert(usize::from(is_behind_running), t);
        }
        let preempts = self.top() != self.current;
        self.note(preempts)
    }

    fn quantum_expired(&mut self, policy: Policy) -> Resched {
        if self.is_idle() || policy == Policy::Fifo || self.current_level().len() < 2 {
            return Resched::Keep;
        }
        let current = self.current;
        let level = self.current_level();
        if level.front() == Some(&current) {
            level.rotate_left(1);
        }
        self.note(true)
    }
}

#[derive(Clone, Copy, Debug)]
enum Op {
    /// Wakes the thread; if it is ready already, suspends or blocks it.
    Toggle(u8, u8),
    /// Wakes the thread, and lets it run at once if it is more important and no reschedule is due.
    WakeAndPick(u8, u8),
    Pick,
    Yield,
    Block,
    SetPriority(u8, u8, Placement),
    Quantum(Policy),
    /// The running thread blocks and the other one, which is less important, gets its priority.
    Lend(u8),
    /// The running thread gets this priority, a lower one, and the other one wakes with its former priority.
    GiveBack(u8, u8),
}

fn ops(nr_threads: u8) -> impl Strategy<Value = Vec<Op>> {
    let t = move || 1..=nr_threads;
    let p = || {
        prop_oneof![
            4 => prop::sample::select(vec![0u8, 1, 63, 64, 98, 99]),
            1 => 0u8..100,
        ]
    };
    let placement = || prop_oneof![Just(Placement::Head), Just(Placement::Tail)];
    let policy = || prop_oneof![Just(Policy::Fifo), Just(Policy::RoundRobin)];
    let op = prop_oneof![
        5 => (t(), p()).prop_map(|(t, p)| Op::Toggle(t, p)),
        3 => (t(), p()).prop_map(|(t, p)| Op::WakeAndPick(t, p)),
        3 => Just(Op::Pick),
        2 => Just(Op::Yield),
        1 => Just(Op::Block),
        4 => (t(), p(), placement()).prop_map(|(t, p, at)| Op::SetPriority(t, p, at)),
        2 => policy().prop_map(Op::Quantum),
        2 => t().prop_map(Op::Lend),
        2 => (t(), p()).prop_map(|(t, p)| Op::GiveBack(t, p)),
    ];
    prop::collection::vec(op, 1..200)
}

fn step(run_queue: &mut RunQueue, links: &Links<256>, model: &mut Model, op: Op) {
    match op {
        Op::Toggle(t, p) if !model.is_ready[usize::from(t)] => {
            let preempts = model.beats_all(p);
            model.enqueue(t, p);
            let expected = model.note(preempts);
            assert_eq!(run_queue.wakeup(links, tid(t), prio(p)), expected);
        }
        Op::Toggle(t, _) if t != model.current => {
            let p = model.prios[usize::from(t)];
            model.dequeue(t);
            run_queue.dequeue(links, tid(t), prio(p));
        }
        Op::Toggle(..) | Op::Block => {
            if !model.is_idle() {
                let blocked = model.current;
                model.dequeue(blocked);
                // It may go on for a moment.
                run_queue.leave_current(links);
                assert_eq!(run_queue.current(), tid(blocked));
                let Next::Switch(next) = model.pick() else {
                    panic!("it goes on");
                };
                assert_eq!(run_queue.pick_other(), next);
            }
        }
        Op::WakeAndPick(t, p) => {
            if !model.is_ready[usize::from(t)] && !model.is_due && model.beats_all(p) {
                model.enqueue(t, p);
                assert_eq!(run_queue.wakeup(links, tid(t), prio(p)), Resched::Preempt);
                assert_eq!(run_queue.pick_other(), tid(t));
                assert_eq!(model.pick(), Next::Switch(tid(t)));
            }
        }
        Op::Pick => assert_eq!(run_queue.pick_next(), model.pick()),
        Op::Yield => {
            if !model.is_idle() {
                let current = model.current;
                let level = model.current_level();
                level.retain(|&other| other != current);
                level.push_back(current);
            }
            assert_eq!(run_queue.yield_current(links), model.pick());
        }
        Op::SetPriority(t, p, placement) => {
            if model.is_ready[usize::from(t)] {
                let old = prio(model.prios[usize::from(t)]);
                let expected = model.set_priority(t, p, placement);
                let found = run_queue.set_priority(links, tid(t), old, prio(p), placement);
                assert_eq!(found, expected);
            }
        }
        Op::Lend(t) => {
            let current = model.current;
            let (from, to) = (
                model.prios[usize::from(t)],
                model.prios[usize::from(current)],
            );
            if !model.is_idle() && model.is_ready[usize::from(t)] && from < to {
                let is_alone = model.top() == current && model.current_level().len() == 1;
                let is_done = run_queue.leave_current_to(links, tid(t), prio(from));
                assert_eq!(is_done, is_alone);
                if is_done {
                    let _ = model.set_priority(t, to, Placement::Tail);
                    model.dequeue(current);
                    assert_eq!(model.pick(), Next::Switch(run_queue.pick_other()));
                }
            }
        }
        Op::GiveBack(t, to) => {
            let current = model.current;
            let from = model.prios[usize::from(current)];
            if !model.is_idle() && !model.is_ready[usize::from(t)] && to < from {
                let is_alone = model.top() == current && model.current_level().len() == 1;
                let is_done = run_queue.hand_priority_to(links, tid(t), prio(to));
                assert_eq!(is_done, is_alone);
                if is_done {
                    let _ = model.set_priority(current, to, Placement::Head);
                    model.enqueue(t, from);
                    let _ = model.note(true);
                }
            }
        }
        Op::Quantum(policy) => {
            let expected = model.quantum_expired(policy);
            assert_eq!(run_queue.quantum_expired(links, policy), expected);
        }
    }
}

fn check(run_queue: &RunQueue, links: &Links<256>, model: &mut Model) {
    let levels = (0u8..100).rev();
    let expected: Vec<_> = levels
        .flat_map(|p| model.levels[usize::from(p)].iter().map(move |&t| (t, p)))
        .map(|(t, p)| (tid(t), prio(p)))
        .collect();
    let found: Vec<_> = run_queue.queue().iter(links).take(257).collect();
    assert_eq!(found, expected);
    assert_eq!(run_queue.current(), tid(model.current));
    assert_eq!(run_queue.is_idle(), model.is_idle());
    let current_prio = (!model.is_idle()).then(|| prio(model.prios[usize::from(model.current)]));
    assert_eq!(run_queue.current_priority(), current_prio);
    let has_peer = !model.is_idle() && model.current_level().len() > 1;
    assert_eq!(run_queue.has_peer(links), has_peer);
    if !model.is_due {
        assert_eq!(model.top(), model.current, "the first thread runs");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, ..ProptestConfig::default() })]

    #[test]
    fn follows_the_model_with_5_threads(ops in ops(5)) {
        let (mut run_queue, links) = (RunQueue::new(tid(IDLE)), Links::new());
        let mut model = Model::new();
        for op in ops {
            step(&mut run_queue, &links, &mut model, op);
            check(&run_queue, &links, &mut model);
        }
    }

    #[test]
    fn follows_the_model_with_255_threads(ops in ops(255)) {
        let (mut run_queue, links) = (RunQueue::new(tid(IDLE)), Links::new());
        let mut model = Model::new();
        for op in ops {
            step(&mut run_queue, &links, &mut model, op);
            check(&run_queue, &links, &mut model);
        }
    }
}

/// A queue in which the first of these threads runs.
fn with_ready(ready: &[(u8, u8)]) -> (RunQueue, Links<256>) {
    let (mut run_queue, links) = (RunQueue::new(tid(IDLE)), Links::new());
    for &(t, p) in ready {
        let _ = run_queue.wakeup(&links, tid(t), prio(p));
    }
    assert_eq!(run_queue.pick_next(), Next::Switch(tid(ready[0].0)));
    (run_queue, links)
}

fn order(run_queue: &RunQueue, links: &Links<256>) -> Vec<u8> {
    run_queue
        .queue()
        .iter(links)
        .map(|(t, _)| t.raw())
        .collect()
}

#[test]
fn only_the_more_important_preempts() {
    let (mut run_queue, links) = with_ready(&[(1, 50)]);
    assert_eq!(run_queue.wakeup(&links, tid(2), prio(49)), Resched::Keep);
    assert_eq!(run_queue.wakeup(&links, tid(3), prio(50)), Resched::Keep);
    assert_eq!(run_queue.wakeup(&links, tid(4), prio(51)), Resched::Preempt);
}

#[test]
fn everything_preempts_idle() {
    let (mut run_queue, links) = (RunQueue::new(tid(IDLE)), Links::<256>::new());
    assert_eq!(run_queue.pick_next(), Next::Stay);
    assert_eq!(
        run_queue.wakeup(&links, tid(1), Priority::MIN),
        Resched::Preempt
    );
}

#[test]
fn a_preempted_thread_goes_on_before_its_equals() {
    let (mut run_queue, links) = with_ready(&[(1, 50), (2, 50)]);
    let _ = run_queue.wakeup(&links, tid(3), prio(60));
    assert_eq!(run_queue.pick_next(), Next::Switch(tid(3)));
    assert_eq!(run_queue.block_current(&links), tid(1));
}

/// It has left, and another CPU has made it ready with another priority, before a switch was possible.
#[test]
fn a_thread_that_stays_is_where_it_was_made_ready() {
    let (mut run_queue, links) = with_ready(&[(1, 50)]);
    run_queue.leave_current(&links);
    let _ = run_queue.wakeup(&links, tid(1), prio(60));
    assert_eq!(run_queue.pick_next(), Next::Stay);
    assert_eq!(run_queue.current_priority(), Some(prio(60)));
    run_queue.leave_current(&links);
    assert_eq!(order(&run_queue, &links), []);
}

#[test]
fn yielding_alone_changes_nothing() {
    let (mut run_queue, links) = with_ready(&[(1, 50), (2, 40)]);
    assert_eq!(run_queue.yield_current(&links), Next::Stay);
}

#[test]
fn the_idle_thread_of_another_cpu_may_yield() {
    let (mut run_queue, links) = (RunQueue::new(tid(3)), Links::<256>::new());
    assert_eq!(run_queue.yield_current(&links), Next::Stay);
    assert_eq!(run_queue.current(), tid(3));
}

#[test]
fn setting_the_same_priority_goes_behind_equals() {
    let (mut run_queue, links) = with_ready(&[(1, 50), (2, 50)]);
    let resched = run_queue.set_priority(&links, tid(1), prio(50), prio(50), Placement::Tail);
    assert_eq!(resched, Resched::Preempt);
    assert_eq!(run_queue.pick_next(), Next::Switch(tid(2)));
}

#[test]
fn losing_an_inherited_priority_keeps_the_cpu_among_equals() {
    let (mut run_queue, links) = with_ready(&[(1, 80), (2, 50)]);
    let resched = run_queue.set_priority(&links, tid(1), prio(80), prio(50), Placement::Head);
    assert_eq!(resched, Resched::Keep);
    assert_eq!(run_queue.pick_next(), Next::Stay);
    assert_eq!(order(&run_queue, &links), [1, 2]);
}

#[test]
fn lowering_below_others_gives_the_cpu_away() {
    let (mut run_queue, links) = with_ready(&[(1, 80), (2, 50)]);
    let resched = run_queue.set_priority(&links, tid(1), prio(80), prio(49), Placement::Head);
    assert_eq!(resched, Resched::Preempt);
    assert_eq!(run_queue.pick_next(), Next::Switch(tid(2)));
}

#[test]
fn a_waiting_thread_is_never_placed_before_the_running_one() {
    let (mut run_queue, links) = with_ready(&[(1, 50), (2, 50), (3, 40)]);
    let resched = run_queue.set_priority(&links, tid(3), prio(40), prio(50), Placement::Head);
    assert_eq!(resched, Resched::Keep);
    assert_eq!(order(&run_queue, &links), [1, 3, 2]);
}

#[test]
fn a_stale_head_is_not_taken_for_the_running_thread() {
    // Thread 1 was the head of level 50, which is empty now.
    let (mut run_queue, links) = with_ready(&[(1, 50), (2, 10)]);
    let _ = run_queue.set_priority(&links, tid(1), prio(50), prio(60), Placement::Tail);
    let resched = run_queue.set_priority(&links, tid(2), prio(10), prio(50), Placement::Head);
    assert_eq!(resched, Resched::Keep);
    assert_eq!(order(&run_queue, &links), [1, 2]);
}

#[test]
fn a_level_that_the_running_thread_had_is_not_handed_over() {
    // It was suspended and resumed by another CPU, at another priority, before a switch.
    let (mut run_queue, links) = with_ready(&[(1, 50), (2, 50)]);
    run_queue.dequeue(&links, tid(1), prio(50));
    let _ = run_queue.wakeup(&links, tid(1), prio(60));
    assert!(!run_queue.hand_priority_to(&links, tid(3), prio(10)));
    assert_eq!(order(&run_queue, &links), [1, 2]);
}

#[test]
fn quanta_concern_round_robin_among_equals_only() {
    let (mut run_queue, links) = with_ready(&[(1, 50), (2, 40)]);
    assert_eq!(
        run_queue.quantum_expired(&links, Policy::RoundRobin),
        Resched::Keep
    );
    let _ = run_queue.wakeup(&links, tid(3), prio(50));
    assert_eq!(
        run_queue.quantum_expired(&links, Policy::Fifo),
        Resched::Keep
    );
    assert_eq!(
        run_queue.quantum_expired(&links, Policy::RoundRobin),
        Resched::Preempt
    );
    // Again before the switch: the turn of thread 3 is not lost.
    assert_eq!(
        run_queue.quantum_expired(&links, Policy::RoundRobin),
        Resched::Preempt
    );
    assert_eq!(run_queue.pick_next(), Next::Switch(tid(3)));
    assert_eq!(
        run_queue.quantum_expired(&links, Policy::RoundRobin),
        Resched::Preempt
    );
    assert_eq!(run_queue.pick_next(), Next::Switch(tid(1)));
}
