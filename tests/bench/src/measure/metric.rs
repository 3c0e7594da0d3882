//! ThreadX's thread_metric suite: instructions for one count of each test's own counters, loops included.

use spin::Once;
use takt_kernel::irq::FIRST_DEVICE_VECTOR;
use takt_kernel::sync::{Queue, Semaphore};
use takt_kernel::thread::{self, Thread};
use takt_kernel::time::Instant;
use takt_kernel::{irq, yield_now};

use super::interrupt::cause;
use super::queue::Message;
use crate::clock::{START, Value, average};
use crate::report::insn;
use crate::threads::{MAIN, create, join, must, spawn};

/// Rounds of each test.
const NR: u32 = 2_000;

const VECTOR_GIVE: u8 = FIRST_DEVICE_VECTOR + 2;
const VECTOR_RESUME: u8 = FIRST_DEVICE_VECTOR + 3;

static COUNTERS: [Value; 5] = [const { Value::new() }; 5];

fn counter(slot: usize) -> &'static Value {
    &COUNTERS[slot % COUNTERS.len()]
}

pub(super) fn all() {
    must("register", irq::register(VECTOR_GIVE, "give", give, 0));
    must(
        "register",
        irq::register(VECTOR_RESUME, "resume", resume, 0),
    );
    insn("metric-cooperative", cooperative());
    insn("metric-preemptive", preemptive());
    insn("metric-interrupt", interrupt());
    insn("metric-interrupt-preemption", interrupt_preemption());
    insn("metric-message", message());
    insn("metric-synchronisation", synchronisation());
}

/// Five threads of one priority yield to each other.
fn cooperative() -> u32 {
    let threads = [0, 1, 2, 3, 4].map(|slot| {
        spawn(slot, MAIN - 1, |slot| {
            for _ in 0..NR {
                yield_now();
                counter(slot).count();
            }
        })
    });
    START.set();
    threads.into_iter().for_each(join);
    average(START.since(), 5 * NR)
}

static CHAIN: [Once<Thread>; 5] = [const { Once::new() }; 5];

/// Five threads of rising priority: each resumes the next, counts and suspends itself; the least important one does
/// not suspend itself.
fn preemptive() -> u32 {
    for (slot, thread) in CHAIN.iter().enumerate() {
        thread.call_once(|| create(slot, MAIN + 1 + slot as u8, link));
    }
    // Each of the others suspends itself before its first round.
    let others = CHAIN[1..].iter().rev().filter_map(Once::get);
    for thread in others.clone() {
        must("start", thread.start());
    }
    START.set();
    let first = CHAIN[0].get();
    if let Some(first) = first {
        must("start", first.start());
    }
    let total = START.since();
    for thread in others {
        must("resume", thread.resume());
        join(*thread);
    }
    first.copied().into_iter().for_each(join);
    average(total, 5 * NR)
}

fn link(slot: usize) {
    if slot == 0 {
        for _ in 0..NR {
            resume_next(slot);
            counter(slot).count();
        }
        return;
    }
    let _ = thread::current().suspend();
    for _ in 0..NR {
        resume_next(slot);
        counter(slot).count();
        let _ = thread::current().suspend();
    }
}

#[inline(always)]
fn resume_next(slot: usize) {
    if let Some(next) = CHAIN.get(slot + 1).and_then(Once::get) {
        let _ = next.resume();
    }
}

static GIVEN: Semaphore = Semaphore::new(0, 1);

extern "C" fn give(_: usize, _: Instant) {
    counter(1).count();
    let _ = GIVEN.give();
}

/// A thread causes an interrupt, whose handler gives a semaphore, and takes that.
fn interrupt() -> u32 {
    START.set();
    for _ in 0..NR {
        cause::<VECTOR_GIVE>();
        let _ = GIVEN.take();
        counter(0).count();
    }
    average(START.since(), NR)
}

static RESUMED: Once<Thread> = Once::new();

extern "C" fn resume(_: usize, _: Instant) {
    counter(2).count();
    if let Some(thread) = RESUMED.get() {
        let _ = thread.resume();
    }
}

/// A thread causes an interrupt, whose handler resumes a more important thread, which suspends itself again.
fn interrupt_preemption() -> u32 {
    let important = spawn(0, MAIN + 1, |slot| {
        for _ in 0..NR + 1 {
            counter(slot).count();
            let _ = thread::current().suspend();
        }
    });
    RESUMED.call_once(|| important);
    START.set();
    for _ in 0..NR {
        cause::<VECTOR_RESUME>();
        counter(1).count();
    }
    let total = START.since();
    must("resume", important.resume());
    join(important);
    average(total, NR)
}

static QUEUE: Queue<Message, 10> = Queue::new();

/// A thread sends a message of 16 bytes to a queue and receives it.
fn message() -> u32 {
    START.set();
    let mut message = [0x1122_3344, 0x5566_7788];
    for _ in 0..NR {
        let _ = QUEUE.send(message);
        match QUEUE.receive() {
            Ok(received) if received[1] == message[1] => message[1] += 1,
            _ => break,
        }
        counter(0).count();
    }
    average(START.since(), NR)
}

static TOKEN: Semaphore = Semaphore::new(1, 1);

/// A thread takes and gives a semaphore.
fn synchronisation() -> u32 {
    START.set();
    for _ in 0..NR {
        let _ = TOKEN.take();
        let _ = TOKEN.give();
        counter(0).count();
    }
    average(START.since(), NR)
}
