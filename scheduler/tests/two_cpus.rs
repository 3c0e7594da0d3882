//! Two CPUs under every order of their steps and every visibility of their stores that the memory model allows: the kernel
//! lock excludes, and no wake-up from one CPU for a thread of another is lost.
//!
//! The decisions are the scheduler's own. The lock and what is around the decisions are written down here step by step as the
//! kernel has them in assembly and in `kernel::{lock, wait, sched, smp}`; an interrupt from the other CPU is loom's
//! `Notify`, as a halt with interrupts enabled behind the last look (`sti`, `hlt`) takes it.

use loom::cell::UnsafeCell;
use loom::sync::atomic::{
    AtomicU32,
    Ordering::{Acquire, Relaxed, Release, SeqCst},
};
use loom::sync::{Arc, Notify};
use loom::thread;
use takt_scheduler::{Links, Next, Priority, Resched, RunQueue, ThreadId};

/// The kernel lock: tickets, and the CPU that holds it, which may take it once more.
struct Lock {
    next: AtomicU32,
    serving: AtomicU32,
    owner: AtomicU32,
    depth: AtomicU32,
}

const NOBODY: u32 = u32::MAX;

impl Lock {
    fn new() -> Self {
        Self {
            next: AtomicU32::new(0),
            serving: AtomicU32::new(0),
            owner: AtomicU32::new(NOBODY),
            depth: AtomicU32::new(0),
        }
    }

    fn lock(&self, cpu: u32) {
        if self.owner.load(Relaxed) == cpu {
            self.depth.store(self.depth.load(Relaxed) + 1, Relaxed);
            return;
        }
        // `lock xadd`.
        let ticket = self.next.fetch_add(1, SeqCst);
        // Every load of this architecture acquires, every store releases.
        while self.serving.load(Acquire) != ticket {
            thread::yield_now();
        }
        self.owner.store(cpu, Relaxed);
    }

    fn unlock(&self) {
        let depth = self.depth.load(Relaxed);
        if depth != 0 {
            self.depth.store(depth - 1, Relaxed);
            return;
        }
        self.owner.store(NOBODY, Relaxed);
        self.serving.store(self.serving.load(Relaxed) + 1, Release);
    }
}

/// The thread of CPU 1 that waits for something.
const WAITER: ThreadId = ThreadId::new(2);
const IDLE: ThreadId = ThreadId::new(1);

/// What the lock protects.
struct Shared {
    rq: RunQueue,
    links: Links<4>,
    /// What is waited for has come.
    has_come: bool,
    /// The waiter stands in the object's queue.
    is_queued: bool,
    /// It is not ready.
    is_waiting: bool,
    /// Counts sections.
    nr: u32,
}

struct Machine {
    lock: Lock,
    shared: UnsafeCell<Shared>,
    /// The interrupt that CPU 0 sends to CPU 1.
    kick: Notify,
}

// SAFETY: the lock is to exclude; the model checker says if it does not.
unsafe impl Sync for Machine {}
// SAFETY: as above.
unsafe impl Send for Machine {}

fn priority() -> Priority {
    Priority::new(50).expect("below 100")
}

impl Machine {
    /// CPU 1 runs the waiter.
    fn new() -> Self {
        let mut rq = RunQueue::new(IDLE);
        let mut links = Links::new();
        assert_eq!(rq.wakeup(&mut links, WAITER, priority()), Resched::Preempt);
        assert_eq!(rq.pick_next(), Next::Switch(WAITER));
        Self {
            lock: Lock::new(),
            shared: UnsafeCell::new(Shared {
                rq,
                links,
                has_come: false,
                is_queued: false,
                is_waiting: false,
                nr: 0,
            }),
            kick: Notify::new(),
        }
    }

    /// A section of a CPU.
    fn section<R>(&self, cpu: u32, act: impl FnOnce(&mut Shared) -> R) -> R {
        self.lock.lock(cpu);
        let result = self.shared.with_mut(|shared| {
            // SAFETY: checked.
            act(unsafe { &mut *shared })
        });
        self.lock.unlock();
        result
    }

    /// CPU 0: what is waited for comes. Who stands in the queue is woken, and its CPU told if it has to look.
    fn give(&self) {
        self.section(0, |shared| {
            shared.has_come = true;
            if !shared.is_queued {
                return;
            }
            shared.is_queued = false;
            if shared.is_waiting {
                shared.is_waiting = false;
                match shared.rq.wakeup(&mut shared.links, WAITER, priority()) {
                    Resched::Preempt => self.kick.notify(),
                    Resched::Keep => {}
                }
            }
        });
    }

    /// CPU 1: the waiter announces its wait in a section and carries it out in another; then the idle thread runs, until an
    /// interrupt has something else chosen.
    fn wait(&self) {
        let is_there = self.section(1, |shared| {
            shared.is_queued = !shared.has_come;
            shared.has_come
        });
        if is_there {
            return;
        }
        let blocks = self.section(1, |shared| {
            // Woken in between it is out of the queue.
            if !shared.is_queued {
                return false;
            }
            shared.is_waiting = true;
            assert_eq!(shared.rq.block_current(&mut shared.links), IDLE);
            true
        });
        let mut runs = !blocks;
        while !runs {
            self.kick.wait();
            runs = self.section(1, |shared| {
                let _ = shared.rq.pick_next();
                shared.rq.current() == WAITER
            });
        }
    }
}

#[test]
fn a_wake_up_for_the_other_cpu_is_not_lost() {
    loom::model(|| {
        let machine = Arc::new(Machine::new());
        let other = machine.clone();
        let cpu = thread::spawn(move || other.wait());
        machine.give();
        cpu.join().unwrap();
        machine.section(0, |shared| {
            assert!(shared.has_come && !shared.is_queued && !shared.is_waiting);
            assert_eq!(shared.rq.current(), WAITER);
        });
    });
}

/// Sections of two CPUs, one of them nested: the model checker says if they overlap.
#[test]
fn sections_exclude_each_other() {
    loom::model(|| {
        let machine = Arc::new(Machine::new());
        let other = machine.clone();
        // SAFETY: checked.
        let add = |machine: &Machine| machine.shared.with_mut(|it| unsafe { (*it).nr += 1 });
        let cpu = thread::spawn(move || {
            for _ in 0..2 {
                other.lock.lock(1);
                add(&other);
                other.lock.unlock();
            }
        });
        machine.lock.lock(0);
        machine.lock.lock(0);
        add(&machine);
        machine.lock.unlock();
        add(&machine);
        machine.lock.unlock();
        cpu.join().unwrap();
        machine.section(0, |shared| assert_eq!(shared.nr, 4));
    });
}
