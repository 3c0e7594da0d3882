//! Two CPUs under every order of their steps and every visibility of their stores that the memory model allows: sections with
//! one lock exclude each other, no wake-up from one CPU for a thread of another is lost, whatever else may end the
//! wait, what the thread lent is its own again when it goes on, and two CPUs that call each other come to an end.
//!
//! The decisions are the scheduler's own. What is around them is written down here step by step as the kernel has it in
//! `kernel::{lock, wait, sched, expiry, other_cpu}`; an interrupt from the other CPU is loom's `Notify`, as a halt with
//! interrupts enabled behind the last look (`sti`, `hlt`) takes it.

use loom::cell::UnsafeCell;
use loom::sync::atomic::{
    AtomicU32,
    Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst},
    fence,
};
use loom::sync::{Arc, Notify};
use loom::thread;
use takt_scheduler::{Links, Next, Priority, Resched, RunQueue, ThreadId};

/// One of the kernel's locks, which is tickets.
struct Lock {
    next: AtomicU32,
    serving: AtomicU32,
}

impl Lock {
    fn new() -> Self {
        Self {
            next: AtomicU32::new(0),
            serving: AtomicU32::new(0),
        }
    }

    fn lock(&self) {
        // `lock xadd`.
        let ticket = self.next.fetch_add(1, SeqCst);
        fence(SeqCst);
        // Every load of this architecture acquires, every store releases.
        while self.serving.load(Acquire) != ticket {
            thread::yield_now();
        }
    }

    fn unlock(&self) {
        self.serving.store(self.serving.load(Relaxed) + 1, Release);
    }
}

/// The thread of CPU 1 that waits for something.
const WAITER: ThreadId = ThreadId::new(2);
const IDLE: ThreadId = ThreadId::new(1);

/// What CPU 1 schedules, and no other CPU changes.
struct Scheduled {
    rq: RunQueue,
    links: Links<4>,
    /// It is not ready.
    is_waiting: bool,
}

/// How the wait has ended.
const NOT: u32 = 0;
const BY_OBJECT: u32 = 1;
const TIMED_OUT: u32 = 2;

/// What an object's lock protects.
struct Object {
    /// What is waited for.
    has_come: bool,
    /// The waiter stands in the queue.
    is_queued: bool,
}

struct Machine {
    /// The object's.
    lock: Lock,
    scheduled: UnsafeCell<Scheduled>,
    object: UnsafeCell<Object>,
    /// Changed with the lock, and read by CPU 1 without.
    woken: AtomicU32,
    /// Whether the waiter's block says that it stands in a queue: changed with the lock, by CPU 0 as the last of what it does with
    /// the waiter, and read by CPU 1 without.
    is_in_queue: AtomicU32,
    /// What the waiter lends whoever ends its wait.
    lent: UnsafeCell<u32>,
    /// That CPU 1 is to look at the waiter.
    inbox: AtomicU32,
    /// The interrupt that CPU 0 sends to CPU 1.
    kick: Notify,
}

