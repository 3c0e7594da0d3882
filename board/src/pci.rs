//! PCI: the functions that there are, their memory and ports, and interrupts as messages.
//!
//! Configuration space is in memory where ACPI says so (all 4,096 bytes of a function), else behind two ports (the first 256).
//! The firmware has given the functions their addresses. What lies above 4 GiB is not mapped.
//!
//! Source: PCI Local Bus Specification 3.0, 3.2.2.3.2, 6.2, 6.8; PCI Express Base Specification 3.0, 7.2.2; Intel SDM vol. 3A,
//! 11.11 (messages).

mod bases;
pub(crate) mod config;
mod messages;

pub use pci_types::capability::PciCapability as Capability;
pub use pci_types::{Bar, CommandRegister, PciAddress as Address};
use pci_types::{EndpointHeader, HeaderType, PciHeader};

pub use config::Register;
use config::{AsEndpoint, Config};
pub(crate) use messages::message_address;
pub use messages::{Msi, Msix};

use crate::ioapic::{Pin, Polarity, Trigger};

/// A function of a device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Function(Address);

/// All functions on the buses behind the first host bridge, those of bridges among them.
///
/// # Context
/// Any but NMIs; some thousand instructions for each bus.
pub fn functions() -> impl Iterator<Item = Function> {
    functions_to(0)
}

/// The same, and all on the buses up to this one, behind which host bridge so ever.
pub(crate) fn functions_to(mut last_bus: u8) -> impl Iterator<Item = Function> {
    let mut next = Some(Address::new(0, 0, 0, 0));
    core::iter::from_fn(move || {
        loop {
            let address = next?;
            let header = PciHeader::new(address);
            let is_there = header.id(Config).0 != 0xffff;
            if is_there && header.header_type(Config) == HeaderType::PciPciBridge {
                // The last bus behind it.
                last_bus = last_bus.max((Function(address).read(0x18) >> 16) as u8);
            }
            let (bus, device, function) = (address.bus(), address.device(), address.function());
            let has_more = match function {
                0 => is_there && header.has_multiple_functions(Config),
                _ => function < 7,
            };
            next = match (has_more, device) {
                (true, _) => Some(Address::new(0, bus, device, function + 1)),
                (_, ..31) => Some(Address::new(0, bus, device + 1, 0)),
                _ if bus < last_bus => Some(Address::new(0, bus + 1, 0, 0)),
                _ => None,
            };
            if is_there {
                return Some(Function(address));
            }
        }
    })
}

/// As many capabilities as there is room for: a list that a device has closed to a circle ends.
const MAX_CAPABILITIES: usize = 48;

impl Function {
    /// The first function with this vendor and device id.
    #[must_use]
    pub fn find(vendor: u16, device: u16) -> Option<Self> {
        functions().find(|function| function.id() == (vendor, device))
    }

    /// The first function of this class: base class, subclass, programming interface.
    #[must_use]
    pub fn find_class(class: (u8, u8, u8)) -> Option<Self> {
        functions().find(|function| function.class() == class)
    }

    /// Where it is: bus, device, function.
    #[must_use]
    pub fn address(self) -> Address {
        self.0
    }

    /// Vendor and device id.
    #[must_use]
    pub fn id(self) -> (u16, u16) {
        self.header().id(Config)
    }

    /// Base class, subclass, programming interface.
    #[must_use]
    pub fn class(self) -> (u8, u8, u8) {
        let (_, base, sub, interface) = self.header().revision_and_class(Config);
        (base, sub, interface)
    }

    fn header(self) -> PciHeader {
        PciHeader::new(self.0)
    }

    fn endpoint(self) -> Option<EndpointHeader> {
        (self.nr_bases() != 0)
            .then(|| EndpointHeader::from_header(self.header(), AsEndpoint))
            .flatten()
    }

    /// How many base address registers it has.
    fn nr_bases(self) -> u8 {
        match self.header().header_type(Config) {
            HeaderType::Endpoint => 6,
            HeaderType::PciPciBridge => 2,
            _ => 0,
        }
    }

    /// A register of configuration space.
    #[must_use]
    pub fn read(self, offset: u16) -> u32 {
        self.read_as(offset)
    }

    /// Writes a register of configuration space.
    ///
    /// # Safety
    /// A function can be told to write to any memory.
    pub unsafe fn write(self, offset: u16, value: u32) {
        Config::write_as(self.0, offset, value);
    }

    /// A register of one, two or four bytes (`u8`, `u16`, `u32`), for those that can be accessed by their own size only. It is read
    /// as nothing else:
    ///
    /// ```compile_fail,E0277
    /// # use takt_board::pci::Function;
    /// # use x86_64::structures::port::PortRead;
    /// #[derive(Clone, Copy)]
    /// struct Mine(&'static u32);
    /// impl PortRead for Mine {
    ///     unsafe fn read_from_port(_: u16) -> Self {
    ///         Mine(&0)
    ///     }
    /// }
    /// fn read(function: Function) -> Mine {
    ///     function.read_as(0)
    /// }
    /// ```
    /// ```
    /// # use takt_board::pci::Function;
    /// fn read(function: Function) -> u16 {
    ///     function.read_as(0)
    /// }
    /// ```
    #[must_use]
    pub fn read_as<T: Register>(self, offset: u16) -> T {
        Config::read_as(self.0, offset)
    }

    /// Writes a register of one, two or four bytes.
    ///
    /// # Safety
    /// As [`write`](Self::write).
    pub unsafe fn write_as<T: Register>(self, offset: u16, value: T) {
        Config::write_as(self.0, offset, value);
    }

    fn update_command(self, change: impl FnOnce(CommandRegister) -> CommandRegister) {
        const COMMAND: u16 = 4;
        // Two bytes: ones that are written behind them clear what the function's status says.
        Config::change(self.0, COMMAND, |before| {
            change(CommandRegister::from_bits_retain(before)).bits()
        });
    }

    /// Lets it answer at its ports and memory.
    pub fn enable(self) {
        self.update_command(|command| {
            command | CommandRegister::IO_ENABLE | CommandRegister::MEMORY_ENABLE
        });
    }

    /// Lets it access memory itself. Messages are such accesses, too.
    ///
    /// # Safety
    /// It has no transfer under way that a firmware or another driver has begun, as after its reset, and is told of none but to
    /// memory that is its driver's.
    pub unsafe fn enable_dma(self) {
        self.update_command(|command| command | CommandRegister::BUS_MASTER_ENABLE);
    }

    /// What it can do beside what all can.
    pub fn capabilities(self) -> impl Iterator<Item = Capability> {
        let endpoint = self.endpoint();
        let all = endpoint.map(|endpoint| endpoint.capabilities(Config));
        all.into_iter().flatten().take(MAX_CAPABILITIES)
    }

    /// The I/O APIC's pin at which its interrupt comes in: level-triggered, and on most machines shared with others, which
    /// [`Pin::route`] refuses. It is the pin that the firmware noted, which is right where it knows of the I/O APIC.
    #[must_use]
    pub fn pin(self) -> Option<Pin> {
        let register = self.read(0x3c);
        let (line, pin) = (register as u8, register >> 8 & 0xff);
        let told = Pin::isa(line)
            .ok()
            .filter(|told| told.trigger == Trigger::Level);
        (pin != 0 && line != 0xff).then(|| {
            told.unwrap_or(Pin {
                gsi: line.into(),
                trigger: Trigger::Level,
                polarity: Polarity::Low,
            })
        })
    }
}
