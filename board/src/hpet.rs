//! The high precision event timer, as a reference for measuring frequencies.
//!
//! Source: IA-PC HPET specification 1.0a, 2.3.

use core::ptr::NonNull;

use bitflags::bitflags;
use takt_kernel::time::Nanos;
use volatile::VolatilePtr;

/// Offsets of its registers.
pub(crate) const CAPABILITIES: usize = 0;
pub(crate) const CONFIGURATION: usize = 0x10;
pub(crate) const COUNTER: usize = 0xf0;

bitflags! {
    /// The lower half of the capabilities' register.
    #[derive(Clone, Copy)]
    #[repr(transparent)]
    struct Capabilities: u32 {
        /// Else its counter has 32 bits.
        const IS_64_BITS = 1 << 13;
    }

    /// The lower half of the configuration's register.
    #[derive(Clone, Copy)]
    #[repr(transparent)]
    pub(crate) struct Configuration: u32 {
        /// The counter counts.
        const ENABLE = 1 << 0;
        /// Comparators 0 and 1 have the interrupts of the interval timer and of the real-time clock.
        const LEGACY = 1 << 1;
    }
}

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
        let period_fs = hpet.register::<u64>(CAPABILITIES).read() >> 32;
        if period_fs == 0 || period_fs > 100_000_000 {
            return None;
        }
        let configuration = hpet.register::<Configuration>(CONFIGURATION);
        // Not where it counts: the driver of its timers may be changing the others of these bits.
        if !configuration.read().contains(Configuration::ENABLE) {
            configuration.update(|before| before | Configuration::ENABLE);
        }
        Some(Self { base, period_fs })
    }

    fn register<T>(&self, offset: usize) -> VolatilePtr<'_, T> {
        let address = NonNull::new((self.base + offset) as *mut T).unwrap_or(NonNull::dangling());
        // SAFETY: the registers are mapped, by the promise made to `new`.
        unsafe { VolatilePtr::new(address) }
    }

    /// Femtoseconds per count.
    pub(crate) fn period_fs(&self) -> u64 {
        self.period_fs
    }

    /// Bits of the counter.
    pub(crate) fn bits(&self) -> u32 {
        let capabilities = self.register::<Capabilities>(CAPABILITIES).read();
        match capabilities.contains(Capabilities::IS_64_BITS) {
            false => 32,
            true => 64,
        }
    }

    /// The counter.
    pub(crate) fn count(&self) -> u64 {
        self.register(COUNTER).read()
    }

    /// How long so many counts last.
    pub(crate) fn time(&self, counts: u64) -> Nanos {
        Nanos::new((u128::from(counts) * u128::from(self.period_fs) / 1_000_000) as u64)
    }
}
