//! The SMBus of Intel's chip sets from the ICH5 on, as an I2C bus.
//!
//! An SMBus controller does not send and receive at will: it knows a few transactions. Those that are I2C's are these; whatever
//! else is asked for is [`Error::Unsupported`], and nothing of it has been sent.
//!
//! | bytes written | then read | transaction |
//! |---|---|---|
//! | 0 | 0 | quick command: is anyone there? |
//! | 0 | 1 | receive byte |
//! | 1 | 0 | send byte |
//! | 2 | 0 | write byte |
//! | 3 to 33 | 0 | block write in I2C's format |
//! | 1 | 1 | read byte |
//! | 1 | more | I2C read |
//!
//! On a PC the memory modules are on this bus: at 0x50 to 0x57 is what the firmware knows of them, at 0x48 to 0x4f the voltage
//! regulators and at 0x58 to 0x5f the clock drivers of DDR5's, and at 0x30 to 0x37 they take commands, write protection among them.
//! A module whose data is overwritten keeps the PC from booting, and a regulator can destroy it. So on a machine that is no
//! hypervisor's, anything for the last and data for the others is [`Error::MemoryModule`], and nothing of it has been sent;
//! reading the others is possible. A bus without modules is taken by [`SmBus::take_without_modules`].
//!
//! The bus is 100 kHz fast, 90 us a byte; the calling thread sleeps meanwhile.
//!
//! Source: Intel ICH9 data sheet (316972), 5.20 and 19.2; SMBus specification 2.0, 5.5; JEDEC JESD300-5 (SPD5118), JESD301-1
//! (PMIC50x0), JESD82-511 (DDR5RCD01).

mod request;

use core::fmt;
use core::sync::atomic::{AtomicBool, Ordering::Relaxed};

use bitflags::bitflags;
use embedded_hal::delay::DelayNs;
use embedded_hal::i2c::{ErrorKind, ErrorType, I2c, NoAcknowledgeSource, Operation};
use takt_kernel::machine::Port;
use takt_kernel::time::{Delay, Instant, Nanos};

use crate::machine;
use crate::pci::Function;
use request::{Protocol, Request};

const STATUS: u16 = 0;
const CONTROL: u16 = 2;
const COMMAND: u16 = 3;
const ADDRESS: u16 = 4;
const DATA0: u16 = 5;
const DATA1: u16 = 6;
const BLOCK: u16 = 7;
const AUXILIARY_CONTROL: u16 = 0xd;

bitflags! {
    /// The status register.
    #[derive(Clone, Copy, PartialEq, Eq)]
    struct Status: u8 {
        const BUSY = 1 << 0;
        const DONE = 1 << 1;
        const DEVICE_ERROR = 1 << 2;
        const COLLISION = 1 << 3;
        const FAILED = 1 << 4;
        const IN_USE = 1 << 6;
        const BYTE_DONE = 1 << 7;
        /// All that are cleared by writing them.
        const ENDED = 1 << 1 | 1 << 2 | 1 << 3 | 1 << 4 | 1 << 7;
    }

    /// The control register.
    #[derive(Clone, Copy)]
    struct Control: u8 {
        const KILL = 1 << 1;
        const LAST_BYTE = 1 << 5;
        const START = 1 << 6;
    }

    /// The host configuration's register.
    struct Configuration: u32 {
        const ENABLE = 1 << 0;
        /// Blocks go out as they are, without their length.
        const I2C_FORMAT = 1 << 2;
    }
}

// In configuration space.
const HOST_CONFIGURATION: u16 = 0x40;

/// The longest that a device may hold the clock is 25 ms.
const PATIENCE: Nanos = Nanos::from_millis(50);
const POLL_US: u32 = 50;

/// Why a transaction did not come about.
#[derive(Clone, Copy, PartialEq, Eq, Debug, defmt::Format)]
pub enum Error {
    /// It is none of those that an SMBus controller knows.
    Unsupported,
    /// It would change what a memory module says of itself.
    MemoryModule,
    /// Nobody answers at this address, or the device refused a byte: the controller does not tell.
    NoAcknowledge,
    /// Another master was faster.
    ArbitrationLoss,
    /// Another agent, the firmware for example, has been using the controller for 50 ms.
    InUse,
    /// No end came for 50 ms; it was killed.
    TimedOut,
    /// It was killed by another agent.
    Killed,
}

