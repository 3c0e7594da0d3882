//! The parallel port's data pins as outputs: eight signals for an oscilloscope.
//!
//! Setting a pin is one read of a shadow and one port write, so a trigger is exact to some instructions.
//!
//! Source: IEEE Std 1284-1994, compatibility mode; register layout of the PC parallel port (data at base).

use core::convert::Infallible;
use core::sync::atomic::{AtomicU8, Ordering::Relaxed};

use embedded_hal::digital::{ErrorType, OutputPin, StatefulOutputPin};
use takt_kernel::arch::port::Port;

const LPT1: u16 = 0x378;

/// What the data register holds, since reading it back is not possible on every port.
static DATA: AtomicU8 = AtomicU8::new(0);

/// One data pin, D0 to D7 (pins 2 to 9 of the connector).
#[derive(Debug)]
pub struct Pin {
    mask: u8,
}

impl Pin {
    /// Data pin `number`.
    #[must_use]
    pub const fn new(number: u8) -> Option<Self> {
        if number < 8 {
            Some(Self { mask: 1 << number })
        } else {
            None
        }
    }

    fn write(&self, data: u8) {
        // SAFETY: the port belongs to LPT1 or to nothing.
        unsafe { Port::<u8>::new(LPT1).write(data) };
    }
}

impl ErrorType for Pin {
    type Error = Infallible;
}

impl OutputPin for Pin {
    fn set_low(&mut self) -> Result<(), Infallible> {
        let data = DATA.fetch_and(!self.mask, Relaxed) & !self.mask;
        self.write(data);
        Ok(())
    }

    fn set_high(&mut self) -> Result<(), Infallible> {
        let data = DATA.fetch_or(self.mask, Relaxed) | self.mask;
        self.write(data);
        Ok(())
    }
}

impl StatefulOutputPin for Pin {
    fn is_set_high(&mut self) -> Result<bool, Infallible> {
        Ok(DATA.load(Relaxed) & self.mask != 0)
    }

    fn is_set_low(&mut self) -> Result<bool, Infallible> {
        Ok(DATA.load(Relaxed) & self.mask == 0)
    }
}
