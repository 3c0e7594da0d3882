//! The high precision event timer, as a reference for measuring frequencies.
//!
//! Source: IA-PC HPET specification 1.0a, 2.3.

use core::ptr::NonNull;

use takt_kernel::time::Nanos;
use volatile::VolatilePtr;

/// An HPET that counts.
pub(crate) struct Hpet {
    base: usize,
    /// Femtoseconds per count.
    period_fs: u64,
}

impl Hpet {
    /// The HPET at this address, set counting; `None` if its period makes no sense.
    ///
    /// # Safety
    /// An HPET's registers are mapped there.
    pub(crate) unsafe fn new(base: usize) -> Option<Self> {
        let hpet = Self { base, period_fs: 0 };
        let period_fs = hpet.register(0).read() >> 32;
        if period_fs == 0 || period_fs > 100_000_000 {
            return None;
        }
        let configuration = hpet.register(0x10);
        configuration.write(configuration.read() | 1);
        Some(Self { base, period_fs })
    }

    fn register(&self, offset: usize) -> VolatilePtr<'_, u64> {
        let address = NonNull::new((self.base + offset) as *mut u64).unwrap_or(NonNull::dangling());
        // SAFETY: the registers are mapped, by the promise made to `new`.
        unsafe { VolatilePtr::new(address) }
    }

    /// Femtoseconds per count.
    pub(crate) fn period_fs(&self) -> u64 {
        self.period_fs
    }

    /// Bits of the counter.
    pub(crate) fn bits(&self) -> u32 {
        const IS_64_BITS: u64 = 1 << 13;
        match self.register(0).read() & IS_64_BITS {
            0 => 32,
            _ => 64,
        }
    }

    /// The counter.
    pub(crate) fn count(&self) -> u64 {
        self.register(0xf0).read()
    }

    /// How long so many counts last.
    pub(crate) fn time(&self, counts: u64) -> Nanos {
        Nanos::new((u128::from(counts) * u128::from(self.period_fs) / 1_000_000) as u64)
    }
}
