//! Threads: create, start, exit, join, suspend, resume, priorities.
//!
//! ```text
//!            create          start             switch
//!   (free) ─────────> created ─────> ready <──────────> running ──> exited ──join──> (free)
//!                                      ^                   │
//!                                      └──── waiting <─────┘        suspend/resume: orthogonal to waiting
//! ```

pub(crate) mod create;
pub(crate) mod exit;
pub(crate) mod handle;
pub(crate) mod park;
pub(crate) mod stack;
pub(crate) mod table;
pub(crate) mod tcb;

mod ids;
mod join;
mod yields;

pub use crate::arch::descriptors::{GUARD, GuardedStack, StackMemory};
pub use create::Builder;
pub use exit::exit;
pub use handle::{Policy, Thread, current};
#[cfg(feature = "tasks")]
pub(crate) use park::begin_park;
pub use park::park;
pub use stack::{Registration, Stack, for_each_stack};
pub use table::{Info, State, Times, count_times, for_each};
pub use yields::yield_now;
