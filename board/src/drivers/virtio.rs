//! Virtio devices with interrupts (MSI-X), by the legacy interface that QEMU's have on the first bus: [`Console`], [`Entropy`].
//!
//! Source: Virtio PCI Card Specification 0.9.5, appendix B (entropy), appendix D (console).

mod console;
mod entropy;

pub use console::{Console, Port};
pub use entropy::{Entropy, Source};

use core::cell::UnsafeCell;

use takt_kernel::Error;
use takt_kernel::irq::{self, Handler};

use crate::pci::{Function, Msix};
use crate::virtio::SET_UP;
use crate::virtio::queue::{Descriptor, Device, Queue, WRITTEN};

/// Vendor and device id of a console. The capture goes over the first one that a machine has.
pub const CONSOLE: (u16, u16) = (0x1af4, 0x1003);
/// Vendor and device id of a source of entropy.
pub const ENTROPY: (u16, u16) = (0x1af4, 0x1005);

/// Bytes that are handed over at a time.
const BUFFER: usize = 64;

/// Memory that is handed over to a device, piece by piece.
struct Buffers<const NR: usize>([UnsafeCell<[u8; BUFFER]>; NR]);

// SAFETY: a piece is the device's or that of whoever holds the lock of the queue that it is for.
unsafe impl<const NR: usize> Sync for Buffers<NR> {}

impl<const NR: usize> Buffers<NR> {
    const fn new() -> Self {
        Self([const { UnsafeCell::new([0; BUFFER]) }; NR])
    }

    /// Gives a piece to the device, of which it may read or write so much.
    fn hand_over(&'static self, queue: &mut Queue, index: u16, len: usize, is_written: bool) {
        let Some(buffer) = self.0.get(usize::from(index)) else {
            return;
        };
        let descriptor = Descriptor {
            address: buffer.get() as u64,
            len: len as u32,
            flags: if is_written { WRITTEN } else { 0 },
            next: 0,
        };
        queue.set(index, descriptor);
        queue.post(index);
        queue.notify();
    }
}

/// Gives the device of this function a handler for its one message, and `queues`, and starts it. If that fails, it has neither.
fn attach<Q>(
    function: Function,
    id: (u16, u16),
    cpu: usize,
    name: &'static str,
    handler: Handler,
    argument: usize,
    queues: impl FnOnce(Device) -> Option<Q>,
) -> Result<(Msix, Q), Error> {
    if function.id() != id {
        return Err(Error::InvalidArgument);
    }
    let _one = SET_UP.lock()?;
    if Device::is_driven(function) {
        return Err(Error::InvalidState);
    }
    Device::silent(function).ok_or(Error::InvalidArgument)?;
    // First: with messages the device's registers are laid out in another way.
    let irq = irq::request(name, handler, argument)?;
    let msix = function.enable_msix(0, irq, cpu)?;
    let attached = Device::new(function).and_then(|device| {
        let queues = queues(device);
        match queues {
            Some(_) => device.start(),
            None => device.reset(),
        }
        queues
    });
    match attached {
        Some(queues) => Ok((msix, queues)),
        None => {
            msix.release();
            Err(Error::InvalidArgument)
        }
    }
}
