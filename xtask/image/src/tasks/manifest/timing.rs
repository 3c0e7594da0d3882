//! [`Timing`]: what a manifest says of the time that something takes.

use serde::Deserialize;

/// How often something runs, and for how long.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Timing {
    /// A task of the manifest, or a thread of the kernel's.
    pub thread: Option<String>,
    /// A device's interrupt instead.
    pub interrupt: Option<String>,
    /// The thread's priority; a task has its own.
    pub priority: Option<u8>,
    /// Microseconds from one time to the next, at least.
    pub period_us: u64,
    /// Microseconds in which a thread's turn is to end; a period, if that is not said.
    pub deadline_us: Option<u64>,
    /// Nanoseconds that a turn, or the handler, takes at most.
    pub wcet_ns: Option<u64>,
    /// The function in Rust that it is, of which that is to be proved instead.
    pub function: Option<String>,
    /// Nanoseconds for which it keeps others from running at most.
    #[serde(default)]
    pub blocking_ns: u64,
}
