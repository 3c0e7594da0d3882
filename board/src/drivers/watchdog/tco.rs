//! The watchdog of Intel's chip sets ("total cost of ownership").
//!
//! Source: Intel ICH9 data sheet (316972), 13.1 (LPC bridge), 13.9 (TCO registers), 10.1.74 (GCS).

use core::ops::Range;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicBool, Ordering::Relaxed};

use bitflags::bitflags;
use takt_kernel::Error;
use takt_kernel::machine::Port;
use volatile::VolatilePtr;

use super::{Watchdog, units};
use crate::pci::Function;

// Of the LPC bridge, in configuration space.
const PM_BASE: u16 = 0x40;
const ROOT_COMPLEX: u16 = 0xf0;

const NR_PORTS: u16 = 0x80;
const ROOT_COMPLEX_SIZE: u32 = 0x4000;

/// In the root complex's registers.
const STRAPS: usize = 0x3410;

/// Behind the ports of power management.
const SMI_ENABLE: u16 = 0x30;
const TCO: u16 = 0x60;

// Behind those of the TCO.
const RELOAD: u16 = 0;
const STATUS_1: u16 = 4;
const STATUS_2: u16 = 6;
const CONTROL_1: u16 = 8;
const TIMER: u16 = 0x12;

bitflags! {
    /// What the straps say.
    #[derive(Clone, Copy)]
    #[repr(transparent)]
    struct Straps: u32 {
        const NO_REBOOT = 1 << 5;
    }

    /// Which events are SMIs.
    struct Smis: u32 {
        const TCO = 1 << 13;
    }

    /// The first status register.
    struct First: u16 {
        const TIMED_OUT = 1 << 3;
    }

    /// The second status register.
    struct Second: u16 {
        /// The second time in a row, and the machine was reset for it.
        const TIMED_OUT = 1 << 1;
    }

    /// The first control register.
    struct Control: u16 {
        const HALTED = 1 << 11;
    }
}

const TICK_NS: u64 = 600_000_000;
/// By the data sheet.
const MIN_TICKS: u32 = 4;
const MAX_TICKS: u32 = 0x3ff;

static IS_TAKEN: AtomicBool = AtomicBool::new(false);

/// The chip set's watchdog: it counts in 1.2 s, from 4.8 s to 20 minutes. Its first stage asks the firmware for help (SMI), which
/// is switched off here; its second resets the machine.
#[derive(Debug)]
pub struct Tco {
    ports: u16,
    straps: VolatilePtr<'static, Straps>,
    has_bitten: bool,
}

/// The ports of power management, the watchdog's among them, and the root complex's registers, of a chip set whose watchdog is
/// known.
pub(crate) fn registers() -> Option<(Range<u16>, Range<u32>)> {
    let bridge = Function::find_class((6, 1, 0))?;
    // ICH6 to ICH10: with the root complex's registers where they are looked for, and ticks of 0.6 s.
    let (
        0x8086,
        0x2640..=0x265f | 0x27b0..=0x27bf | 0x2810..=0x281f | 0x2910..=0x291f | 0x3a10..=0x3a1f,
    ) = bridge.id()
    else {
        return None;
    };
    let ports = (bridge.read(PM_BASE) & 0xff80) as u16;
    let root_complex = bridge.read(ROOT_COMPLEX);
    // Enabled, and where devices are mapped.
    if ports == 0 || root_complex & 1 == 0 || root_complex < 3 << 30 {
        return None;
    }
    let root_complex = root_complex & !(ROOT_COMPLEX_SIZE - 1);
    Some((
        ports..ports.saturating_add(NR_PORTS),
        root_complex..root_complex.saturating_add(ROOT_COMPLEX_SIZE),
    ))
}

impl Tco {
    /// The watchdog, if there is one that nobody has taken yet. It is as it was.
    #[must_use]
    pub fn take() -> Option<Self> {
        let (ports, root_complex) = registers()?;
        if IS_TAKEN.swap(true, Relaxed) {
            return None;
        }
        let straps = NonNull::new((root_complex.start as usize + STRAPS) as *mut Straps)?;
        let mut tco = Self {
            ports: ports.start + TCO,
            // SAFETY: the bridge says that the root complex's registers are there, and they are mapped.
            straps: unsafe { VolatilePtr::new(straps) },
            has_bitten: false,
        };
        let status = Second::from_bits_retain(tco.read(STATUS_2));
        tco.has_bitten = status.contains(Second::TIMED_OUT);
        if tco.has_bitten {
            // Not at the next boot as well.
            tco.write(STATUS_2, Second::TIMED_OUT.bits());
        }
        Some(tco)
    }

    fn read(&self, register: u16) -> u16 {
        // SAFETY: a register of the watchdog.
        unsafe { Port::<u16>::new(self.ports + register).read() }
    }

    fn write(&mut self, register: u16, value: u16) {
        // SAFETY: a register of the watchdog.
        unsafe { Port::<u16>::new(self.ports + register).write(value) };
    }

    fn control(&self) -> Control {
        Control::from_bits_retain(self.read(CONTROL_1))
    }

    /// Says whether it is so then.
    fn set_halted(&mut self, is_halted: bool) -> Result<(), Error> {
        let mut control = self.control();
        control.set(Control::HALTED, is_halted);
        self.write(CONTROL_1, control.bits());
        match self.control().contains(Control::HALTED) == is_halted {
            true => Ok(()),
            false => Err(Error::InvalidState),
        }
    }

    /// No firmware stands between the two stages. One that has locked the register keeps its own.
    fn disable_smi(&self) {
        let mut port = Port::<u32>::new(self.ports - TCO + SMI_ENABLE);
        // SAFETY: which events are SMIs; reading it has no effect.
        let before = Smis::from_bits_retain(unsafe { port.read() });
        // SAFETY: the same register: the other events stay as they are.
        unsafe { port.write((before - Smis::TCO).bits()) };
    }
}

impl Watchdog for Tco {
    fn start(&mut self, timeout_ms: u32) -> Result<u32, Error> {
        let found = units(timeout_ms, TICK_NS, MIN_TICKS, MAX_TICKS);
        let (ticks, ms) = found.ok_or(Error::InvalidArgument)?;
        self.straps.update(|straps| straps - Straps::NO_REBOOT);
        if self.straps.read().contains(Straps::NO_REBOOT) {
            return Err(Error::InvalidState);
        }
        self.disable_smi();
        self.set_halted(true)?;
        let others = self.read(TIMER) & !(MAX_TICKS as u16);
        self.write(TIMER, others | ticks as u16);
        self.write(STATUS_1, First::TIMED_OUT.bits());
        self.feed();
        self.set_halted(false)?;
        Ok(ms)
    }

    fn feed(&mut self) {
        self.write(RELOAD, 1);
        // That it has come to the second stage.
        self.write(STATUS_1, First::TIMED_OUT.bits());
    }

    fn stop(&mut self) -> Result<(), Error> {
        self.set_halted(true)
    }

    fn has_bitten(&self) -> bool {
        self.has_bitten
    }
}
