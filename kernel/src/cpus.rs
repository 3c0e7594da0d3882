//! The CPUs that run, and how one makes another look at what has changed.

use core::sync::atomic::{
    AtomicBool, AtomicU32,
    Ordering::{Acquire, Relaxed, Release},
};

use crate::arch::percpu::{self, CpuRef};
use crate::arch::{apic, interrupts, jump_label, proof};
use crate::clock::{Cycles, Instant};
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

/// Makes another CPU do what is wanted of it ([`other_cpu`](crate::other_cpu)).
#[cold]
pub(crate) fn kick(cpu: CpuRef) {
    let kick = apic::Command::interrupt(interrupts::KICK_VECTOR);
    apic::send(cpu.apic_id.get(), kick);
    proof::not_alone!("nobody kicks the only CPU");
}

/// The number of the CPU that ends the machine, and 1; 0 while none does.
static LAST: AtomicU32 = AtomicU32::new(0);

/// A bit for each CPU that has halted for that.
static HALTED: AtomicU32 = AtomicU32::new(0);

/// For how many cycles of the clock the others are to halt, before they are made to, and before the report begins all the same: some ten
/// milliseconds.
const PATIENCE: Cycles = Cycles::new(1 << 25);

/// Whether this CPU ends the machine.
pub(crate) fn is_over() -> bool {
    is_smp!() && LAST.load(Relaxed) == CpuRef::this().number() + 1
}

/// Has all other CPUs halt for good: the run ends, or what this one is about to report says that what they have in common is wrong.
/// Halts itself if another one does that.
///
/// They halt where they [stand still](stand_still), so that nothing is half changed that what prints a panic's message may look at. One
/// that does not come there in time has interrupts off and gets an NMI.
///
/// # Context
/// Interrupts off.
pub(crate) fn halt_others() {
    let this = CpuRef::this().number();
    if LAST
        .compare_exchange(0, this + 1, Relaxed, Relaxed)
        .is_err()
    {
        return halt_if_over();
    }
    // For good, and behind what says why.
    GENERATION.fetch_or(OVER, Release);
    let others = online() & !(1 << this);
    let left = || others & !HALTED.load(Acquire);
    let kick = apic::Command::interrupt(interrupts::KICK_VECTOR);
    for how in [kick, apic::Command::NMI.union(apic::Command::ASSERT)] {
        for cpu in bits(left()) {
            apic::send(CpuRef::of(cpu).apic_id.get(), how);
        }
        let begun = Instant::now();
        while left() != 0 && Instant::now().wrapping_since(begun) < PATIENCE {
            core::hint::spin_loop();
        }
    }
    // Of one that has not even taken the NMI nobody knows what it was about to change.
    IS_HALF_CHANGED.fetch_or(left() != 0, Relaxed);
}

/// Halts for good if another CPU ends the machine.
///
/// # Context
/// Interrupts off, or NMI.
#[inline(always)]
pub(crate) fn halt_if_over() {
    if is_anothers_end() {
        halt();
    }
}

/// Whether another CPU ends the machine.
#[inline(always)]
fn is_anothers_end() -> bool {
    is_smp!() && {
        let last = LAST.load(Relaxed);
        last != 0 && last != CpuRef::this().number() + 1
    }
}

/// Halts for good, and says so.
#[inline(always)]
fn halt() -> ! {
    HALTED.fetch_or(1 << CpuRef::this().number(), Release);
    interrupts::halt_forever()
}

/// As [`halt_if_over`], where something is half changed if this CPU has a lock.
///
/// # Context
/// NMI.
#[inline(always)]
pub(crate) fn halt_in_nmi_if_over(has_lock: impl FnOnce() -> bool) {
    if is_anothers_end() {
        halt_in_nmi(has_lock);
    }
}

#[cold]
#[inline(never)]
fn halt_in_nmi(has_lock: impl FnOnce() -> bool) -> ! {
    IS_HALF_CHANGED.fetch_or(has_lock(), Relaxed);
    halt()
}

/// Whether a CPU was halted while it had a lock of the kernel's.
static IS_HALF_CHANGED: AtomicBool = AtomicBool::new(false);

/// Whether what the kernel's locks protect may be half changed for good, since a CPU was halted amid that.
///
/// # Context
/// Behind [`halt_others`].
pub(crate) fn is_half_changed() -> bool {
    IS_HALF_CHANGED.load(Relaxed)
}

/// Has [`OVER`] once a CPU ends the machine, [`STOP`] while the CPUs are to stand still; above that it counts.
pub(crate) static GENERATION: AtomicU32 = AtomicU32::new(0);

/// See [`GENERATION`].
const OVER: u32 = 1;
/// See [`GENERATION`]. To add it sets and clears it in turn.
pub(crate) const STOP: u32 = 2;

/// A bit for each CPU that stands still.
pub(crate) static STOPPED: AtomicU32 = AtomicU32::new(0);

/// Stands still as long as someone patches (`arch::stop`), and for good if another CPU ends the machine.
///
/// # Context
/// The handler of a kick.
#[inline(always)]
pub(crate) fn stand_still() {
    stand_still_for(STOP | OVER);
}

/// The same, but does not halt for a machine that ends: whoever waits does so with what it has, and its turn comes, or an NMI.
///
/// # Context
/// Who waits with interrupts off for another CPU's call or for a lock of the board's; without a lock of the kernel's.
#[inline(always)]
pub(crate) fn stand_still_while_waiting() {
    stand_still_for(STOP);
}

#[inline(always)]
fn stand_still_for(reasons: u32) {
    loop {
        let generation = GENERATION.load(Acquire);
        if generation & reasons == 0 || is_over() {
            return;
        }
        STOPPED.fetch_or(1 << percpu::cpu(), Release);
        while GENERATION.load(Acquire) == generation {
            // Whoever was to let them go may have halted.
            halt_if_over();
            core::hint::spin_loop();
        }
        core::arch::x86_64::__cpuid(0);
    }
}
