//! Other CPUs.

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
