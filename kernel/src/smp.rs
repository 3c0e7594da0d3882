//! What an application may ask about the machine's CPUs: which one this is, and which of them run.
//!
//! The board starts them. A thread belongs to one CPU for its life, which its [`Builder`](crate::thread::Builder) is told.

use crate::arch::percpu;

pub use crate::cpus::{apic_id, is_online, nr_online};

/// The number of the CPU that this runs on.
///
/// # Context
/// Any. Threads do not migrate.
#[inline(always)]
#[must_use]
pub fn this_cpu() -> usize {
    percpu::cpu()
}
