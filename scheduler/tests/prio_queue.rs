//! `PrioQueue` against one `VecDeque` for each priority.

use std::collections::VecDeque;

use proptest::prelude::*;
use takt_scheduler::{Links, PrioQueue, Priority, ThreadId};

const NR_PRIORITIES: usize = 100;

fn tid(raw: u8) -> ThreadId {
    ThreadId::new(raw)
}

fn prio(raw: u8) -> Priority {
    Priority::new(raw).expect("a priority is 0 to 99")
}

/// A queue beside its model.
struct Pair {
    queue: PrioQueue,
    model: Vec<VecDeque<u8>>,
}

impl Pair {
    fn new() -> Self {
        Self {
            queue: PrioQueue::new(),
            model: vec![VecDeque::new(); NR_PRIORITIES],
        }
    }

    fn level(&mut self, p: u8) -> &mut VecDeque<u8> {
        &mut self.model[usize::from(p)]
    }

    fn push_back<const N: usize>(&mut self, links: &Links<N>, t: u8, p: u8) {
        self.queue.push_back(links, tid(t), prio(p));
        self.level(p).push_back(t);
    }

    fn push_front<const N: usize>(&mut self, links: &Links<N>, t: u8, p: u8) {
        self.queue.push_front(links, tid(t), prio(p));
        self.level(p).push_front(t);
    }

    fn remove<const N: usize>(&mut self, links: &Links<N>, t: u8, p: u8) {
        self.queue.remove(links, tid(t), prio(p));
        self.level(p).retain(|&other| other != t);
    }

    fn pop<const N: usize>(&mut self, links: &Links<N>) -> Option<(u8, u8)> {
        let expected = (0..NR_PRIORITIES as u8)
            .rev()
            .find_map(|p| Some((self.level(p).pop_front()?, p)));
        let popped = self.queue.pop(links);
        assert_eq!(popped, expected.map(|(t, p)| (tid(t), prio(p))));
        expected
    }

    fn rotate<const N: usize>(&mut self, links: &Links<N>, p: u8) {
        self.queue.rotate(links, prio(p));
        let level = self.level(p);
        if let Some(first) = level.pop_front() {
            level.push_back(first);
        }
    }

    /// Holds everything that can be asked of the queue against the model.
    fn check<const N: usize>(&self, links: &Links<N>) {
        let expected: Vec<_> = (0..NR_PRIORITIES as u8)
            .rev()
            .flat_map(|p| self.model[usize::from(p)].iter().map(move |&t| (t, p)))
            .map(|(t, p)| (tid(t), prio(p)))
            .collect();
        let found: Vec<_> = self.queue.iter(links).take(expected.len() + 1).collect();
        assert_eq!(found, expected);
        assert_eq!(self.queue.is_empty(), expected.is_empty());
        assert_eq!(self.queue.top(), expected.first().copied());
        assert_eq!(self.queue.top_priority(), expected.first().map(|top| top.1));
        for (i, &(t, p)) in expected.iter().enumerate() {
            let level = &self.model[usize::from(p.raw())];
            assert_eq!(self.queue.is_head(t, p), level[0] == t.raw());
            let next = expected.get(i + 1).copied();
            assert_eq!(self.queue.next_after(links, t, p), next);
        }
        for (p, level) in (0u8..).zip(&self.model) {
            assert_eq!(self.queue.has_level(prio(p)), !level.is_empty());
            assert_eq!(self.queue.has_peer(links, prio(p)), level.len() > 1);
        }
    }
}

#[derive(Clone, Copy, Debug)]
enum Op {
    /// Into queue `to` if the thread is in none, else moved there from wherever it is.
    PushBack {
        t: u8,
        p: u8,
        to: bool,
    },
    PushFront {
        t: u8,
        p: u8,
        to: bool,
    },
    Remove {
        t: u8,
    },
    Pop {
        from: bool,
    },
    Rotate {
        p: u8,
        of: bool,
    },
}

/// Few priorities often, so that levels fill; all of them sometimes.
fn priorities() -> impl Strategy<Value = u8> {
    prop_oneof![
        3 => prop::sample::select(vec![0u8, 1, 62, 63, 64, 65, 98, 99]),
        1 => 0u8..100,
    ]
}

fn ops(nr_threads: usize, len: usize) -> impl Strategy<Value = Vec<Op>> {
    let t = move || (0..nr_threads).prop_map(|t| t as u8);
    let op = prop_oneof![
        4 => (t(), priorities(), any::<bool>()).prop_map(|(t, p, to)| Op::PushBack { t, p, to }),
        2 => (t(), priorities(), any::<bool>()).prop_map(|(t, p, to)| Op::PushFront { t, p, to }),
        2 => t().prop_map(|t| Op::Remove { t }),
        1 => any::<bool>().prop_map(|from| Op::Pop { from }),
        2 => (priorities(), any::<bool>()).prop_map(|(p, of)| Op::Rotate { p, of }),
    ];
    prop::collection::vec(op, 1..len)
}

