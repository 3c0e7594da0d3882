//! The serial port COM1: an 8250-compatible UART, polled.
//!
//! Source: National Semiconductor PC16550D data sheet, 8.0.

use core::convert::Infallible;

use embedded_io::{ErrorType, Read, ReadReady, Write, WriteReady};

#[cfg(feature = "devices")]
use crate::capture;
use crate::uart::{DATA, Fifos, LineStatus, Registers};

/// How long a byte is waited for before it is given up, in polls: a UART that is not there must not hang the machine.
const PATIENCE: u32 = 100_000;

/// A UART. Values of this type do not exclude each other, nor a [driver](crate::drivers::uart) that has opened the port: they reach
/// for its data and its status only. Two mix their bytes, and each may take what was sent to the other, an error's mark too; a byte that is
/// sent while a driver opens the port may become its speed.
#[derive(Debug)]
pub struct Serial(Registers);

impl Serial {
    /// COM1 as it was set up last: by the boot at 115,200 baud, 8N1, or by whoever has opened it since.
    #[must_use]
    pub const fn com1() -> Self {
        Self(Registers::COM1)
    }

    /// Sets the port up, 8N1, with its input clock divided by 16 and that. Says how many bytes it takes when it is empty.
    pub(crate) fn set_divisor(&self, divisor: u16) -> usize {
        self.0.set_divisor(divisor, Fifos::ON)
    }

    /// Whether a byte has come.
    pub(crate) fn has_data(&self) -> bool {
        self.0.line_status().contains(LineStatus::DATA_READY)
    }

    /// Whether bytes can be sent.
    pub(crate) fn has_room(&self) -> bool {
        self.0.line_status().contains(LineStatus::TRANSMIT_EMPTY)
    }

    /// Sends a byte, for which there is room.
    pub(crate) fn put(&self, byte: u8) {
        self.0.write(DATA, byte);
    }

    /// The byte that has come.
    pub(crate) fn take(&self) -> u8 {
        self.0.read(DATA)
    }

    /// Writes all bytes; gives up on those that the UART does not take.
    pub fn write_bytes(&self, bytes: &[u8]) {
        for &byte in bytes {
            let mut left = PATIENCE;
            while !self.has_room() && left > 0 {
                left -= 1;
                core::hint::spin_loop();
            }
            self.0.write(DATA, byte);
        }
    }
}

/// Whether the capture goes over the port.
fn is_captures() -> bool {
    #[cfg(feature = "devices")]
    return capture::has_port();
    #[cfg(not(feature = "devices"))]
    false
}

impl ErrorType for Serial {
    type Error = Infallible;
}

impl Write for Serial {
    /// Into the log if the capture goes over the port.
    fn write(&mut self, bytes: &[u8]) -> Result<usize, Infallible> {
        #[cfg(feature = "devices")]
        if is_captures() {
            capture::text(bytes);
            return Ok(bytes.len());
        }
        self.write_bytes(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> Result<(), Infallible> {
        Ok(())
    }
}

impl WriteReady for Serial {
    fn write_ready(&mut self) -> Result<bool, Infallible> {
        Ok(self.has_room())
    }
}

impl Read for Serial {
    /// Waits for the first byte and takes what is there.
    fn read(&mut self, bytes: &mut [u8]) -> Result<usize, Infallible> {
        if bytes.is_empty() {
            return Ok(0);
        }
        while !self.read_ready()? {
            if takt_kernel::time::sleep(takt_kernel::time::Nanos::from_micros(100)).is_err() {
                core::hint::spin_loop();
            }
        }
        let mut nr = 0;
        for byte in bytes {
            if !self.read_ready()? {
                break;
            }
            *byte = self.0.read(DATA);
            nr += 1;
        }
        Ok(nr)
    }
}

impl ReadReady for Serial {
    fn read_ready(&mut self) -> Result<bool, Infallible> {
        Ok(self.has_data())
    }
}
