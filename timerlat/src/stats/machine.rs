//! [`Machine`]: what a machine says of itself that bears on its latencies, raw, as it lies in its memory.
//!
//! Neighbours: the board fills it (`takt_board::machine`), the host reads and interprets it. All zeros at rest.

use core::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

use super::{MAX_CPUS, MAX_SLOTS};

/// The model-specific registers that are read, where there are any: microcode's revision, platform's information, limit of
/// C-states, power control, miscellaneous features, performance control, HWP's switch and request, class of service, mask
/// of the L3 cache's class 0.
///
/// Source: Intel SDM vol. 4, table 2-2.
pub const MSRS: [u32; 10] = [
    IA32_BIOS_SIGN_ID,
    MSR_PLATFORM_INFO,
    MSR_PKG_CST_CONFIG_CONTROL,
    MSR_POWER_CTL,
    IA32_MISC_ENABLE,
    IA32_PERF_CTL,
    IA32_PM_ENABLE,
    IA32_HWP_REQUEST,
    IA32_PQR_ASSOC,
    IA32_L3_QOS_MASK_0,
];
/// Microcode's revision, in the upper half.
pub const IA32_BIOS_SIGN_ID: u32 = 0x8b;
/// Ratio without turbo in bits 8 to 15.
pub const MSR_PLATFORM_INFO: u32 = 0xce;
/// Limit of the package's C-states in bits 0 to 3.
pub const MSR_PKG_CST_CONFIG_CONTROL: u32 = 0xe2;
/// Bit 1: C1 becomes C1E.
pub const MSR_POWER_CTL: u32 = 0x1fc;
/// Bit 38: no turbo.
pub const IA32_MISC_ENABLE: u32 = 0x1a0;
/// Ratio that is asked for, in bits 8 to 15.
pub const IA32_PERF_CTL: u32 = 0x199;
/// Bit 0: the hardware chooses the frequency (HWP).
pub const IA32_PM_ENABLE: u32 = 0x770;
/// The least and the highest ratio that it may choose, in bits 0 to 7 and 8 to 15.
pub const IA32_HWP_REQUEST: u32 = 0x774;
/// Class of service in the upper half.
pub const IA32_PQR_ASSOC: u32 = 0xc8f;
/// Ways of the L3 cache of class 0.
pub const IA32_L3_QOS_MASK_0: u32 = 0xc90;
/// Counts system management interrupts.
pub const MSR_SMI_COUNT: u32 = 0x34;

/// Outliers that are kept of each slot and kind: the last of those that were the greatest until then.
pub const NR_OUTLIERS: usize = 8;

/// A clock beside the TSC.
#[repr(C)]
pub struct Reference {
    /// Femtoseconds of a count; 0 if there is none.
    pub period_fs: AtomicU64,
    /// Bits of the counter.
    pub bits: AtomicU32,
    /// 1 for the HPET, 2 for ACPI's PM timer.
    pub kind: AtomicU32,
    /// TSC and count, at the beginning and at the end of the measurement.
    pub marks: [[AtomicU64; 2]; 2],
}

/// What a CPU counts.
#[repr(C)]
pub struct CpuCounts {
    /// SMIs when it was idle first, and last.
    pub smis: [AtomicU64; 2],
    /// The same of NMIs.
    pub nmis: [AtomicU64; 2],
    /// 1 once it has counted.
    pub is_counted: AtomicU64,
}

/// A latency that was greater than all before.
#[repr(C)]
pub struct Outlier {
    /// The latency in nanoseconds.
    pub value: AtomicU64,
    /// The how-manieth sample it was, from 1; 0 is no outlier.
    pub number: AtomicU32,
    /// [`SMI`], [`NMI`]: what has come since the CPU was idle last.
    pub causes: AtomicU32,
}

/// An SMI came.
pub const SMI: u32 = 1;
/// An NMI came.
pub const NMI: u32 = 2;

/// The machine. See the module's documentation.
#[repr(C)]
pub struct Machine {
    /// 1 once it is filled.
    pub is_there: AtomicU32,
    /// CPUID: 1 EAX (signature), 1 ECX, 6 EAX, 7 EBX, 10h EBX, 80000007h EDX.
    pub cpuid: [AtomicU32; 6],
    /// 1 if SMIs are counted.
    pub counts_smis: AtomicU32,
    /// CPUID 80000002h to 80000004h: the CPU's name.
    pub brand: [AtomicU32; 12],
    /// CPUID 40000000h EBX, ECX, EDX: the hypervisor's name.
    pub hypervisor: [AtomicU32; 4],
    /// [`MSRS`].
    pub msrs: [AtomicU64; MSRS.len()],
    /// Bit n: the n-th of them could be read.
    pub has_msrs: AtomicU64,
    /// The clock beside the TSC.
    pub reference: Reference,
    /// The CPUs.
    pub cpus: [CpuCounts; MAX_CPUS],
    /// Outliers of each slot: of IRQ latency, of thread latency.
    pub outliers: [[[Outlier; NR_OUTLIERS]; 2]; MAX_SLOTS],
}