// SAFETY: what they do is to exclude each other; the model checker says if it does not.
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
        let links = Links::new();
        assert_eq!(rq.wakeup(&links, WAITER, priority()), Resched::Preempt);
        assert_eq!(rq.pick_next(), Next::Switch(WAITER));
        Self {
            lock: Lock::new(),
            scheduled: UnsafeCell::new(Scheduled {
                rq,
                links,
                is_waiting: false,
            }),
            object: UnsafeCell::new(Object {
                has_come: false,
                is_queued: false,
            }),
            woken: AtomicU32::new(NOT),
            is_in_queue: AtomicU32::new(0),
            lent: UnsafeCell::new(0),
            inbox: AtomicU32::new(0),
            kick: Notify::new(),
        }
    }

    /// A section with the object's lock.
    fn section<R>(&self, act: impl FnOnce(&mut Object) -> R) -> R {
        self.lock.lock();
        let result = self.object.with_mut(|object| {
            // SAFETY: checked.
            act(unsafe { &mut *object })
        });
        self.lock.unlock();
        result
    }

    /// A section of CPU 1 for what it schedules.
    fn own<R>(&self, act: impl FnOnce(&mut Scheduled) -> R) -> R {
        self.scheduled.with_mut(|scheduled| {
            // SAFETY: checked.
            act(unsafe { &mut *scheduled })
        })
    }

    fn use_what_is_lent(&self) {
        // SAFETY: checked.
        self.lent.with_mut(|lent| unsafe { *lent += 1 });
    }

    /// CPU 0: what is waited for comes. For who stands in the queue word is left behind the lock, and its CPU is kicked.
    fn give(&self) {
        let is_woken = self.section(|object| {
            object.has_come = true;
            let is_queued = core::mem::take(&mut object.is_queued);
            if is_queued {
                self.use_what_is_lent();
                self.woken.store(BY_OBJECT, Relaxed);
                self.is_in_queue.store(0, Release);
            }
            is_queued
        });
        if is_woken {
            self.inbox.fetch_or(1, AcqRel);
            self.kick.notify();
        }
    }

    /// CPU 1: the waiter announces its wait with the object's lock and begins it in a section of its own; then the idle thread
    /// runs, until an interrupt has the waiter chosen. The time-out comes at once, if there is one.
    fn wait(&self, has_timeout: bool) -> u32 {
        let is_there = self.section(|object| {
            object.is_queued = !object.has_come;
            self.is_in_queue.store(object.is_queued.into(), Release);
            object.has_come
        });
        if is_there {
            return BY_OBJECT;
        }
        let blocks = self.woken.load(Relaxed) == NOT;
        if blocks {
            self.own(|it| {
                it.is_waiting = true;
                assert_eq!(it.rq.block_current(&it.links), IDLE);
            });
        } else {
            // Whoever ended the wait may still be in its section, unless the waiter is out of the queue.
            if self.is_in_queue.load(Acquire) != 0 {
                self.section(|_| ());
            }
        }
        if blocks && has_timeout {
            self.time_out();
        }
        while !self.runs() {
            self.kick.wait();
            self.settle();
        }
        self.use_what_is_lent();
        self.woken.load(Relaxed)
    }

    fn runs(&self) -> bool {
        self.own(|it| it.rq.current() == WAITER)
    }

    /// The kick's interrupt.
    fn settle(&self) {
        if self.inbox.swap(0, AcqRel) == 0 {
            return;
        }
        // Without the object's lock: which one that is a thread that has left its queue does not say any more.
        if self.is_in_queue.load(Acquire) == 0 {
            self.wake();
        }
    }

    /// The timer's interrupt of CPU 1.
    fn time_out(&self) {
        if self.woken.load(Relaxed) != NOT {
            return;
        }
        let is_first = self.section(|object| {
            let is_first = self.woken.load(Relaxed) == NOT;
            if is_first {
                object.is_queued = false;
                self.is_in_queue.store(0, Release);
                self.woken.store(TIMED_OUT, Relaxed);
            }
            is_first
        });
        if is_first {
            self.wake();
        }
    }

    fn wake(&self) {
        self.own(|it| {
            if core::mem::take(&mut it.is_waiting) {
                let _ = it.rq.wakeup(&it.links, WAITER, priority());
                let _ = it.rq.pick_next();
            }
        });
    }
}

fn wakes(has_timeout: bool) {
    loom::model(move || {
        let machine = Arc::new(Machine::new());
        let other = machine.clone();
        let cpu = thread::spawn(move || other.wait(has_timeout));
        machine.give();
        let woken = cpu.join().unwrap();
        assert!(woken == BY_OBJECT || has_timeout && woken == TIMED_OUT);
        machine.section(|object| assert!(object.has_come && !object.is_queued));
        machine.own(|it| assert!(!it.is_waiting && it.rq.current() == WAITER));
    });
}

#[test]
fn a_wake_up_for_the_other_cpu_is_not_lost() {
    wakes(false);
}

/// Of a wake-up and a time-out one ends the wait, and none is done twice.
#[test]
fn a_wake_up_and_a_time_out_end_a_wait_once() {
    wakes(true);
}

