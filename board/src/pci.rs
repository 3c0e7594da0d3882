//! PCI: the functions that there are, their memory and ports, and interrupts as messages.
//!
//! Configuration space is in memory where ACPI says so (all 4,096 bytes of a function), else behind two ports (the first 256).
//! The firmware has given the functions their addresses. What lies above 4 GiB is not mapped.
//!
//! Source: PCI Local Bus Specification 3.0, 3.2.2.3.2, 6.2, 6.8; PCI Express Base Specification 3.0, 7.2.2; Intel SDM vol. 3A,
//! 11.11 (messages).

use core::ptr::NonNull;

use heapless::Vec;
pub use pci_types::capability::PciCapability as Capability;
use pci_types::capability::{MsiCapability, MsixCapability, MultipleMessageSupport};
pub use pci_types::{Bar, CommandRegister, PciAddress as Address};
use pci_types::{ConfigRegionAccess, EndpointHeader, HeaderType, PciHeader};
use spin::Once;
use takt_kernel::irq::Irq;
use takt_kernel::machine::{self, Port};
use takt_kernel::sync::Mutex;
use takt_kernel::{Error, smp};
use volatile::VolatilePtr;

use crate::acpi::Ecam;
use crate::ioapic::{Pin, Polarity, Trigger};
use crate::lock::IrqLock;

/// Configuration space in memory, if there is one.
static ECAM: Once<Ecam> = Once::new();
/// The two ports belong together; and what is read of a register to be changed, and what is written.
static PORTS: IrqLock<()> = IrqLock::new(());
/// The base address registers that were asked for, since to ask is to write to them; for who asks, of whichever function, and for who
/// reads what is written over meanwhile.
static BASES: Mutex<Vec<Known, MAX_KNOWN>> = Mutex::new(Vec::new());
/// As many are kept. Further ones are asked for each time.
const MAX_KNOWN: usize = 32;

/// A base address register.
struct Known {
    of: Function,
    slot: u8,
    /// What was in it, and in the next one if that belongs to it.
    value: u64,
    bar: Option<Bar>,
}

/// Notes where configuration space lies.
pub(crate) fn init(ecam: Option<Ecam>) {
    if let Some(ecam) = ecam {
        // The loader's memory map need not name it.
        let len = (usize::from(ecam.last_bus) + 1) << 20;
        if machine::find(ecam.base, len).is_none() {
            machine::map_devices();
        }
        // Where the stacks are it is not found; the ports do.
        if ecam.base >= 3 << 30 || machine::find(ecam.base, len) == Some(ecam.base) {
            ECAM.call_once(|| ecam);
        }
    }
}

mod sealed {
    use x86_64::structures::port::{PortRead, PortWrite};

    /// What a register holds: one, two or four bytes, of which any bits are a value.
    pub trait Register: PortRead + PortWrite + Copy + 'static {}

    impl Register for u8 {}
    impl Register for u16 {}
    impl Register for u32 {}
}

use sealed::Register;

/// The way to configuration space.
#[derive(Clone, Copy)]
struct Config;

impl Config {
    fn in_memory<T>(address: Address, offset: u16) -> Option<VolatilePtr<'static, T>> {
        let ecam = ECAM
            .get()
            .filter(|ecam| address.bus() <= ecam.last_bus && address.segment() == 0)?;
        let function = usize::from(address.bus()) << 8
            | usize::from(address.device()) << 3
            | usize::from(address.function());
        let offset = usize::from(offset & 0xfff) & !(size_of::<T>() - 1);
        let at = (ecam.base + (function << 12) + offset) as *mut T;
        // SAFETY: ACPI says that the configuration space of this bus is there, and it is mapped.
        NonNull::new(at).map(|at| unsafe { VolatilePtr::new(at) })
    }

    /// The data port of a register, which is the selected one then.
    ///
    /// # Safety
    /// Under the lock of the ports.
    unsafe fn select<T>(address: Address, offset: u16) -> Port<T> {
        // What the ports do not reach is not selected: ones are read, and what is written is lost.
        let select = u32::from(offset <= 0xff) << 31
            | u32::from(address.bus()) << 16
            | u32::from(address.device()) << 11
            | u32::from(address.function()) << 8
            | u32::from(offset & 0xfc);
        // SAFETY: the configuration address port, which is the caller's.
        unsafe { Port::<u32>::new(0xcf8).write(select) };
        Port::new(0xcfc + (offset & 3 & !(size_of::<T>() as u16 - 1)))
    }

    fn by_ports<T, R>(address: Address, offset: u16, act: impl FnOnce(Port<T>) -> R) -> R {
        // SAFETY: under the lock.
        PORTS.with(|()| act(unsafe { Self::select(address, offset) }))
    }

    /// Changes a register, of two bytes, by what is in it.
    fn change(address: Address, offset: u16, change: impl FnOnce(u16) -> u16) {
        PORTS.with(|()| match Self::in_memory(address, offset) {
            Some(register) => register.update(change),
            None => {
                // SAFETY: under the lock.
                let mut data = unsafe { Self::select::<u16>(address, offset) };
                // SAFETY: the configuration data port.
                let before = unsafe { data.read() };
                // SAFETY: and again.
                unsafe { data.write(change(before)) };
            }
        });
    }

    fn read_as<T: Register>(address: Address, offset: u16) -> T {
        match Self::in_memory(address, offset) {
            Some(register) => register.read(),
            // SAFETY: the configuration data port.
            None => Self::by_ports(address, offset, |mut data| unsafe { data.read() }),
        }
    }

    fn write_as<T: Register>(address: Address, offset: u16, value: T) {
        match Self::in_memory(address, offset) {
            Some(register) => register.write(value),
            // SAFETY: the configuration data port.
            None => Self::by_ports(address, offset, |mut data| unsafe { data.write(value) }),
        }
    }
}

