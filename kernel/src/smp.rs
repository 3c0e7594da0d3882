//! Other CPUs.

use core::sync::atomic::{
    AtomicU32,
    Ordering::{Acquire, Relaxed, Release},
};

use crate::arch::jump_label;
use crate::arch::percpu::CpuRef;
use crate::arch::stop::Text;
use crate::arch::{apic, interrupts, percpu};
use crate::config::MAX_CPUS;
use crate::section;
use crate::switch::{self, IrqExit};

/// Bit per CPU that runs.
static ONLINE: AtomicU32 = AtomicU32::new(0);

/// Whether this CPU number runs.
#[must_use]
pub fn is_online(cpu: usize) -> bool {
    // The first one does.
    cpu < MAX_CPUS && (MAX_CPUS == 1 || ONLINE.load(Relaxed) & 1 << cpu != 0)
}

/// The local APIC id of a CPU that runs: where devices' interrupts are sent to.
#[must_use]
pub fn apic_id(cpu: usize) -> Option<u32> {
    // SAFETY: blocks are static, and the id never changes once the CPU runs.
    is_online(cpu).then(|| unsafe { (*percpu::of(cpu)).apic_id })
}

/// How many CPUs run.
#[must_use]
pub fn nr_online() -> u32 {
    ONLINE.load(Acquire).count_ones()
}

/// A bit for each CPU that runs.
pub(crate) fn online() -> u32 {
    ONLINE.load(Relaxed)
}

/// The numbers of the CPUs that have their bits set.
#[inline(always)]
pub(crate) fn bits(mut cpus: u32) -> impl Iterator<Item = usize> {
    core::iter::from_fn(move || {
        let cpu = cpus.trailing_zeros() as usize;
        cpus &= cpus.wrapping_sub(1);
        (cpu < MAX_CPUS).then_some(cpu)
    })
}

/// Says that the calling CPU runs.
pub(crate) fn set_online() {
    ONLINE.fetch_or(1 << percpu::cpu(), Release);
}

/// Readies the kernel for more than one CPU: from here on sections take the lock.
///
/// # Context
/// A thread of the boot CPU, before the first further CPU is started.
pub fn prepare(text: &mut Text) {
    if nr_online() == 1 {
        let key = &raw const section::SMP as u32;
        // No section may begin between the patching of a lock and that of its unlock: interrupts are off meanwhile.
        // SAFETY: the key's uses change together, as far as this CPU can see, and no other runs.
        text.patch(|text| unsafe { jump_label::set(text, key, true) });
    }
}

/// Makes another CPU look at its run queue and timers.
#[cold]
pub(crate) fn kick(cpu: CpuRef) {
    apic::send(cpu.apic_id(), u32::from(interrupts::KICK_VECTOR) | 1 << 14);
}

/// The handler of a kick: whatever was woken here, and timers that others set.
pub(crate) extern "C" fn kick_interrupt(at: u64) -> IrqExit {
    apic::end_of_interrupt();
    crate::arch::stop::stand_still();
    let cpu = CpuRef::this();
    let mut section = section::enter_irq();
    cpu.count_irq();
    // Nobody kicks the only CPU that there can be.
    if MAX_CPUS > 1 {
        crate::trace::kick_entry(at);
        crate::time::expire(&mut section, cpu, at);
        // Should nothing have changed, `pick_next` lets the running thread stay.
        percpu::set_need_resched();
        crate::trace::trace!(irq_handler_exit, u32::from(interrupts::KICK_VECTOR));
    }
    switch::irq_exit(section)
}
