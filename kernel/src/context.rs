//! What runs: a thread, an interrupt's handler, an NMI's.

use crate::arch::percpu;
use crate::config::{MAX_CPUS, MAX_THREADS, cpu_index};

/// How many contexts there are: every thread, and on every CPU interrupts and NMIs.
pub const NR_CONTEXTS: usize = MAX_THREADS + 2 * MAX_CPUS;

/// The number of the context that runs, below [`NR_CONTEXTS`]. Whatever two of the same number do is one behind the other, but
/// for what an exception's handler does.
///
/// # Context
/// Any, NMIs included.
#[inline]
#[must_use]
pub fn number() -> usize {
    let count = percpu::preempt_byte();
    if count & (percpu::HARDIRQ | percpu::NMI) == 0 {
        // At most `MAX_THREADS`, which is a power of two.
        return usize::from(percpu::current_tid()) % MAX_THREADS;
    }
    let cpu = cpu_index(percpu::cpu());
    match count & percpu::NMI {
        0 => MAX_THREADS + cpu,
        _ => MAX_THREADS + MAX_CPUS + cpu,
    }
}

/// Whether this is an interrupt's handler, or an NMI's.
///
/// # Context
/// Any, NMIs included.
#[inline(always)]
#[must_use]
pub fn is_interrupt() -> bool {
    percpu::preempt_byte() & (percpu::HARDIRQ | percpu::NMI) != 0
}

/// Whether this is the handler of an NMI.
///
/// # Context
/// Any, NMIs included.
#[inline(always)]
#[must_use]
pub fn is_nmi() -> bool {
    percpu::preempt_byte() & percpu::NMI != 0
}