impl ConfigRegionAccess for Config {
    unsafe fn read(&self, address: Address, offset: u16) -> u32 {
        Self::read_as(address, offset)
    }

    unsafe fn write(&self, address: Address, offset: u16, value: u32) {
        Self::write_as(address, offset, value);
    }
}

/// The same of a bridge, as if it were an endpoint: base address registers and capabilities are where those have them.
#[derive(Clone, Copy)]
struct AsEndpoint;

impl ConfigRegionAccess for AsEndpoint {
    unsafe fn read(&self, address: Address, offset: u16) -> u32 {
        const HEADER: u16 = 0xc;
        let value = Config::read_as::<u32>(address, offset);
        match offset {
            HEADER => value & !(0x7f << 16),
            _ => value,
        }
    }

    unsafe fn write(&self, address: Address, offset: u16, value: u32) {
        Config::write_as(address, offset, value);
    }
}

/// A function of a device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Function(Address);

/// All functions on the buses behind the first host bridge, those of bridges among them.
///
/// # Context
/// Any but NMIs; some thousand instructions for each bus.
pub fn functions() -> impl Iterator<Item = Function> {
    let mut last_bus = 0;
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

    /// Memory or ports in base address register `slot`. What its registers give as sizes is asked for by writing to them, and the
    /// function does not answer meanwhile: that is once, by whoever is the first to ask.
    ///
    /// # Context
    /// Threads that may block: one asks at a time. Elsewhere `None` where another is at it.
    #[must_use]
    pub fn bar(self, slot: u8) -> Option<Bar> {
        let endpoint = self.endpoint()?;
        let mut known = BASES.lock().ok()?;
        let value = self.value(slot)?;
        if !known.iter().any(|it| it.of == self) {
            self.silently(|| {
                let mut slot = 0;
                while slot < self.nr_bases() {
                    let bar = self.value(slot).map(|value| {
                        let bar = endpoint.bar(slot, Config);
                        let of = self;
                        // The first one says that all were asked for. Without room they are each time.
                        if bar.is_some() || slot == 0 {
                            let _ = known.push(Known {
                                of,
                                slot,
                                value,
                                bar,
                            });
                        }
                        bar
                    });
                    let has_two = matches!(bar, Some(Some(Bar::Memory64 { .. })));
                    slot += if has_two { 2 } else { 1 };
                }
            });
        }
        let is_it = |it: &&Known| it.of == self && it.slot == slot && it.value == value;
        match known.iter().find(is_it) {
            Some(it) => it.bar,
            None => self.silently(|| endpoint.bar(slot, Config)),
        }
    }

    /// What is in a base address register, and in the next one if that belongs to it; `None` if it is of no kind that there is.
    fn value(self, slot: u8) -> Option<u64> {
        let read = |slot: u8| u64::from(self.read(0x10 + 4 * u16::from(slot)));
        let nr_left = self.nr_bases().checked_sub(slot)?;
        if nr_left == 0 {
            return None;
        }
        let low = read(slot);
        // Memory takes one register or two.
        match low & 7 {
            0 | 1 | 3 | 5 | 7 => Some(low),
            4 if nr_left > 1 => Some(low | read(slot + 1) << 32),
            _ => None,
        }
    }

    /// Does something while it answers neither at its ports nor at its memory. But a bridge goes on: others are behind it.
    fn silently<R>(self, act: impl FnOnce() -> R) -> R {
        const BRIDGE: u8 = 6;
        if self.header().revision_and_class(Config).1 == BRIDGE {
            return act();
        }
        let answers = CommandRegister::IO_ENABLE | CommandRegister::MEMORY_ENABLE;
        let mut before = CommandRegister::empty();
        self.update_command(|command| {
            before = command & answers;
            command - answers
        });
        let result = act();
        self.update_command(|command| command | before);
        result
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

    /// Whether it may send messages.
    fn check_dma(self) -> Result<(), Error> {
        let command = self.header().command(Config);
        match command.contains(CommandRegister::BUS_MASTER_ENABLE) {
            true => Ok(()),
            false => Err(Error::InvalidState),
        }
    }

    /// Enables it, and gives the first of its ports in base address register `slot`. It goes on meanwhile, if it was enabled.
    ///
    /// # Context
    /// That of [`bar`](Self::bar).
    #[must_use]
    pub fn enable_ports(self, slot: u8) -> Option<u16> {
        let value = self.base(slot)?;
        let port = u16::try_from(value & !3).ok().filter(|port| *port != 0)?;
        if value & 1 == 0 {
            return None;
        }
        self.enable();
        Some(port)
    }

    /// Enables it, and gives the address of its memory in base address register `slot`, if that is mapped. It goes on
    /// meanwhile, if it was enabled.
    ///
    /// # Context
    /// That of [`bar`](Self::bar).
    #[must_use]
    pub fn enable_memory(self, slot: u8) -> Option<usize> {
        let value = self.base(slot)?;
        // Memory lies at a multiple of its size: what begins below 4 GiB ends there.
        let is_below = match value & 7 {
            0 => true,
            4 => self.base(slot + 1)? == 0,
            _ => false,
        };
        let address = (value & !0xf) as usize;
        if !is_below || address == 0 {
            return None;
        }
        if address < 3 << 30 {
            machine::map_devices();
            // Where the stacks are no device is found.
            if machine::find(address, 1) != Some(address) {
                return None;
            }
        }
        self.enable();
        Some(address)
    }

    /// A base address register as it is, once nobody asks for its size.
    fn base(self, slot: u8) -> Option<u32> {
        let _one = BASES.lock().ok()?;
        (slot < self.nr_bases()).then(|| self.read(0x10 + 4 * u16::from(slot)))
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

    /// Has its interrupts come as messages (MSI) to `irq`'s handler on a CPU, at once.
    ///
    /// # Errors
    /// `irq` is released, then: [`Error::InvalidArgument`] if it cannot send messages or the CPU does not run; [`Error::InvalidState`] if it sends
    /// some already, or may not [access memory](Self::enable_dma).
    pub fn enable_msi(self, irq: Irq, cpu: usize) -> Result<Msi, Error> {
        let (irq, capability) = irq.routed(|irq| {
            let msi = self.capabilities().find_map(|capability| match capability {
                Capability::Msi(msi) => Some(msi),
                _ => None,
            });
            let msi = msi.ok_or(Error::InvalidArgument)?;
            if msi.is_enabled(Config) {
                return Err(Error::InvalidState);
            }
            self.check_dma()?;
            let address = message_address(cpu)?;
            msi.set_message_info(address.into(), irq.vector().into(), Config);
            Ok(msi)
        })?;
        let msi = Msi {
            capability,
            irq,
            function: self,
        };
        capability.set_multiple_message_enable(MultipleMessageSupport::Int1, Config);
        self.without_pin();
        msi.unmask();
        Ok(msi)
    }

    /// Has one kind of its interrupts (MSI-X) come to `irq`'s handler on a CPU, at once. `entry` is its number in the function's
    /// table; the others are masked until they have handlers.
    ///
    /// # Errors
    /// `irq` is released, then: [`Error::InvalidArgument`] if it has no such table or entry, or the CPU does not run; [`Error::InvalidState`] if
    /// the entry has a handler, or it may not [access memory](Self::enable_dma).
    pub fn enable_msix(self, entry: u16, irq: Irq, cpu: usize) -> Result<Msix, Error> {
        let (irq, table) = irq.routed(|irq| self.set_message(entry, irq.vector(), cpu))?;
        let msix = Msix { table, entry, irq };
        msix.unmask();
        Ok(msix)
    }

    /// Has an entry of its table, whose address is told, say this vector, and be masked.
    fn set_message(self, entry: u16, vector: u8, cpu: usize) -> Result<usize, Error> {
        let address = message_address(cpu)?;
        let capability = self.capabilities().find_map(|capability| match capability {
            Capability::MsiX(msix) => Some(msix),
            _ => None,
        });
        let mut capability: MsixCapability = capability.ok_or(Error::InvalidArgument)?;
        if entry >= capability.table_size() {
            return Err(Error::InvalidArgument);
        }
        self.check_dma()?;
        let memory = self.enable_memory(capability.table_bar());
        let table = memory.ok_or(Error::InvalidArgument)? + capability.table_offset() as usize;
        if !capability.enabled(Config) {
            // A firmware may have left anything there.
            capability.set_function_mask(true, Config);
            capability.set_enabled(true, Config);
            for other in 0..capability.table_size() {
                let word = message_word(table, other, 3);
                word.write(word.read() | 1);
                message_word(table, other, 2).write(0);
            }
            capability.set_function_mask(false, Config);
            self.without_pin();
        }
        // The data is the vector, and no vector is 0.
        if message_word(table, entry, 2).read() != 0 {
            return Err(Error::InvalidState);
        }
        let words = [address, 0, vector.into()];
        for (word, value) in words.into_iter().enumerate() {
            message_word(table, entry, word).write(value);
        }
        Ok(table)
    }

    /// No interrupts by its pin.
    fn without_pin(self) {
        self.update_command(|command| command | CommandRegister::INTERRUPT_DISABLE);
    }
}

/// Where a message to a CPU is written to.
pub(crate) fn message_address(cpu: usize) -> Result<u32, Error> {
    let id = smp::apic_id(cpu).ok_or(Error::InvalidArgument)?;
    Ok(0xfee0_0000 | id << 12)
}

/// A function's interrupts as messages.
#[derive(Debug)]
pub struct Msi {
    function: Function,
    capability: MsiCapability,
    irq: Irq,
}

impl Msi {
    /// The vector and the name.
    #[must_use]
    pub fn irq(&self) -> &Irq {
        &self.irq
    }

    /// Lets the messages be sent.
    pub fn unmask(&self) {
        self.capability.set_enabled(true, Config);
    }

    /// Has none sent. What comes meanwhile is lost.
    pub fn mask(&self) {
        self.capability.set_enabled(false, Config);
    }

    /// Has the next ones come to another CPU.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] if it does not run.
    pub fn set_cpu(&self, cpu: usize) -> Result<(), Error> {
        let address = message_address(cpu)?;
        let is_enabled = self.capability.is_enabled(Config);
        self.mask();
        let vector = u32::from(self.irq.vector());
        self.capability
            .set_message_info(address.into(), vector, Config);
        if is_enabled {
            self.unmask();
        }
        Ok(())
    }

    /// Whose they are.
    #[must_use]
    pub fn function(&self) -> Function {
        self.function
    }
}

/// A word of an entry of a table of messages: address, its upper half, data, control.
fn message_word(table: usize, entry: u16, word: usize) -> VolatilePtr<'static, u32> {
    let at = (table + 16 * usize::from(entry) + 4 * word) as *mut u32;
    // SAFETY: the function's table, which has that entry, in memory that is mapped.
    unsafe { VolatilePtr::new(NonNull::new(at).unwrap_or(NonNull::dangling())) }
}

/// One of a function's interrupts as messages of their own.
#[derive(Debug)]
pub struct Msix {
    table: usize,
    entry: u16,
    irq: Irq,
}

impl Msix {
    /// The vector and the name.
    #[must_use]
    pub fn irq(&self) -> &Irq {
        &self.irq
    }

    /// Has none sent any more, and gives entry and vector back. The device wants nothing: what it sent is not under way.
    pub(crate) fn release(self) {
        self.mask();
        self.word(2).write(0);
        self.irq.release();
    }

    fn word(&self, word: usize) -> VolatilePtr<'static, u32> {
        message_word(self.table, self.entry, word)
    }

    /// Lets its messages be sent, that of what came while they were masked among them.
    pub fn unmask(&self) {
        let control = self.word(3);
        control.write(control.read() & !1);
    }

    /// Keeps them back.
    pub fn mask(&self) {
        let control = self.word(3);
        control.write(control.read() | 1);
    }

    /// Has the next ones come to another CPU.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] if it does not run.
    pub fn set_cpu(&self, cpu: usize) -> Result<(), Error> {
        let address = message_address(cpu)?;
        let control = self.word(3).read();
        self.mask();
        self.word(0).write(address);
        self.word(1).write(0);
        self.word(3).write(control);
        Ok(())
    }
}
