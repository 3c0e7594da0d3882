//! Threads block, are woken and chosen; a priority is inherited along a chain.

use std::collections::{BTreeMap, BinaryHeap};

use orx_priority_queue::{DaryHeapOfIndices, PriorityQueue};
use takt_scheduler::pi::{PiWorld, Walk};
use takt_scheduler::{Links, Next, Priority, RunQueue, ThreadId};

use crate::measure::{BATCH, Random, row};

const THREADS: usize = 256;

fn priority(raw: u64) -> Priority {
    Priority::new(raw as u8).expect("below 100")
}

/// The running thread blocks, the next is chosen, the first is woken and chosen again.
trait Ready {
    const NAME: &'static str;
    fn new() -> Self;
    fn add(&mut self, thread: usize, priority: u64);
    fn block_and_wake(&mut self);
}

struct Takt(Box<(RunQueue, Links<THREADS>, [Priority; THREADS])>);

impl Ready for Takt {
    const NAME: &'static str = "Takt";

    fn new() -> Self {
        let queue = RunQueue::new(ThreadId::new(0));
        Self(Box::new((queue, Links::new(), [priority(0); THREADS])))
    }

    fn add(&mut self, thread: usize, raw: u64) {
        let (queue, links, priorities) = &mut *self.0;
        priorities[thread] = priority(raw);
        let _ = queue.wakeup(links, ThreadId::new(thread as u8), priority(raw));
        let _ = queue.pick_next();
    }

    fn block_and_wake(&mut self) {
        let (queue, links, priorities) = &mut *self.0;
        let thread = queue.current();
        let _ = queue.block_current(links);
        let _ = queue.wakeup(links, thread, priorities[thread.index()]);
        match queue.pick_next() {
            Next::Switch(next) => assert!(next == thread),
            Next::Stay => {}
        }
    }
}

/// Key of a thread: the more important first, of equals the one that came first.
type Key = (u8, u32);

#[derive(Default)]
struct Ordered {
    tree: BTreeMap<Key, usize>,
    nr: u32,
}

impl Ready for Ordered {
    const NAME: &'static str = "BTreeMap";

    fn new() -> Self {
        Self::default()
    }

    fn add(&mut self, thread: usize, raw: u64) {
        self.nr += 1;
        self.tree.insert((99 - raw as u8, self.nr), thread);
    }

    fn block_and_wake(&mut self) {
        let ((rank, _), thread) = self.tree.pop_first().expect("threads are ready");
        std::hint::black_box(self.tree.first_key_value());
        self.nr += 1;
        self.tree.insert((rank, self.nr), thread);
        std::hint::black_box(self.tree.first_key_value());
    }
}

#[derive(Default)]
struct Heap {
    heap: BinaryHeap<std::cmp::Reverse<(Key, usize)>>,
    nr: u32,
}

impl Ready for Heap {
    const NAME: &'static str = "BinaryHeap";

    fn new() -> Self {
        Self::default()
    }

    fn add(&mut self, thread: usize, raw: u64) {
        self.nr += 1;
        self.heap
            .push(std::cmp::Reverse(((99 - raw as u8, self.nr), thread)));
    }

    fn block_and_wake(&mut self) {
        let std::cmp::Reverse(((rank, _), thread)) = self.heap.pop().expect("threads are ready");
        std::hint::black_box(self.heap.peek());
        self.nr += 1;
        self.heap.push(std::cmp::Reverse(((rank, self.nr), thread)));
        std::hint::black_box(self.heap.peek());
    }
}

struct Heap4 {
    heap: DaryHeapOfIndices<usize, Key, 4>,
    nr: u32,
}

impl Ready for Heap4 {
    const NAME: &'static str = "4-ary heap, indexed";

    fn new() -> Self {
        let heap = DaryHeapOfIndices::with_index_bound(THREADS);
        Self { heap, nr: 0 }
    }

    fn add(&mut self, thread: usize, raw: u64) {
        self.nr += 1;
        self.heap.push(thread, (99 - raw as u8, self.nr));
    }

    fn block_and_wake(&mut self) {
        let (thread, (rank, _)) = self.heap.pop().expect("threads are ready");
        std::hint::black_box(self.heap.peek());
        self.nr += 1;
        self.heap.push(thread, (rank, self.nr));
        std::hint::black_box(self.heap.peek());
    }
}

fn of<R: Ready>() {
    for nr in [3, 10, 100, 250] {
        let mut random = Random(0x9e37_79b9_7f4a_7c15);
        row("block, wake, pick", R::NAME, nr, |clock| {
            let mut ready = R::new();
            for thread in 1..=nr {
                ready.add(thread, random.below(99));
            }
            // The most important one alone has that priority, so that it is the one that comes back.
            ready.add(nr + 1, 99);
            for _ in 0..BATCH {
                clock.time(|| ready.block_and_wake());
            }
        });
    }
}

/// Thread `n` waits for mutex `n`, which thread `n + 1` holds.
struct Chain {
    nr: usize,
    effective: [Priority; THREADS],
}

impl PiWorld for Chain {
    type Mutex = usize;

    fn base(&self, _: ThreadId) -> Priority {
        priority(10)
    }

    fn effective(&self, tid: ThreadId) -> Priority {
        self.effective[tid.index()]
    }

    fn top_waiter(&self, tid: ThreadId) -> Option<Priority> {
        tid.index().checked_sub(1).map(|at| self.effective[at])
    }

    fn blocked_on(&self, tid: ThreadId) -> Option<usize> {
        (tid.index() < self.nr).then_some(tid.index())
    }

    fn owner_of(&self, mutex: usize) -> Option<ThreadId> {
        Some(ThreadId::new(mutex as u8 + 1))
    }
}

impl Chain {
    /// Gives each owner what the first waiter has.
    fn inherit(&mut self, raw: u64) {
        self.effective[0] = priority(raw);
        let mut walk = Walk::new(ThreadId::new(1));
        while walk.pending().is_some() {
            if let Ok(Some(change)) = walk.step(self) {
                self.effective[change.tid.index()] = change.to;
            }
        }
    }
}

fn walks() {
    for nr in [1, 4, 16] {
        row("priority inherited", "Takt, owners:", nr, |clock| {
            let effective = [priority(10); THREADS];
            let mut chain = Box::new(Chain { nr, effective });
            for at in 0..BATCH as u64 {
                clock.time(|| chain.inherit(20 + at % 2 * 30));
            }
            assert_eq!(chain.effective[nr], priority(50));
        });
    }
}

pub fn all() {
    of::<Takt>();
    of::<Heap4>();
    of::<Ordered>();
    of::<Heap>();
    walks();
}
