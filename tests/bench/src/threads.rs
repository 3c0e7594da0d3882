//! The threads of the measurements.

use takt_kernel::thread::{Builder, Stack, Thread};
use takt_kernel::thread_stack;
use takt_kernel::time::Instant;

use crate::report::fail;

/// Priority of the thread that the measurements run in: that of a real-time thread.
pub const MAIN: u8 = 90;

const SIZE: usize = 8192;
thread_stack!(static STACKS: [SIZE; 6]);

/// The stack of this slot.
#[must_use]
pub fn stack(slot: usize) -> &'static Stack<SIZE> {
    &STACKS[slot]
}

/// Creates a thread on the stack of this slot.
pub fn create(slot: usize, priority: u8, entry: fn(usize)) -> Thread {
    let created = Builder::new("bench", priority)
        .and_then(|builder| builder.create(stack(slot), entry, slot));
    must("create", created)
}

/// Creates and starts one.
pub fn spawn(slot: usize, priority: u8, entry: fn(usize)) -> Thread {
    let thread = create(slot, priority, entry);
    must("start", thread.start());
    thread
}

/// Waits for a thread's end.
pub fn join(thread: Thread) {
    must("join", thread.join(Instant::NEVER).map(|_| ()));
}

/// What must not fail.
pub fn must<T>(what: &str, result: Result<T, takt_kernel::Error>) -> T {
    result.unwrap_or_else(|error| fail(what, error))
}
