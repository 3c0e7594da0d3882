//! A virtio console, transmit side: hands any amount of memory to the host by one `out` instruction.
//!
//! With `ioeventfd=off` QEMU runs the device inside that instruction, so the bytes are in the host's file when it
//! retires: no interrupt, no wait, and nothing that depends on the host's speed. (Bytes to a port would cost an instruction each, and
//! a doorbell that pauses the machine has QEMU skip time.) One with interrupts is
//! [`drivers::virtio::Console`](crate::drivers::virtio::Console).
//!
//! Source: Virtio PCI Card Specification 0.9.5 (legacy interface), appendix D (console).

pub(crate) mod queue;

use takt_kernel::sync::Mutex;

use crate::drivers::virtio::CONSOLE;
use crate::pci::Function;
use queue::{Descriptor, Device, Memory, NEXT, Queue};

/// One device is set up at a time: whom nobody drives yet two could take.
pub(crate) static SET_UP: Mutex<()> = Mutex::new(());

const TRANSMIT_QUEUE: u16 = 1;

/// How often completion is polled for before the console is given up; under QEMU the first look suffices.
const PATIENCE: u32 = 10_000_000;

static MEMORY: Memory = Memory::new();

/// The console's transmit queue.
pub(crate) struct Console {
    queue: Queue,
}

impl Console {
    /// Finds the device and sets up its queue.
    ///
    /// # Safety
    /// Once: the queue's memory is one static.
    pub(crate) unsafe fn find() -> Option<Self> {
        let (vendor, device) = CONSOLE;
        let device = Device::new(Function::find(vendor, device)?)?;
        // SAFETY: once, by the promise made here.
        let mut queue = unsafe { device.queue(TRANSMIT_QUEUE, &MEMORY) }?;
        queue.without_interrupts();
        device.start();
        Some(Self { queue })
    }

    /// The same of a device that nobody drives.
    ///
    /// # Safety
    /// As [`find`](Self::find).
    pub(crate) unsafe fn find_free() -> Option<Self> {
        let _one = SET_UP.lock().ok()?;
        let (vendor, device) = CONSOLE;
        if Device::is_driven(Function::find(vendor, device)?) {
            return None;
        }
        // SAFETY: the caller's duty.
        unsafe { Self::find() }
    }

    /// Hands both parts over, in this order; says whether the device took them.
    pub(crate) fn send(&mut self, header: &[u8], payload: &[u8]) -> bool {
        let parts = [header, payload];
        for (i, part) in parts.iter().enumerate() {
            let last = i + 1 == parts.len();
            let descriptor = Descriptor {
                address: takt_kernel::machine::physical(part.as_ptr() as usize),
                len: part.len() as u32,
                flags: if last { 0 } else { NEXT },
                next: if last { 0 } else { i as u16 + 1 },
            };
            self.queue.set(i as u16, descriptor);
        }
        self.queue.post(0);
        self.queue.notify();
        (0..PATIENCE).any(|_| self.queue.take().is_some())
    }
}
