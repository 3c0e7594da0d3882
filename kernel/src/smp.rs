//! Other CPUs.

use crate::arch::stop::Text;
use crate::arch::{jump_label, percpu};
use crate::cpus::SMP;

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

/// Readies the kernel for more than one CPU: from here on sections take the lock.
///
/// # Context
/// A thread of the boot CPU, before the first further CPU is started.
pub fn prepare(text: &mut Text) {
    if nr_online() == 1 {
        let key = &raw const SMP as u32;
        // No section may begin between the patching of a lock and that of its unlock: interrupts are off meanwhile.
        text.patch(|text| jump_label::set(text, key, true));
    }
}