impl embedded_hal::i2c::Error for Error {
    fn kind(&self) -> ErrorKind {
        match self {
            Self::NoAcknowledge => ErrorKind::NoAcknowledge(NoAcknowledgeSource::Unknown),
            Self::ArbitrationLoss => ErrorKind::ArbitrationLoss,
            Self::TimedOut => ErrorKind::Bus,
            Self::Unsupported | Self::MemoryModule | Self::InUse | Self::Killed => ErrorKind::Other,
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Unsupported => "no SMBus controller can do this transaction",
            Self::MemoryModule => "the address is a memory module's, which must not be changed",
            Self::NoAcknowledge => "the device does not answer, or refuses a byte",
            Self::ArbitrationLoss => "another master was faster",
            Self::InUse => "another agent uses the controller",
            Self::TimedOut => "the transaction did not end in 50 ms",
            Self::Killed => "another agent ended the transaction",
        })
    }
}

impl core::error::Error for Error {}

static IS_TAKEN: AtomicBool = AtomicBool::new(false);

/// The controller. There is one; devices share it by the `embedded-hal-bus` crate.
#[derive(Debug)]
pub struct SmBus {
    function: Function,
    ports: u16,
    /// Memory modules may be there.
    has_modules: bool,
}

/// Takes the controller's semaphore: whoever reads its bit as 0 has it, since the bit reads as 1 from then on, until a 1 is
/// written to it. Until `wait` says that it was long enough.
fn claim(mut status: impl FnMut() -> Status, mut wait: impl FnMut() -> bool) -> Result<(), Error> {
    while status().contains(Status::IN_USE) {
        if !wait() {
            return Err(Error::InUse);
        }
    }
    Ok(())
}

impl SmBus {
    /// The controller, if there is one that nobody has taken yet. Memory modules are protected unless a hypervisor says that
    /// it is there.
    #[must_use]
    pub fn take() -> Option<Self> {
        Self::take_with(!machine::has_hypervisor())
    }

    /// The same with nothing protected.
    ///
    /// # Safety
    /// No memory module is on the bus: one that is written to may keep the machine from ever booting again.
    #[must_use]
    pub unsafe fn take_without_modules() -> Option<Self> {
        Self::take_with(false)
    }

    fn take_with(has_modules: bool) -> Option<Self> {
        let function = Function::find_class((0x0c, 0x05, 0x00)).filter(|it| it.id().0 == 0x8086)?;
        let ports = function.enable_ports(4)?;
        if IS_TAKEN.swap(true, Relaxed) {
            return None;
        }
        let bus = Self {
            function,
            ports,
            has_modules,
        };
        bus.configure(Configuration::ENABLE, Configuration::I2C_FORMAT);
        Some(bus)
    }

    fn configure(&self, set: Configuration, clear: Configuration) {
        let before = Configuration::from_bits_retain(self.function.read(HOST_CONFIGURATION));
        let after = (before - clear) | set;
        // SAFETY: it decides how this bus works; the controller accesses no memory.
        unsafe { self.function.write(HOST_CONFIGURATION, after.bits()) };
    }

    fn read_register(&self, register: u16) -> u8 {
        // SAFETY: a register of the controller.
        unsafe { Port::<u8>::new(self.ports + register).read() }
    }

    fn write_register(&self, register: u16, value: u8) {
        // SAFETY: as `read_register`.
        unsafe { Port::<u8>::new(self.ports + register).write(value) };
    }

    fn status(&self) -> Status {
        Status::from_bits_retain(self.read_register(STATUS))
    }

    /// Clears these bits of the status.
    fn clear(&self, bits: Status) {
        self.write_register(STATUS, bits.bits());
    }

    fn control(&self, bits: Control) {
        self.write_register(CONTROL, bits.bits());
    }

    /// Waits until one of these bits of the status is set; or until the controller is idle if there are none.
    fn wait_for(&self, bits: Status) -> Result<Status, Error> {
        let deadline = Instant::after(PATIENCE);
        loop {
            let status = self.status();
            let is_reached = match bits.is_empty() {
                true => !status.contains(Status::BUSY),
                false => status.intersects(bits),
            };
            match status {
                _ if status.contains(Status::FAILED) => return Err(Error::Killed),
                _ if status.contains(Status::COLLISION) => return Err(Error::ArbitrationLoss),
                _ if status.contains(Status::DEVICE_ERROR) => return Err(Error::NoAcknowledge),
                _ if is_reached => return Ok(status),
                _ if Instant::now() > deadline => return Err(Error::TimedOut),
                _ => Delay.delay_us(POLL_US),
            }
        }
    }

