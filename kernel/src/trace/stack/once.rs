//! [`record_once`]: stacks behind records, which are records themselves.

use core::sync::atomic::{AtomicU8, Ordering::Relaxed};

use crate::arch::percpu;
use crate::config::MAX_CPUS;

/// The contexts that a stack can be recorded in: threads, interrupts, NMIs in the one or the other.
const CONTEXTS: u8 = (percpu::HARDIRQ | percpu::NMI) / percpu::HARDIRQ;

/// For each CPU a bit for each context in which a stack is being recorded.
static BUSY: [AtomicU8; MAX_CPUS] = [const { AtomicU8::new(0) }; MAX_CPUS];

/// As [`record`](super::record), unless it is being done already in this context: what records a stack is not followed by one.
#[inline(never)]
pub(super) fn record_once(first: &[usize]) {
    crate::trace::without_interrupts(|| {
        let busy = &BUSY[percpu::cpu() % MAX_CPUS];
        let byte = percpu::preempt_byte();
        let bit = 1 << ((byte / percpu::HARDIRQ) & CONTEXTS);
        // An NMI in between leaves it as it found it.
        let was = busy.load(Relaxed);
        if was & bit == 0 {
            busy.store(was | bit, Relaxed);
            super::record(first, 0);
            busy.store(was, Relaxed);
        }
    });
}