/// Two queues on one table of links: a thread stands in at most one of them.
fn run<const N: usize>(ops: &[Op]) {
    let links = Links::<N>::new();
    let mut pairs = [Pair::new(), Pair::new()];
    let mut places: Vec<Option<(usize, u8)>> = vec![None; N];
    for &op in ops {
        if let Op::PushBack { t, .. } | Op::PushFront { t, .. } | Op::Remove { t } = op
            && let Some((at, p)) = places[usize::from(t)].take()
        {
            pairs[at].remove(&links, t, p);
        }
        match op {
            Op::PushBack { t, p, to } => {
                pairs[usize::from(to)].push_back(&links, t, p);
                places[usize::from(t)] = Some((usize::from(to), p));
            }
            Op::PushFront { t, p, to } => {
                pairs[usize::from(to)].push_front(&links, t, p);
                places[usize::from(t)] = Some((usize::from(to), p));
            }
            Op::Remove { .. } => {}
            Op::Pop { from } => {
                if let Some((t, _)) = pairs[usize::from(from)].pop(&links) {
                    places[usize::from(t)] = None;
                }
            }
            Op::Rotate { p, of } => pairs[usize::from(of)].rotate(&links, p),
        }
        for pair in &pairs {
            pair.check(&links);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    #[test]
    fn follows_the_model_with_256_threads(ops in ops(256, 200)) {
        run::<256>(&ops);
    }

    #[test]
    fn follows_the_model_with_8_threads(ops in ops(8, 200)) {
        run::<8>(&ops);
    }

    #[test]
    fn follows_the_model_with_1_thread(ops in ops(1, 50)) {
        run::<1>(&ops);
    }
}

#[test]
fn all_256_threads_on_one_level() {
    let links = Links::<256>::new();
    let mut pair = Pair::new();
    for t in 0..=255 {
        pair.push_back(&links, t, 50);
    }
    pair.check(&links);
    for _ in 0..300 {
        pair.rotate(&links, 50);
    }
    pair.check(&links);
    for t in (0..=255).step_by(3) {
        pair.remove(&links, t, 50);
    }
    pair.check(&links);
    while pair.pop(&links).is_some() {}
    pair.check(&links);
}

#[test]
fn all_256_threads_over_all_levels() {
    let links = Links::<256>::new();
    let mut pair = Pair::new();
    for t in 0..=255 {
        pair.push_front(&links, t, t % 100);
    }
    pair.check(&links);
    while pair.pop(&links).is_some() {
        pair.check(&links);
    }
}

#[test]
fn a_fresh_queue_is_empty() {
    let links = Links::<256>::new();
    let queue = PrioQueue::new();
    assert!(queue.is_empty());
    assert_eq!(queue.top(), None);
    assert_eq!(queue.top_priority(), None);
    assert_eq!(queue.iter(&links).next(), None);
    for p in 0..100 {
        assert!(!queue.has_peer(&links, prio(p)));
    }
}

#[test]
fn equals_leave_in_the_order_they_came() {
    let links = Links::<4>::new();
    let mut queue = PrioQueue::new();
    for t in [2, 0, 3, 1] {
        queue.push_back(&links, tid(t), prio(7));
    }
    let order: Vec<_> = core::iter::from_fn(|| queue.pop(&links)).collect();
    assert_eq!(order, [2, 0, 3, 1].map(|t| (tid(t), prio(7))));
}

#[test]
fn rotating_an_empty_level_changes_nothing() {
    let links = Links::<256>::new();
    let mut queue = PrioQueue::new();
    queue.push_back(&links, tid(9), prio(3));
    queue.remove(&links, tid(9), prio(3));
    queue.rotate(&links, prio(3));
    assert!(queue.is_empty());
    queue.push_front(&links, tid(4), prio(3));
    assert_eq!(queue.top(), Some((tid(4), prio(3))));
}

#[test]
fn a_cursor_survives_the_removal_of_its_thread() {
    let links = Links::<256>::new();
    let mut queue = PrioQueue::new();
    for (t, p) in [(1, 90), (2, 90), (3, 90), (4, 10), (5, 10)] {
        queue.push_back(&links, tid(t), prio(p));
    }
    let mut visited = Vec::new();
    let mut cursor = queue.top();
    while let Some((t, p)) = cursor {
        cursor = queue.next_after(&links, t, p);
        visited.push(t.raw());
        if t.raw() % 2 == 1 {
            queue.remove(&links, t, p);
        }
    }
    assert_eq!(visited, [1, 2, 3, 4, 5]);
    let left: Vec<_> = queue.iter(&links).map(|(t, _)| t.raw()).collect();
    assert_eq!(left, [2, 4]);
}
