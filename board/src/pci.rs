//! PCI configuration space by the legacy ports: enough to find one device.
//!
//! Source: PCI Local Bus Specification 3.0, 3.2.2.3.2.

use takt_kernel::arch::port::Port;

/// A function on bus 0.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Function {
    device: u8,
}

impl Function {
    /// The first device on bus 0 with this vendor and device id.
    pub(crate) fn find(vendor: u16, device: u16) -> Option<Self> {
        let id = u32::from(device) << 16 | u32::from(vendor);
        (0..32)
            .map(|device| Self { device })
            .find(|function| function.read(0) == id)
    }

    fn select(self, offset: u8) {
        let address = 1 << 31 | u32::from(self.device) << 11 | u32::from(offset & !3);
        // SAFETY: the configuration address port.
        unsafe { Port::<u32>::new(0xcf8).write(address) };
    }

    fn read(self, offset: u8) -> u32 {
        self.select(offset);
        // SAFETY: the configuration data port.
        unsafe { Port::<u32>::new(0xcfc).read() }
    }

    fn write(self, offset: u8, value: u32) {
        self.select(offset);
        // SAFETY: the configuration data port.
        unsafe { Port::<u32>::new(0xcfc).write(value) };
    }

    /// Base of the I/O ports in BAR 0, given one if the firmware has not; also lets the device access memory.
    pub(crate) fn enable_io(self) -> Option<u16> {
        const FREE_PORTS: u32 = 0xc000;
        let bar = self.read(0x10);
        if bar & 1 == 0 {
            return None;
        }
        if bar & 0xfffc == 0 {
            self.write(0x10, FREE_PORTS | 1);
        }
        self.write(0x04, self.read(0x04) | 0x5); // I/O and bus master
        Some((self.read(0x10) & 0xfffc) as u16)
    }
}
