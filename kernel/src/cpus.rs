//! The CPUs that run, and how one makes another look at what has changed.

use core::sync::atomic::{
    AtomicU32,
    Ordering::{Acquire, Relaxed, Release},
};

use crate::arch::percpu::{self, CpuRef};
use crate::arch::{apic, interrupts, jump_label};
use crate::config::MAX_CPUS;

jump_label::keys! {
    /// More than one CPU runs.
    pub(crate) SMP;
}

/// Whether more than one CPU runs: no instruction where the kernel was built for one.
macro_rules! is_smp {
    () => {
        $crate::config::MAX_CPUS > 1 && $crate::key_branch!($crate::cpus::SMP)
    };
}
pub(crate) use is_smp;

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
    is_online(cpu).then(|| percpu::of(cpu).apic_id.get())
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

/// Makes another CPU look at its run queue and timers.
#[cold]
pub(crate) fn kick(cpu: CpuRef) {
    apic::send(
        cpu.apic_id.get(),
        u32::from(interrupts::KICK_VECTOR) | 1 << 14,
    );
}

/// Makes a reschedule due on `cpu`.
#[inline(always)]
pub(crate) fn resched(cpu: CpuRef) {
    if is_smp!() && cpu != CpuRef::this() {
        kick(cpu);
        return;
    }
    percpu::set_need_resched();
}
