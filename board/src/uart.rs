//! The registers of an 8250-compatible UART, for whoever drives it.
//!
//! Source: National Semiconductor PC16550D data sheet, 8.0.

use takt_kernel::machine::Port;

pub(crate) const DATA: u16 = 0;
pub(crate) const INTERRUPTS: u16 = 1;
/// Read: which interrupt; written: the FIFOs' control.
pub(crate) const CAUSE: u16 = 2;
const LINE_CONTROL: u16 = 3;
pub(crate) const MODEM_CONTROL: u16 = 4;
pub(crate) const LINE_STATUS: u16 = 5;
pub(crate) const MODEM_STATUS: u16 = 6;
pub(crate) const SCRATCH: u16 = 7;

const DIVISOR_LATCH: u8 = 1 << 7;
const EIGHT_BITS: u8 = 3;

/// Of the line's status: a byte has come.
pub(crate) const DATA_READY: u8 = 1 << 0;
/// Of the line's status: as many bytes can be sent as the FIFO has room for.
pub(crate) const TRANSMIT_EMPTY: u8 = 1 << 5;

/// FIFOs on and emptied, an interrupt for each byte.
pub(crate) const FIFOS: u8 = 0x07;
/// Of the FIFOs' control besides: an interrupt from 8 bytes on, or when no more come.
pub(crate) const EIGHT_BYTES: u8 = 0x80;
/// Of the interrupt's identification: there is a FIFO, and it is on. An 8250 has none.
const HAS_FIFO: u8 = 3 << 6;
/// Bytes of a 16550's FIFO.
const FIFO_LEN: usize = 16;

/// The ports of a UART, or of nothing.
#[derive(Debug)]
pub(crate) struct Registers {
    base: u16,
}

impl Registers {
    pub(crate) const COM1: Self = Self { base: 0x3f8 };
    pub(crate) const COM2: Self = Self { base: 0x2f8 };

    /// # Safety
    /// A UART, or nothing, has the eight ports from `base` on.
    pub(crate) const unsafe fn at(base: u16) -> Self {
        Self { base }
    }

    /// Whether they are COM1's, which the image's own capture or console may have taken.
    pub(crate) const fn is_com1(&self) -> bool {
        self.base == Self::COM1.base
    }

    #[inline(always)]
    pub(crate) fn write(&self, register: u16, value: u8) {
        // SAFETY: the port belongs to the UART: that of a PC's two, or by the promise made to `at`.
        unsafe { Port::<u8>::new(self.base + register).write(value) };
    }

    #[inline(always)]
    pub(crate) fn read(&self, register: u16) -> u8 {
        // SAFETY: a port of the UART, as in `write`, and reading one takes a byte at most.
        unsafe { Port::<u8>::new(self.base + register).read() }
    }

    /// Sets it up, 8N1, without interrupts, with its input clock divided by 16 and that, and its FIFOs. Says how many bytes it
    /// takes when it is empty.
    pub(crate) fn set_divisor(&self, divisor: u16, fifos: u8) -> usize {
        let [low, high] = divisor.to_le_bytes();
        self.write(INTERRUPTS, 0);
        self.write(LINE_CONTROL, DIVISOR_LATCH);
        self.write(DATA, low);
        self.write(INTERRUPTS, high);
        self.write(LINE_CONTROL, EIGHT_BITS);
        self.write(CAUSE, fifos);
        self.write(MODEM_CONTROL, 0x03);
        match self.read(CAUSE) & HAS_FIFO {
            HAS_FIFO => FIFO_LEN,
            _ => 1,
        }
    }
}
