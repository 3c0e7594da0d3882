//! Threads beside the one that runs the test, and work that takes a known time.

use core::arch::asm;

use takt_kernel::thread::{Builder, Policy, Thread, Times};
use takt_kernel::time::{Instant, Nanos};
use takt_kernel::{Error, thread_stack};

/// How many workers there can be at once.
pub const NR: usize = 10;

const STACK_SIZE: usize = 16 << 10;

thread_stack!(static STACKS: [STACK_SIZE; NR]);

const NAMES: [&str; NR] = ["w0", "w1", "w2", "w3", "w4", "w5", "w6", "w7", "w8", "w9"];

/// The lowest address of a worker's stack.
#[must_use]
pub fn bottom_of(slot: usize) -> usize {
    STACKS[slot].top() - STACK_SIZE
}

/// Creates worker `slot` without starting it.
///
/// # Errors
/// As [`Builder::create`].
pub fn create(
    slot: usize,
    priority: u8,
    entry: fn(usize),
    argument: usize,
) -> Result<Thread, Error> {
    Builder::new(NAMES[slot], priority)?.create(&STACKS[slot], entry, argument)
}

/// Starts worker `slot`.
///
/// # Errors
/// As [`Builder::create`].
pub fn spawn(
    slot: usize,
    priority: u8,
    entry: fn(usize),
    argument: usize,
) -> Result<Thread, Error> {
    let thread = create(slot, priority, entry, argument)?;
    thread.start()?;
    Ok(thread)
}

/// Starts worker `slot` with round-robin scheduling.
///
/// # Errors
/// As [`Builder::create`].
pub fn spawn_rr(
    slot: usize,
    priority: u8,
    quantum: Nanos,
    entry: fn(usize),
    argument: usize,
) -> Result<Thread, Error> {
    let builder = Builder::new(NAMES[slot], priority)?.policy(Policy::RoundRobin(quantum));
    builder.spawn(&STACKS[slot], entry, argument)
}

/// Waits for the end of workers, a second for each at most.
///
/// # Errors
/// As [`Thread::join`].
pub fn join(threads: &[Thread]) -> Result<(), Error> {
    threads
        .iter()
        .try_for_each(|thread| thread.join(after_ms(1000)).map(|_| ()))
}

/// The time that many milliseconds from now.
#[must_use]
pub fn after_ms(ms: u64) -> Instant {
    Instant::after(Nanos::new(ms * 1_000_000))
}

/// The time that many microseconds from now.
#[must_use]
pub fn after_us(us: u64) -> Instant {
    Instant::after(Nanos::new(us * 1000))
}

/// Uses exactly `instructions` (rounded up to even) of CPU time, however often it is preempted.
#[inline(always)]
pub fn burn(instructions: u64) {
    // SAFETY: counts a register down.
    unsafe {
        asm!("2: dec {n}", "jnz 2b", n = inout(reg) instructions.div_ceil(2).max(1) => _, options(nomem, nostack));
    }
}

/// How long a thread has run and how often it was switched to, which has to be counted.
///
/// # Errors
/// Those of [`Thread::times`]; [`Error::InvalidState`] if it is not.
pub fn times(thread: &Thread) -> Result<Times, Error> {
    thread.times()?.ok_or(Error::InvalidState)
}
