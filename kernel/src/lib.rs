//! Takt's kernel: a small preemptive real-time microkernel that traces itself.
//!
//! # Manual
//! | chapter | what is there |
//! |---|---|
//! | [`thread`] | threads: create, start, exit, join, suspend, resume, priorities; their stacks |
//! | [`sync`] | what threads wait for: mutexes with priority inheritance, semaphores, event flags, queues, condition variables |
//! | [`time`] | the clock, sleeping, software timers, deadlines |
//! | [`irq`] | devices' interrupts, NMIs |
//! | [`preempt`] | keeping the CPU for a while |
//! | [`smp`], [`context`] | which CPU this is, and what runs there |
//! | [`trace`] | events, tracers, markers, stacks |
//! | `task` | programs in ring 3, with feature `tasks` |
//! | [`config`] | capacities |
//! | [`fault`] | how a run ends |
//! | [`boot`], [`machine`] | for the machine's crate (`takt-board`) alone: bringing the kernel up, and the one door to the CPU |
//! | [`how_it_is_built`] | the kernel from inside, and the way of a deadline to the thread that it wakes |
//!
//! # Rules
//! * **Scheduling.** Priorities are 0 to 99, 99 the most important. On each CPU the most important ready thread runs; of equals the one
//!   that has been ready longest (FIFO), or each for a quantum (round robin). A thread that is preempted goes on before its equals.
//!   A thread stays on the CPU that it was created for.
//! * **Contexts.** A thread may wait. An interrupt's handler may not: it gives, sets, sends and wakes, and what would wait is
//!   [`Error::WrongContext`] there, as it is with preemption disabled. An NMI's handler calls nothing of this crate but what
//!   [`irq::Nmi`] offers. Each function says which contexts it is for.
//! * **Time.** A deadline is an absolute [`Instant`](time::Instant); one that is past does not wait, [`NEVER`](time::Instant::NEVER) waits without
//!   one. Lengths are [`Cycles`](time::Cycles) and [`Nanos`](time::Nanos).
//! * **Memory.** Everything is static: there is no heap. Running out of a capacity is an [`Error`] that the caller gets.
#![no_std]
// Some functions must not be traced, nor pay for it; xtask builds images with this feature so that the flag is allowed.
#![cfg_attr(feature = "function", feature(patchable_function_entry))]
#![cfg_attr(
    not(all(feature = "mutex", feature = "trace")),
    expect(
        dead_code,
        reason = "what an image leaves out is checked all the same, see `parts`"
    )
)]

mod arch;
pub mod boot;
pub mod config;
pub mod context;
pub mod fault;
// The page shows its drawing as a file beside it, which is not there in this documentation.
#[doc = "The kernel from inside.\n\n<style>img[src^=drawings] { display: none }</style>\n\n"]
#[doc = include_str!("../../docs/drawings/deadline.svg")]
#[doc = "\n"]
#[doc = include_str!("../../docs/KERNEL.md")]
pub mod how_it_is_built {}
pub mod irq;
pub mod machine;
pub mod preempt;
pub mod proof;
pub mod smp;
pub mod sync;
#[cfg(feature = "tasks")]
pub mod task;
pub mod thread;
pub mod time;
pub mod trace;

mod backtrace;
#[cfg(feature = "tasks")]
mod budget;
mod clock;
mod compact;
mod cpu_sched;
mod cpus;
mod deferred;
mod error;
mod expiry;
mod guards;
mod idle;
mod lock;
mod other_cpu;
mod parts;
mod probe;
mod quantum;
mod sched;
mod section;
mod soft_timer;
mod switch;
mod thread_set;
mod timers;
mod wait;
mod waiters;

/// For macros: a path from the root is the caller's to say what it means.
#[doc(hidden)]
pub use core as __core;
pub use error::Error;
pub use thread::yield_now;