#[test]
fn sections_exclude_each_other() {
    loom::model(|| {
        let machine = Arc::new(Machine::new());
        let other = machine.clone();
        let cpu = thread::spawn(move || {
            other.section(|it| it.is_queued ^= true);
        });
        for _ in 0..2 {
            machine.section(|it| it.is_queued ^= true);
        }
        cpu.join().unwrap();
        machine.section(|it| assert!(it.is_queued));
    });
}

/// A suspended thread of CPU 1 that CPU 0 resumes, while CPU 1 looks at it for a reason that is over.
struct Suspended {
    lock: Lock,
    /// Changed with the lock.
    state: UnsafeCell<u32>,
    inbox: AtomicU32,
    kick: Notify,
}

// SAFETY: the model checker says if two CPUs use the state at once.
unsafe impl Sync for Suspended {}
// SAFETY: as above.
unsafe impl Send for Suspended {}

const SUSPENDED: u32 = 1;
const RELEASED: u32 = 2;

impl Suspended {
    fn state<R>(&self, act: impl FnOnce(&mut u32) -> R) -> R {
        self.lock.lock();
        // SAFETY: checked.
        let result = self.state.with_mut(|state| act(unsafe { &mut *state }));
        self.lock.unlock();
        result
    }

    fn resume(&self) {
        self.state(|state| {
            assert_eq!(*state, SUSPENDED);
            *state = RELEASED;
        });
        self.inbox.fetch_or(1, AcqRel);
        self.kick.notify();
    }

    /// Says whether the thread is ready from here on.
    fn settle(&self) -> bool {
        self.inbox.swap(0, AcqRel) != 0
            && self.state(|state| {
                let before = *state;
                *state &= !RELEASED;
                before != 0 && *state == 0
            })
    }
}

#[test]
fn a_release_by_the_other_cpu_is_not_lost() {
    loom::model(|| {
        let thread = Arc::new(Suspended {
            lock: Lock::new(),
            state: UnsafeCell::new(SUSPENDED),
            inbox: AtomicU32::new(1),
            kick: Notify::new(),
        });
        let other = thread.clone();
        let cpu = thread::spawn(move || {
            while !other.settle() {
                other.kick.wait();
            }
        });
        thread.resume();
        cpu.join().unwrap();
        assert_eq!(thread.state(|state| *state), 0);
    });
}

/// What two CPUs have each other call: a place each, with the other's number and 1 while it is wanted.
struct Calls {
    wanted_of: [AtomicU32; 2],
    /// How often a CPU was called, which only that CPU changes.
    called: [UnsafeCell<u32>; 2],
}

// SAFETY: the model checker says if two CPUs use one at once.
unsafe impl Sync for Calls {}
// SAFETY: as above.
unsafe impl Send for Calls {}

impl Calls {
    /// CPU `this` has the other call something, and serves it meanwhile.
    fn call(&self, this: usize) {
        let other = 1 - this;
        self.wanted_of[this].store(other as u32 + 1, Release);
        while self.wanted_of[this].load(Acquire) != 0 {
            self.serve(this);
            thread::yield_now();
        }
    }

    /// The other CPU's call comes by an interrupt at the latest when its own is over.
    fn call_and_be_called(&self, this: usize) {
        self.call(this);
        // SAFETY: checked.
        while self.called[this].with(|called| unsafe { *called }) == 0 {
            self.serve(this);
            thread::yield_now();
        }
    }

    fn serve(&self, this: usize) {
        let place = &self.wanted_of[1 - this];
        if place.load(Acquire) == this as u32 + 1 {
            // SAFETY: checked.
            self.called[this].with_mut(|called| unsafe { *called += 1 });
            place.store(0, Release);
        }
    }
}

#[test]
fn two_cpus_that_call_each_other_come_to_an_end() {
    loom::model(|| {
        let calls = Arc::new(Calls {
            wanted_of: [AtomicU32::new(0), AtomicU32::new(0)],
            called: [UnsafeCell::new(0), UnsafeCell::new(0)],
        });
        let other = calls.clone();
        let cpu = thread::spawn(move || other.call_and_be_called(1));
        calls.call_and_be_called(0);
        cpu.join().unwrap();
        for called in &calls.called {
            // SAFETY: both are done.
            assert_eq!(called.with(|called| unsafe { *called }), 1);
        }
    });
}
