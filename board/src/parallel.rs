//! The parallel port's data pins as outputs: eight signals for an oscilloscope.
//!
//! Setting a pin is one change of a shadow and one port write with interrupts off, so a trigger is exact to some
//! instructions, and pins may be set by threads, interrupt handlers and other CPUs at once. Not by an NMI.
//!
//! Source: IEEE Std 1284-1994, compatibility mode; register layout of the PC parallel port (data at base).

use core::convert::Infallible;

use embedded_hal::digital::{ErrorType, OutputPin, StatefulOutputPin};
use takt_kernel::machine::Port;

use crate::lock::IrqLock;

const LPT1: u16 = 0x378;

/// What the data register holds, since reading it back is not possible on every port.
static DATA: IrqLock<u8> = IrqLock::new(0);

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

    /// Changes the register; shadow and port together, or an older value could be written last.
    fn change(&self, change: impl FnOnce(u8) -> u8) {
        DATA.with(|data| {
            *data = change(*data);
            // SAFETY: the port belongs to LPT1 or to nothing.
            unsafe { Port::<u8>::new(LPT1).write(*data) };
        });
    }

    fn is_high(&self) -> bool {
        DATA.with(|data| *data & self.mask != 0)
    }
}

impl ErrorType for Pin {
    type Error = Infallible;
}

impl OutputPin for Pin {
    fn set_low(&mut self) -> Result<(), Infallible> {
        self.change(|data| data & !self.mask);
        Ok(())
    }

    fn set_high(&mut self) -> Result<(), Infallible> {
        self.change(|data| data | self.mask);
        Ok(())
    }
}

impl StatefulOutputPin for Pin {
    fn is_set_high(&mut self) -> Result<bool, Infallible> {
        Ok(self.is_high())
    }

    fn is_set_low(&mut self) -> Result<bool, Infallible> {
        Ok(!self.is_high())
    }
}
