//! The registers of an 8250-compatible UART, for whoever drives it.
//!
//! Source: National Semiconductor PC16550D data sheet, 8.0.

use bitflags::bitflags;
use takt_kernel::machine::Port;

pub(crate) const DATA: u16 = 0;
const INTERRUPTS: u16 = 1;
/// Read: which interrupt; written: the FIFOs' control.
pub(crate) const CAUSE: u16 = 2;
const LINE_CONTROL: u16 = 3;
const MODEM_CONTROL: u16 = 4;
const LINE_STATUS: u16 = 5;
const MODEM_STATUS: u16 = 6;
pub(crate) const SCRATCH: u16 = 7;

bitflags! {
    /// The line's control register.
    struct LineControl: u8 {
        const EIGHT_BITS = 3;
        /// The first two registers are the divisor's.
        const DIVISOR_LATCH = 1 << 7;
    }

    /// The FIFOs' control register.
    pub(crate) struct Fifos: u8 {
        /// On and emptied, an interrupt for each byte.
        const ON = 0x07;
        /// An interrupt from 8 bytes on, or when no more come.
        const EIGHT_BYTES = 0x80;
    }

    /// The line's status register.
    #[derive(Clone, Copy)]
    pub(crate) struct LineStatus: u8 {
        /// A byte has come.
        const DATA_READY = 1 << 0;
        const OVERRUN = 1 << 1;
        const PARITY = 1 << 2;
        const FRAMING = 1 << 3;
        const BREAK = 1 << 4;
        /// As many bytes can be sent as the FIFO has room for.
        const TRANSMIT_EMPTY = 1 << 5;
        /// The last bit has gone out.
        const IDLE = 1 << 6;
    }

    /// The modem's control register.
    pub(crate) struct ModemControl: u8 {
        const DTR = 1 << 0;
        const RTS = 1 << 1;
        /// The interrupt's line is led to the outside of the UART.
        const OUT2 = 1 << 3;
        const LOOPBACK = 1 << 4;
    }

    /// The modem's status register.
    pub(crate) struct ModemStatus: u8 {
        const CTS = 1 << 4;
        const DSR = 1 << 5;
        const RI = 1 << 6;
        const DCD = 1 << 7;
    }

    /// The interrupt enable register.
    #[derive(Clone, Copy)]
    pub(crate) struct Interrupts: u8 {
        /// A byte was received, or something is wrong with one.
        const RECEIVED = 1 << 0 | 1 << 2;
        /// The transmitter takes bytes.
        const ROOM = 1 << 1;
    }
}

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

    pub(crate) fn line_status(&self) -> LineStatus {
        LineStatus::from_bits_retain(self.read(LINE_STATUS))
    }

    pub(crate) fn modem_status(&self) -> ModemStatus {
        ModemStatus::from_bits_retain(self.read(MODEM_STATUS))
    }

    pub(crate) fn control_modem(&self, signals: ModemControl) {
        self.write(MODEM_CONTROL, signals.bits());
    }

    pub(crate) fn enable(&self, interrupts: Interrupts) {
        self.write(INTERRUPTS, interrupts.bits());
    }

    /// Sets it up, 8N1, without interrupts, with its input clock divided by 16 and that, and its FIFOs. Says how many bytes it
    /// takes when it is empty.
    pub(crate) fn set_divisor(&self, divisor: u16, fifos: Fifos) -> usize {
        let [low, high] = divisor.to_le_bytes();
        self.enable(Interrupts::empty());
        self.write(LINE_CONTROL, LineControl::DIVISOR_LATCH.bits());
        self.write(DATA, low);
        self.write(INTERRUPTS, high);
        self.write(LINE_CONTROL, LineControl::EIGHT_BITS.bits());
        self.write(CAUSE, fifos.bits());
        self.control_modem(ModemControl::DTR | ModemControl::RTS);
        match self.read(CAUSE) & HAS_FIFO {
            HAS_FIFO => FIFO_LEN,
            _ => 1,
        }
    }
}
