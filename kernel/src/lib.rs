//! Takt's kernel: a small preemptive real-time microkernel that traces itself.
//!
//! * [`thread`]: threads. [`sync`]: what they wait for. [`time`]: when. [`irq`]: interrupts. [`preempt`]: keeping the
//!   CPU.
//! * [`trace`]: trace points, control of tracing.
//! * [`boot`], [`fault`]: the beginning and the end. [`machine`]: the one door to the CPU, for the machine's crate
//!   (`takt-board`), which no application needs.
//! * [`how_it_is_built`]: the kernel from inside, and the way of a deadline to the thread that it wakes.
//!
//! Everything is static: there is no heap, capacities stand in [`config`], and running out of one is an [`Error`].
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

pub use error::Error;
pub use thread::yield_now;
