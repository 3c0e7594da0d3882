//! The image's protected tasks, as xtask has packed them.

use takt_kernel::Error;
use takt_kernel::task::{self, Ended};
use takt_kernel::thread::{self, Thread};
use takt_kernel::time::Instant;

mod lines;
mod memory;

pub(crate) use lines::wire_all;
pub(crate) use memory::{check as check_memory, check_ram};

mod packed {
    include!(concat!(env!("OUT_DIR"), "/tasks.rs"));

    pub(super) fn all() -> &'static [Task] {
        &TASKS
    }

    pub(super) const fn arguments() -> &'static [u64] {
        ARGUMENTS
    }

    pub(super) const fn without_dma() -> &'static [(usize, usize)] {
        WITHOUT_DMA
    }

    pub(super) const fn until() -> Option<usize> {
        UNTIL
    }
}

/// Introduces them to the kernel.
///
/// # Safety
/// Once, after [`boot::memory`](takt_kernel::boot::memory).
pub(crate) unsafe fn install() {
    // SAFETY: the caller's duty; xtask gives each task memory, a region and a stack of its own.
    unsafe { takt_kernel::task::install(packed::all()) };
}

/// Below the priority at which a task begins to live, and above all others.
const STARTING: u8 = 98;

/// How many tasks the image has.
#[must_use]
pub fn count() -> usize {
    task::all().len()
}

/// Starts a task as the manifest says.
///
/// # Errors
/// As [`task::start`].
///
/// # Context
/// Threads.
pub fn start(number: usize) -> Result<Thread, Error> {
    let argument = packed::arguments().get(number);
    task::start(number, *argument.ok_or(Error::InvalidArgument)?)
}

/// Starts every task with its argument, in the order of the manifest, and waits for the end of the one that the manifest names as
/// `until`, or of all.
///
/// # Panics
/// If a task cannot be started, or one that is waited for did not end with code 0.
///
/// # Context
/// The main thread, whose priority it lowers.
pub fn run() {
    let tasks = task::all();
    // All are there before one of them runs.
    let _ = thread::current().set_priority(STARTING);
    let start = |(number, argument): (usize, &u64)| match task::start(number, *argument) {
        Ok(thread) => (number, thread),
        Err(error) => panic!("task '{}' does not start: {error:?}", tasks[number].name()),
    };
    let started = packed::arguments().iter().enumerate().map(start);
    let threads: heapless::Vec<_, { takt_kernel::task::MAX_TASKS }> = started.collect();
    let _ = thread::current().set_priority(0);
    for (number, thread) in &threads {
        if packed::until().is_some_and(|until| until != *number) {
            continue;
        }
        let _ = thread.join(Instant::NEVER);
        let name = tasks[*number].name();
        match tasks[*number].ended() {
            Some(Ended::Exited(0)) => {}
            Some(Ended::Exited(code)) => panic!("task '{name}' ended with {code}"),
            Some(Ended::Stopped(fault)) => panic!("task '{name}' was stopped: {fault}"),
            None => panic!("task '{name}' has not ended"),
        }
    }
}
