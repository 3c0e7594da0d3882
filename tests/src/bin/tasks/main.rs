//! Protected tasks: what they may do, and what stops them. The tasks are those of `tests/tasks`.
#![no_std]
#![no_main]

mod arrivals;
mod budget;
mod chain;
mod collusion;
mod devices;
mod exceptions;
mod fuzz;
mod harm;
mod lease;
mod measured;
mod messages;
mod spread;
mod talk;
mod team;
mod ways;

use takt_kernel::task::{self, Ended};
use takt_kernel::thread::Thread;
use takt_kernel::time::{Instant, Nanos};
use takt_tests::harness::{Failure, Outcome};

takt_board::entry!(takt_tests::harness::main);

/// The tasks by their numbers in the manifest, and what each is told that it is.
pub(crate) const KEEPER: (usize, u64) = (0, 1);
pub(crate) const SERVER: (usize, u64) = (1, 2);
pub(crate) const CLIENT: (usize, u64) = (2, 3);
pub(crate) const VICTIM: (usize, u64) = (3, 4);

/// A task that was started.
pub(crate) struct Started(Thread, usize);

/// Starts a task.
pub(crate) fn start((number, role): (usize, u64), what: u32) -> Result<Started, Failure> {
    let argument = role << 32 | u64::from(what);
    Ok(Started(task::start(number, argument)?, number))
}

impl Started {
    /// Waits for its end, and says how that was.
    pub(crate) fn end(self) -> Result<Ended, Failure> {
        self.end_until(Instant::after(Nanos::from_secs(1)))
    }

    /// The same without a timer for that.
    pub(crate) fn end_at_last(self) -> Result<Ended, Failure> {
        self.end_until(Instant::NEVER)
    }

    fn end_until(self, limit: Instant) -> Result<Ended, Failure> {
        self.0.join(limit)?;
        let ended = task::all()[self.1].ended();
        ended.ok_or_else(|| Failure::new(format_args!("it has not ended")))
    }

    /// Waits for its end, which has to be one of its own, with code 0.
    pub(crate) fn succeeds(self) -> Outcome {
        match self.end()? {
            Ended::Exited(0) => Ok(()),
            Ended::Exited(code) => Err(Failure::new(format_args!("it ended with {code}"))),
            Ended::Stopped(fault) => Err(Failure::new(format_args!("{fault}"))),
        }
    }
}
