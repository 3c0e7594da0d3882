//! The decisions of the kernel: who runs next, who waits where, which timer is due.
//!
//! Nothing here touches hardware or knows a tracer. A call changes a plain data structure and
//! returns a decision as a `#[must_use]` value; the kernel carries it out and emits the events.
//! So all of it is tested on the host, against plain models.
//!
//! * [`PrioQueue`] with [`Links`]: threads in order of importance. [`WaitQueue`]: such a queue of an object, in which mostly one
//!   waits.
//! * [`RunQueue`]: the POSIX rules of `SCHED_FIFO` and `SCHED_RR` for one CPU.
//! * [`TimerQueue`]: armed timers in order of their deadlines. [`FewTimers`]: the same in little code.
//! * [`pi`]: priority inheritance along chains of mutexes.
//!
//! # Invariants
//! Every operation but the iterators is O(1) in the number of threads. To disarm a timer or to have it
//! expire is O(1), to arm it O(log n) of the armed timers, in steps of O(1). No operation allocates,
//! blocks or recurses, and none panics, but that debug builds assert what a caller has to promise.
//!
//! # Cost
//! These few instructions stand in every path that is measured. So the hot functions are
//! `inline(always)`: the compiler then inlines before it packs an `Option` of two small values
//! into one register. Tables have a power of two entries and indices are masked: no check, no
//! panic.
//!
//! # Example
//! ```
//! use takt_scheduler::{Links, Next, Priority, Resched, RunQueue, ThreadId};
//!
//! let links = Links::<256>::new();
//! let mut run_queue = RunQueue::new(ThreadId::new(0));
//! let prio = Priority::new(95).unwrap();
//!
//! assert_eq!(run_queue.wakeup(&links, ThreadId::new(7), prio), Resched::Preempt);
//! assert_eq!(run_queue.pick_next(), Next::Switch(ThreadId::new(7)));
//! assert_eq!(run_queue.wakeup(&links, ThreadId::new(8), prio), Resched::Keep);
//! assert_eq!(run_queue.yield_current(&links), Next::Switch(ThreadId::new(8)));
//! assert_eq!(run_queue.block_current(&links), ThreadId::new(7));
//! assert_eq!(run_queue.block_current(&links), run_queue.idle());
//! ```
//!
//! # Context
//! Every function is callable wherever its data structure is not in use by another: the kernel
//! calls them with interrupts off and, with several CPUs, under its lock.

#![no_std]
#![forbid(unsafe_code)]

mod few_timers;
mod ids;
mod levels;
mod links;
pub mod pi;
mod prio_counts;
mod prio_queue;
mod run_queue;
mod timer_list;
mod timer_queue;
mod wait_queue;

pub use few_timers::FewTimers;
pub use ids::{Deadline, Priority, ThreadId, TimerId};
pub use links::Links;
pub use prio_counts::PrioCounts;
pub use prio_queue::{Iter, PrioQueue};
pub use run_queue::{Next, Placement, Policy, Resched, RunQueue};
pub use timer_queue::{Cancelled, Inserted, Insertion, Stage, TimerQueue};
pub use wait_queue::WaitQueue;
