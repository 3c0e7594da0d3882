//! The sweep: an interrupt that arrives at every instruction of a stretch of code, one after the other.
//!
//! A thread runs the stretch again and again, from the same state each time. Each time a timer expires one instruction
//! later than the time before and wakes the measured thread. The stretch begins at an exact distance from the deadline
//! ([`marks::begin`](takt_kernel::machine::marks::begin)), so where one instruction is one cycle (QEMU under icount) every
//! boundary between two instructions is met, and the maximum is the maximum, not the highest of a sample.
//!
//! | module | content |
//! |---|---|
//! | `block` | what the host reads: an entry for each arrival |
//! | `names` | the workloads' names |
//! | `driver` | the timer, the measured thread, [`begin`] and [`end`] |
//! | `workloads` | stretches made of the kernel's primitives |
//! | `loads` | stretches made of `latency-run`'s loads |

mod block;
mod names;

#[cfg(feature = "workload")]
mod driver;
#[cfg(feature = "workload")]
mod loads;
#[cfg(feature = "workload")]
mod workloads;

pub use block::{Arrival, Column, EARLY, ROOM, SweepBlock, SweepState, VERSION};
pub use names::{Named, PRIORITIES, WORKLOADS, find};

#[cfg(feature = "workload")]
pub use driver::{Entry, Plan, Subject, begin, end, is_on, start};

/// Begins the stretch under test. Without effect in a system that was not started for a sweep.
#[cfg(feature = "workload")]
#[macro_export]
macro_rules! sweep_begin {
    () => {
        $crate::sweep::begin()
    };
}

/// Ends the stretch under test that [`sweep_begin!`] has begun.
#[cfg(feature = "workload")]
#[macro_export]
macro_rules! sweep_end {
    () => {
        $crate::sweep::end()
    };
}
