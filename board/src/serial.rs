//! The serial port COM1: an 8250-compatible UART, polled.
//!
//! Source: National Semiconductor PC16550D data sheet, 8.0.

use core::convert::Infallible;

use embedded_io::{ErrorType, Read, ReadReady, Write, WriteReady};
use takt_kernel::arch::port::Port;

use crate::capture;

const COM1: u16 = 0x3f8;
const DATA: u16 = 0;
const INTERRUPTS: u16 = 1;
const FIFO: u16 = 2;
const LINE_CONTROL: u16 = 3;
const MODEM_CONTROL: u16 = 4;
const LINE_STATUS: u16 = 5;

const DIVISOR_LATCH: u8 = 1 << 7;
const EIGHT_BITS: u8 = 3;
/// Of the line's status: a byte has come.
pub(crate) const DATA_READY: u8 = 1 << 0;
/// Of the line's status: as many bytes can be sent as the FIFO has room for.
pub(crate) const TRANSMIT_EMPTY: u8 = 1 << 5;
/// Of the interrupt's identification: there is a FIFO, and it is on.
const HAS_FIFO: u8 = 3 << 6;
/// Bytes of a 16550's FIFO.
const FIFO_LEN: usize = 16;

/// How long a byte is waited for before it is given up, in polls: a UART that is not there must not hang the machine.
const PATIENCE: u32 = 100_000;

/// A UART. Values of this type do not exclude each other: the registers are single bytes, so the worst that two can
/// do is to mix their bytes.
#[derive(Debug)]
pub struct Serial {
    base: u16,
}

impl Serial {
    /// COM1 at 115,200 baud, 8N1; as it is if the capture goes over it.
    #[must_use]
    pub fn com1() -> Self {
        let serial = Self { base: COM1 };
        if !capture::has_port() {
            serial.set_divisor(1);
        }
        serial
    }

    /// Sets the port up, 8N1, with its input clock divided by 16 and that. Says how many bytes it takes when it is empty.
    pub(crate) fn set_divisor(&self, divisor: u16) -> usize {
        let [low, high] = divisor.to_le_bytes();
        self.write_register(INTERRUPTS, 0);
        self.write_register(LINE_CONTROL, DIVISOR_LATCH);
        self.write_register(DATA, low);
        self.write_register(INTERRUPTS, high);
        self.write_register(LINE_CONTROL, EIGHT_BITS);
        self.write_register(FIFO, 0x07);
        self.write_register(MODEM_CONTROL, 0x03);
        match self.read_register(FIFO) & HAS_FIFO {
            HAS_FIFO => FIFO_LEN,
            _ => 1,
        }
    }

    /// The line's status: [`DATA_READY`], [`TRANSMIT_EMPTY`].
    pub(crate) fn line_status(&self) -> u8 {
        self.read_register(LINE_STATUS)
    }

    /// Sends a byte, for which there is room.
    pub(crate) fn put(&self, byte: u8) {
        self.write_register(DATA, byte);
    }

    /// The byte that has come.
    pub(crate) fn take(&self) -> u8 {
        self.read_register(DATA)
    }

    /// COM1 as it was set up before, for emergencies.
    pub(crate) const fn com1_as_is() -> Self {
        Self { base: COM1 }
    }

    fn write_register(&self, register: u16, value: u8) {
        // SAFETY: the port belongs to the UART.
        unsafe { Port::<u8>::new(self.base + register).write(value) };
    }

    fn read_register(&self, register: u16) -> u8 {
        // SAFETY: the port belongs to the UART.
        unsafe { Port::<u8>::new(self.base + register).read() }
    }

    /// Writes all bytes; gives up on those that the UART does not take.
    pub fn write_bytes(&self, bytes: &[u8]) {
        for &byte in bytes {
            let mut left = PATIENCE;
            while self.read_register(LINE_STATUS) & TRANSMIT_EMPTY == 0 && left > 0 {
                left -= 1;
                core::hint::spin_loop();
            }
            self.write_register(DATA, byte);
        }
    }
}

impl ErrorType for Serial {
    type Error = Infallible;
}

impl Write for Serial {
    /// Into the log if the capture goes over the port.
    fn write(&mut self, bytes: &[u8]) -> Result<usize, Infallible> {
        match capture::has_port() {
            true => capture::text(bytes),
            false => self.write_bytes(bytes),
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> Result<(), Infallible> {
        Ok(())
    }
}

impl WriteReady for Serial {
    fn write_ready(&mut self) -> Result<bool, Infallible> {
        Ok(self.read_register(LINE_STATUS) & TRANSMIT_EMPTY != 0)
    }
}

impl Read for Serial {
    /// Waits for the first byte and takes what is there.
    fn read(&mut self, bytes: &mut [u8]) -> Result<usize, Infallible> {
        if bytes.is_empty() {
            return Ok(0);
        }
        while !self.read_ready()? {
            if takt_kernel::time::sleep_nanos(100_000).is_err() {
                core::hint::spin_loop();
            }
        }
        let mut nr = 0;
        for byte in bytes {
            if !self.read_ready()? {
                break;
            }
            *byte = self.read_register(DATA);
            nr += 1;
        }
        Ok(nr)
    }
}

impl ReadReady for Serial {
    fn read_ready(&mut self) -> Result<bool, Infallible> {
        Ok(self.read_register(LINE_STATUS) & DATA_READY != 0)
    }
}
