//! Drivers: devices whose interrupts are handled, behind the traits of embedded-hal and embedded-io. What an image does not
//! use is not linked into it. How one is written: `docs/DRIVER.md`.

pub mod hpet;
pub mod rtc;
pub mod smbus;
pub mod spd;
pub mod speaker;
pub mod uart;
pub mod virtio;
pub mod watchdog;

use core::fmt;

use embedded_io::ErrorKind;

use crate::acpi::Tables;

/// Notes what ACPI says of devices.
pub(crate) fn init(tables: &Tables) {
    rtc::init(tables.century);
    hpet::init(tables.hpet);
}

/// Why the kernel did not let a driver do what it was asked to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Error(pub takt_kernel::Error);

impl From<takt_kernel::Error> for Error {
    fn from(error: takt_kernel::Error) -> Self {
        Self(error)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the kernel said {:?}", self.0)
    }
}

impl core::error::Error for Error {}

impl embedded_io::Error for Error {
    fn kind(&self) -> ErrorKind {
        match self.0 {
            takt_kernel::Error::TimedOut => ErrorKind::TimedOut,
            takt_kernel::Error::InvalidArgument => ErrorKind::InvalidInput,
            _ => ErrorKind::Other,
        }
    }
}
