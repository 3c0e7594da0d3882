//! What the machine says of itself that bears on its latencies: SMIs, the TSC beside another clock, states of power.
//!
//! Everything is kept raw in `TAKT_MACHINE` ([`Machine`]); the host makes sense of it. Under a hypervisor nothing but its name
//! is: its registers are not the machine's. So a run under QEMU is the same to the instruction.

use core::arch::x86_64::{__cpuid, __cpuid_count};
use core::sync::atomic::{AtomicBool, Ordering::Relaxed};

use takt_kernel::machine::read_msr;
use takt_kernel::{irq, smp};
use takt_timerlat::stats::Status;
use takt_timerlat::stats::machine::{MSR_SMI_COUNT, MSRS, Machine, note};

use crate::clocks;

/// What the host reads.
#[unsafe(no_mangle)]
pub(crate) static TAKT_MACHINE: Machine = Machine::new();

/// SMIs and NMIs are counted.
static IS_COUNTING: AtomicBool = AtomicBool::new(false);

/// CPUID 1 ECX, bit 31: there is a hypervisor.
const HAS_HYPERVISOR: u32 = 1 << 31;

/// Whether a hypervisor says that it is there.
#[must_use]
pub(crate) fn has_hypervisor() -> bool {
    __cpuid(1).ecx & HAS_HYPERVISOR != 0
}

/// Reads what does not change, and the clocks at the beginning of the measurement.
///
/// # Context
/// A thread.
pub fn start() {
    let machine = &TAKT_MACHINE;
    let (most, features) = (__cpuid(0).eax, __cpuid(1));
    let leaf = |number: u32| (number <= most).then(|| __cpuid_count(number, 0));
    let words = [
        features.eax,
        features.ecx,
        leaf(6).map_or(0, |it| it.eax),
        leaf(7).map_or(0, |it| it.ebx),
        leaf(0x10).map_or(0, |it| it.ebx),
        __cpuid(0x8000_0007).edx,
    ];
    for (to, word) in machine.cpuid.iter().zip(words) {
        to.store(word, Relaxed);
    }
    let brand = (0x8000_0002..=0x8000_0004).flat_map(|number| {
        let it = __cpuid(number);
        [it.eax, it.ebx, it.ecx, it.edx]
    });
    for (to, word) in machine.brand.iter().zip(brand) {
        to.store(word, Relaxed);
    }
    if features.ecx & HAS_HYPERVISOR != 0 {
        let it = __cpuid(0x4000_0000);
        for (to, word) in machine.hypervisor.iter().zip([it.ebx, it.ecx, it.edx]) {
            to.store(word, Relaxed);
        }
    } else {
        read_registers(machine);
    }
    clocks::mark(&machine.reference, 0);
    machine.is_there.store(1, Relaxed);
}

fn read_registers(machine: &Machine) {
    let mut has = 0;
    for (bit, (number, to)) in MSRS.iter().zip(&machine.msrs).enumerate() {
        if let Some(value) = read_msr(*number) {
            to.store(value, Relaxed);
            has |= 1 << bit;
        }
    }
    machine.has_msrs.store(has, Relaxed);
    // Elsewhere the number may be another register's.
    let is_intels = __cpuid(0).ebx == u32::from_le_bytes(*b"Genu");
    let counts = is_intels && read_msr(MSR_SMI_COUNT).is_some();
    machine.counts_smis.store(counts.into(), Relaxed);
    IS_COUNTING.store(true, Relaxed);
}

/// Reads the clocks at the end of the measurement.
pub fn finish() {
    clocks::mark(&TAKT_MACHINE.reference, 1);
    if is_counting() {
        idle();
    }
}

/// Whether the machine is no hypervisor's, so that its interrupts of its own are counted: [`idle`] and [`sampled`] are to be
/// called then.
#[must_use]
pub fn is_counting() -> bool {
    IS_COUNTING.load(Relaxed)
}

fn counts() -> [u64; 2] {
    let smis = match TAKT_MACHINE.counts_smis.load(Relaxed) {
        0 => 0,
        _ => read_msr(MSR_SMI_COUNT).unwrap_or(0),
    };
    [smis, irq::nmi_count()]
}

/// This CPU is about to halt.
pub fn idle() {
    if let Some(cpu) = TAKT_MACHINE.cpus.get(smp::this_cpu()) {
        let [smis, nmis] = counts();
        cpu.count(smis, nmis);
    }
}

/// Samples were taken on this CPU: what was the greatest latency so far is kept, with what came meanwhile.
pub fn sampled(status: &Status) {
    let me = smp::this_cpu();
    let Some(cpu) = TAKT_MACHINE.cpus.get(me) else {
        return;
    };
    for (slot, outliers) in status.slots.iter().zip(&TAKT_MACHINE.outliers) {
        if slot.active.load(Relaxed) == 0 || slot.cpu.load(Relaxed) as usize != me {
            continue;
        }
        for (latency, kept) in [&slot.irq, &slot.thread].into_iter().zip(outliers) {
            let (max, count) = (latency.max.load(Relaxed), latency.count.load(Relaxed));
            note(kept, max, count, || {
                let [smis, nmis] = counts();
                cpu.causes(smis, nmis)
            });
        }
    }
}