    fn run<'b>(
        &self,
        address: u8,
        request: &Request,
        read: impl Iterator<Item = &'b mut u8>,
        nr_read: usize,
    ) -> Result<(), Error> {
        let deadline = Instant::after(PATIENCE);
        claim(
            || self.status(),
            || {
                Delay.delay_us(POLL_US);
                Instant::now() <= deadline
            },
        )?;
        self.clear(Status::ENDED);
        let result = self
            .wait_for(Status::empty())
            .map_err(|_| Error::InUse)
            .and_then(|_| self.transfer(address, request, read, nr_read));
        // Whoever waits for the controller may have it.
        self.clear(Status::ENDED | Status::IN_USE);
        result
    }

    fn transfer<'b>(
        &self,
        address: u8,
        request: &Request,
        read: impl Iterator<Item = &'b mut u8>,
        nr_read: usize,
    ) -> Result<(), Error> {
        let is_block = request.protocol == Protocol::Block;
        let is_i2c_read = request.protocol == Protocol::I2cRead;
        // The controller turns the bus around by itself.
        let direction = u8::from(request.is_read && !is_i2c_read);
        self.write_register(ADDRESS, address << 1 | direction);
        self.write_register(COMMAND, request.command);
        // No checksum, and no buffer: that is for blocks with a length.
        self.write_register(AUXILIARY_CONTROL, 0);
        if is_i2c_read {
            self.write_register(DATA1, request.command);
        }
        let first = request.data.first().copied().unwrap_or(0);
        let len = match request.protocol {
            Protocol::Block => request.data.len() as u8,
            // Read by emulators only.
            Protocol::I2cRead => nr_read.min(32) as u8,
            _ => first,
        };
        self.write_register(DATA0, len);
        let protocol = Control::from_bits_retain((request.protocol as u8) << 2);
        if is_block {
            self.configure(Configuration::I2C_FORMAT, Configuration::empty());
            self.write_register(BLOCK, first);
        }
        let result = if is_block {
            self.control(Control::START | protocol);
            self.send_block(&request.data)
        } else if is_i2c_read {
            self.control(Control::START | protocol);
            self.receive_block(protocol, read, nr_read)
        } else {
            self.control(Control::START | protocol);
            self.wait_for(Status::DONE).map(|_| {
                for to in read {
                    *to = self.read_register(DATA0);
                }
            })
        };
        // It goes on after some errors.
        if result.is_err() && self.status().contains(Status::BUSY) {
            self.control(Control::KILL);
            Delay.delay_us(POLL_US);
            self.control(Control::empty());
        }
        if is_block {
            self.configure(Configuration::empty(), Configuration::I2C_FORMAT);
        }
        result
    }

    fn send_block(&self, data: &[u8]) -> Result<(), Error> {
        for next in data.iter().skip(1) {
            self.wait_for(Status::BYTE_DONE)?;
            self.write_register(BLOCK, *next);
            self.clear(Status::BYTE_DONE);
        }
        self.wait_for(Status::BYTE_DONE)?;
        self.clear(Status::BYTE_DONE);
        self.wait_for(Status::DONE).map(drop)
    }

    fn receive_block<'b>(
        &self,
        protocol: Control,
        read: impl Iterator<Item = &'b mut u8>,
        nr: usize,
    ) -> Result<(), Error> {
        for (at, to) in read.enumerate() {
            if at + 1 == nr {
                self.control(protocol | Control::LAST_BYTE);
            }
            self.wait_for(Status::BYTE_DONE)?;
            *to = self.read_register(BLOCK);
            self.clear(Status::BYTE_DONE);
        }
        self.wait_for(Status::DONE).map(drop)
    }
}

impl ErrorType for SmBus {
    type Error = Error;
}

impl I2c for SmBus {
    fn transaction(&mut self, address: u8, operations: &mut [Operation<'_>]) -> Result<(), Error> {
        let request = Request::of(operations).filter(|_| address < 0x80);
        let (request, nr_read) = request.ok_or(Error::Unsupported)?;
        if self.has_modules && request.changes_module(address) {
            return Err(Error::MemoryModule);
        }
        let read = operations
            .iter_mut()
            .filter_map(|operation| match operation {
                Operation::Read(bytes) => Some(&mut **bytes),
                Operation::Write(_) => None,
            })
            .flatten();
        self.run(address, &request, read, nr_read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_controller_is_claimed_when_its_semaphore_is_free() {
        // Another agent gives it back after so many reads of ours.
        for given_back in 0..5 {
            let (mut reads, mut waits) = (0, 0);
            let claimed = claim(
                || {
                    reads += 1;
                    if reads > given_back {
                        Status::DONE
                    } else {
                        Status::IN_USE
                    }
                },
                || {
                    waits += 1;
                    waits < 3
                },
            );
            let expected = if given_back < 3 {
                (Ok(()), given_back + 1)
            } else {
                (Err(Error::InUse), 3)
            };
            assert_eq!((claimed, reads), expected, "{given_back}");
        }
    }
}
