//! The way to configuration space: in memory where ACPI says so, else by two ports.

use core::ptr::NonNull;

use pci_types::ConfigRegionAccess;
use spin::Once;
use takt_kernel::machine::{self, Port};
use volatile::VolatilePtr;

use super::Address;
use crate::acpi::Ecam;
use crate::lock::IrqLock;

/// Configuration space in memory, if there is one.
static ECAM: Once<Ecam> = Once::new();
/// The two ports belong together; and what is read of a register to be changed, and what is written.
static PORTS: IrqLock<()> = IrqLock::new(());
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

pub use sealed::Register;

/// The way to configuration space.
#[derive(Clone, Copy)]
pub(super) struct Config;

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
    pub(super) fn change(address: Address, offset: u16, change: impl FnOnce(u16) -> u16) {
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

    pub(super) fn read_as<T: Register>(address: Address, offset: u16) -> T {
        match Self::in_memory(address, offset) {
            Some(register) => register.read(),
            // SAFETY: the configuration data port.
            None => Self::by_ports(address, offset, |mut data| unsafe { data.read() }),
        }
    }

    pub(super) fn write_as<T: Register>(address: Address, offset: u16, value: T) {
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
pub(super) struct AsEndpoint;

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
