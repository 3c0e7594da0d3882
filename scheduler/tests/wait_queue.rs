//! `WaitQueue` against a `PrioQueue`.

use proptest::prelude::*;
use takt_scheduler::{Links, PrioQueue, Priority, ThreadId, WaitQueue};

#[derive(Clone, Copy, Debug)]
enum Op {
    /// Queues the thread, or takes it out if it is queued.
    Toggle(u8, u8),
    Pop,
}

fn ops(nr_threads: u8) -> impl Strategy<Value = Vec<Op>> {
    let prio = prop_oneof![4 => prop::sample::select(vec![0u8, 1, 35, 36, 98, 99]), 1 => 0u8..100];
    let op = prop_oneof![
        4 => (1..=nr_threads, prio).prop_map(|(tid, prio)| Op::Toggle(tid, prio)),
        1 => Just(Op::Pop),
    ];
    prop::collection::vec(op, 1..200)
}

/// Both do the same.
fn follow(ops: Vec<Op>) {
    let (mut queue, links) = (WaitQueue::new(), Links::<256>::new());
    let (mut model, model_links) = (PrioQueue::new(), Links::<256>::new());
    let mut queued = [None; 256];
    for op in ops {
        match op {
            Op::Toggle(raw, prio) => {
                let tid = ThreadId::new(raw);
                match queued[usize::from(raw)].take() {
                    None => {
                        let prio = Priority::new(prio).expect("a priority is 0 to 99");
                        queued[usize::from(raw)] = Some(prio);
                        queue.push_back(&links, tid, prio);
                        model.push_back(&model_links, tid, prio);
                    }
                    Some(prio) => {
                        queue.remove(&links, tid, prio);
                        model.remove(&model_links, tid, prio);
                    }
                }
            }
            Op::Pop => {
                let first = queue.pop(&links);
                assert_eq!(first, model.pop(&model_links));
                if let Some((tid, _)) = first {
                    queued[tid.index()] = None;
                }
            }
        }
        assert_eq!(queue.is_empty(), model.is_empty());
        assert_eq!(queue.top(), model.top());
        assert_eq!(queue.top_priority(), model.top_priority());
        let all: Vec<_> = model.iter(&model_links).collect();
        let mut next = queue.top();
        for expected in all {
            assert_eq!(next, Some(expected));
            next = queue.next_after(&links, expected.0, expected.1);
        }
        assert_eq!(next, None);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, ..ProptestConfig::default() })]

    #[test]
    fn is_a_prio_queue_of_2_threads(ops in ops(2)) {
        follow(ops);
    }

    #[test]
    fn is_a_prio_queue_of_255_threads(ops in ops(255)) {
        follow(ops);
    }
}
