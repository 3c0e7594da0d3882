//! The watchdog of Intel's 6300ESB, a function of PCI.
//!
//! Source: Intel 6300ESB I/O controller hub data sheet (300641), chapter 15.

use core::ptr::NonNull;
use core::sync::atomic::{AtomicBool, Ordering::Relaxed};

use bitflags::bitflags;
use takt_kernel::Error;
use volatile::VolatilePtr;

use super::{Watchdog, units};
use crate::pci::Function;

// In configuration space.
const CONFIGURATION: u16 = 0x60;
const LOCK: u16 = 0x68;

/// Neither an interrupt nor an SMI at the end of the first stage.
const NO_INTERRUPT: u16 = 3;

bitflags! {
    /// The lock's register.
    #[derive(Clone, Copy, PartialEq, Eq)]
    struct Lock: u8 {
        const LOCKED = 1 << 0;
        const ENABLED = 1 << 1;
    }

    /// The reload's register.
    #[derive(Clone, Copy)]
    #[repr(transparent)]
    struct Reload: u16 {
        const FED = 1 << 8;
        const HAS_BITTEN = 1 << 9;
    }
}

// In memory.
const STAGE_1: usize = 0;
const STAGE_2: usize = 4;
const RELOAD: usize = 0xc;

/// 2^15 cycles of PCI's 33 MHz.
const UNIT_NS: u64 = 992_969;
const MAX_UNITS: u32 = 0xf_ffff;

static IS_TAKEN: AtomicBool = AtomicBool::new(false);

/// The 6300ESB's watchdog: it counts in 2 ms, up to 34 minutes. Nothing happens between its two stages; then it resets the machine.
#[derive(Debug)]
pub struct I6300esb {
    function: Function,
    base: usize,
    has_bitten: bool,
}

impl I6300esb {
    /// The watchdog, if there is one that nobody has taken yet. It is as it was.
    #[must_use]
    pub fn take() -> Option<Self> {
        let function = Function::find(0x8086, 0x25ab)?;
        let base = function.enable_memory(0)?;
        if IS_TAKEN.swap(true, Relaxed) {
            return None;
        }
        let mut watchdog = Self {
            function,
            base,
            has_bitten: false,
        };
        watchdog.has_bitten = watchdog
            .register::<Reload>(RELOAD)
            .read()
            .contains(Reload::HAS_BITTEN);
        if watchdog.has_bitten {
            // Not at the next boot as well.
            watchdog.write(RELOAD, Reload::HAS_BITTEN);
        }
        Some(watchdog)
    }

    fn register<T: Copy>(&self, offset: usize) -> VolatilePtr<'static, T> {
        let at = NonNull::new((self.base + offset) as *mut T).unwrap_or(NonNull::dangling());
        // SAFETY: a register in memory that is mapped.
        unsafe { VolatilePtr::new(at) }
    }

    /// Each write is announced by two others, so that no program that has gone wild makes one.
    fn write<T: Copy + 'static>(&mut self, offset: usize, value: T) {
        for key in [0x80, 0x86] {
            self.register::<u16>(RELOAD).write(key);
        }
        self.register(offset).write(value);
    }

    /// Says whether it is so then.
    fn enable(&mut self, enable: Lock) -> Result<(), Error> {
        // SAFETY: whether the watchdog counts; it accesses no memory.
        unsafe { self.function.write_as(LOCK, enable.bits()) };
        match Lock::from_bits_truncate(self.function.read_as(LOCK)) == enable {
            true => Ok(()),
            false => Err(Error::InvalidState),
        }
    }
}

impl Watchdog for I6300esb {
    fn start(&mut self, timeout_ms: u32) -> Result<u32, Error> {
        let found = units(timeout_ms, UNIT_NS, 1, MAX_UNITS);
        let (stage, ms) = found.ok_or(Error::InvalidArgument)?;
        self.enable(Lock::empty())?;
        // SAFETY: what the watchdog does at the end of a stage.
        unsafe { self.function.write_as(CONFIGURATION, NO_INTERRUPT) };
        self.write(STAGE_1, stage);
        self.write(STAGE_2, stage);
        self.enable(Lock::ENABLED)?;
        self.feed();
        Ok(ms)
    }

    fn feed(&mut self) {
        self.write(RELOAD, Reload::FED);
    }

    fn stop(&mut self) -> Result<(), Error> {
        self.enable(Lock::empty())
    }

    fn has_bitten(&self) -> bool {
        self.has_bitten
    }
}