impl Machine {
    /// Name of the symbol under which the image holds it.
    pub const SYMBOL: &'static str = "TAKT_MACHINE";

    /// At rest.
    #[must_use]
    #[expect(clippy::new_without_default, reason = "meant for a static only")]
    pub const fn new() -> Self {
        Self {
            is_there: AtomicU32::new(0),
            cpuid: [const { AtomicU32::new(0) }; 6],
            counts_smis: AtomicU32::new(0),
            brand: [const { AtomicU32::new(0) }; 12],
            hypervisor: [const { AtomicU32::new(0) }; 4],
            msrs: [const { AtomicU64::new(0) }; MSRS.len()],
            has_msrs: AtomicU64::new(0),
            reference: Reference {
                period_fs: AtomicU64::new(0),
                bits: AtomicU32::new(0),
                kind: AtomicU32::new(0),
                marks: [const { [const { AtomicU64::new(0) }; 2] }; 2],
            },
            cpus: [const {
                CpuCounts {
                    smis: [const { AtomicU64::new(0) }; 2],
                    nmis: [const { AtomicU64::new(0) }; 2],
                    is_counted: AtomicU64::new(0),
                }
            }; MAX_CPUS],
            outliers: [const {
                [const {
                    [const {
                        Outlier {
                            value: AtomicU64::new(0),
                            number: AtomicU32::new(0),
                            causes: AtomicU32::new(0),
                        }
                    }; NR_OUTLIERS]
                }; 2]
            }; MAX_SLOTS],
        }
    }
}

impl CpuCounts {
    /// A CPU is idle, and has counted so many SMIs and NMIs.
    pub fn count(&self, smis: u64, nmis: u64) {
        if self.is_counted.swap(1, Relaxed) == 0 {
            self.smis[0].store(smis, Relaxed);
            self.nmis[0].store(nmis, Relaxed);
        }
        self.smis[1].store(smis, Relaxed);
        self.nmis[1].store(nmis, Relaxed);
    }

    /// What has come since, by these counts.
    #[must_use]
    pub fn causes(&self, smis: u64, nmis: u64) -> u32 {
        let has = |[_, last]: &[AtomicU64; 2], now| last.load(Relaxed) != now;
        let [smi, nmi] = [has(&self.smis, smis), has(&self.nmis, nmis)];
        (u32::from(smi) * SMI) | (u32::from(nmi) * NMI)
    }
}

/// Keeps a latency if it is greater than those before: in the place of the least of `outliers`.
pub fn note(
    outliers: &[Outlier; NR_OUTLIERS],
    value: u64,
    number: u64,
    causes: impl FnOnce() -> u32,
) {
    let greatest = outliers.iter().map(|it| it.value.load(Relaxed)).max();
    if greatest.is_some_and(|greatest| value <= greatest) {
        return;
    }
    let least = outliers.iter().min_by_key(|it| it.value.load(Relaxed));
    if let Some(place) = least {
        place.causes.store(causes(), Relaxed);
        place.number.store(number as u32, Relaxed);
        place.value.store(value, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_greatest_are_kept_with_what_came_since_the_cpu_was_idle() {
        let machine = Machine::new();
        let cpu = &machine.cpus[0];
        cpu.count(3, 0);
        assert_eq!(cpu.causes(3, 0), 0);
        assert_eq!(cpu.causes(4, 0), SMI);
        cpu.count(4, 0);
        assert_eq!((cpu.causes(4, 1), cpu.causes(5, 1)), (NMI, SMI | NMI));
        assert_eq!(cpu.smis[0].load(Relaxed), 3);
        let outliers = &machine.outliers[0][1];
        for (number, value) in (1..).zip([100, 90, 110, 105, 120, 130, 140, 150, 160, 170, 180]) {
            note(outliers, value, number, || u32::from(value == 180) * SMI);
        }
        let mut kept: Vec<_> = outliers.iter().map(|it| it.value.load(Relaxed)).collect();
        kept.sort_unstable();
        assert_eq!(kept, [110, 120, 130, 140, 150, 160, 170, 180]);
        let last = outliers.iter().find(|it| it.number.load(Relaxed) == 11);
        assert_eq!(last.unwrap().causes.load(Relaxed), SMI);
    }
}
