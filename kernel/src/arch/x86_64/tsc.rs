//! The time stamp counter: the clock of everything.

use core::arch::x86_64::{__cpuid, __cpuid_count, _rdtsc};

/// Reads the time stamp counter, in cycles.
///
/// # Context
/// Any.
#[inline(always)]
#[must_use]
pub(crate) fn now() -> u64 {
    // SAFETY: RDTSC is always there in long mode, and CR4.TSD is never set.
    unsafe { _rdtsc() }
}

/// What this CPU says of its time stamp counter. Each is asked by itself.
#[derive(Clone, Copy, Debug)]
pub struct Facts;

impl Facts {
    /// Its frequency in Hz, from CPUID leaf 15h (with the crystal of leaf 15h, or derived from leaf 16h), if given.
    #[must_use]
    pub fn hz() -> Option<u64> {
        if __cpuid(0).eax < 0x15 {
            return None;
        }
        let leaf = __cpuid_count(0x15, 0);
        if leaf.eax == 0 || leaf.ebx == 0 {
            return None;
        }
        if leaf.ecx != 0 {
            return Some(u64::from(leaf.ecx) * u64::from(leaf.ebx) / u64::from(leaf.eax));
        }
        let mhz = if __cpuid(0).eax >= 0x16 {
            __cpuid(0x16).eax & 0xffff
        } else {
            0
        };
        (mhz != 0).then(|| u64::from(mhz) * 1_000_000)
    }

    /// Whether it runs at a constant rate in all power states (CPUID 8000_0007h EDX bit 8).
    #[must_use]
    pub fn is_invariant() -> bool {
        __cpuid(0x8000_0000).eax >= 0x8000_0007 && __cpuid(0x8000_0007).edx & (1 << 8) != 0
    }

    /// Whether the local APIC's timer can be set to one of its values (CPUID 1 ECX bit 24), and then is.
    #[must_use]
    pub fn has_deadline_timer() -> bool {
        __cpuid(1).ecx & (1 << 24) != 0
    }
}
