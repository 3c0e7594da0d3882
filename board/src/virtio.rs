//! A virtio console, transmit side: hands any amount of memory to the host by one `out` instruction.
//!
//! With `ioeventfd=off` QEMU runs the device inside that instruction, so the bytes are in the host's file when it
//! retires: no interrupt, no wait, and nothing that depends on the host's speed.
//!
//! Source: Virtio PCI Card Specification 0.9.5 (legacy interface), 2.1 to 2.4 and appendix D (console).

use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicU16, Ordering::Acquire, fence};

use takt_kernel::arch::port::Port;
use takt_kernel::config::MAX_VIRTIO_QUEUE as MAX_QUEUE;

use crate::pci::Function;

const VENDOR: u16 = 0x1af4;
const CONSOLE: u16 = 0x1003;

const GUEST_FEATURES: u16 = 0x04;
const QUEUE_ADDRESS: u16 = 0x08;
const QUEUE_SIZE: u16 = 0x0c;
const QUEUE_SELECT: u16 = 0x0e;
const QUEUE_NOTIFY: u16 = 0x10;
const STATUS: u16 = 0x12;

const TRANSMIT_QUEUE: u16 = 1;
/// Acknowledge, driver, driver OK.
const READY: u8 = 1 | 2 | 4;
const NEXT: u16 = 1;

/// How often completion is polled for before the console is given up; under QEMU the first look suffices.
const PATIENCE: u32 = 10_000_000;

#[repr(C)]
#[derive(Clone, Copy)]
struct Descriptor {
    address: u64,
    len: u32,
    flags: u16,
    next: u16,
}

/// Descriptors, available ring and, on the next page boundary, the used ring, for a queue of any size up to the most.
#[repr(C, align(4096))]
struct Memory(UnsafeCell<[u8; 16 * MAX_QUEUE + 4096 + 4096]>);

// SAFETY: only the one `Console` touches it.
unsafe impl Sync for Memory {}

static MEMORY: Memory = Memory(UnsafeCell::new([0; 16 * MAX_QUEUE + 4096 + 4096]));

/// The console's transmit queue.
#[derive(Debug)]
pub(crate) struct Console {
    ports: u16,
    queue_size: u16,
    sent: u16,
}

impl Console {
    /// Finds the device and sets up its queue.
    ///
    /// # Safety
    /// Once: the queue's memory is one static.
    pub(crate) unsafe fn find() -> Option<Self> {
        let ports = Function::find(VENDOR, CONSOLE)?.enable_ports(0)?;
        let mut console = Self {
            ports,
            queue_size: 0,
            sent: 0,
        };
        console.write8(STATUS, 0);
        console.write8(STATUS, 1);
        console.write8(STATUS, 3);
        console.write32(GUEST_FEATURES, 0);
        console.write16(QUEUE_SELECT, TRANSMIT_QUEUE);
        // SAFETY: a register of the device.
        console.queue_size = unsafe { Port::<u16>::new(ports + QUEUE_SIZE).read() };
        if console.queue_size < 2 || usize::from(console.queue_size) > MAX_QUEUE {
            return None;
        }
        console.write32(QUEUE_ADDRESS, (MEMORY.0.get() as u32) >> 12);
        console.write8(STATUS, READY);
        Some(console)
    }

    fn write8(&self, register: u16, value: u8) {
        // SAFETY: a register of the device.
        unsafe { Port::<u8>::new(self.ports + register).write(value) };
    }

    fn write16(&self, register: u16, value: u16) {
        // SAFETY: a register of the device.
        unsafe { Port::<u16>::new(self.ports + register).write(value) };
    }

    fn write32(&self, register: u16, value: u32) {
        // SAFETY: a register of the device.
        unsafe { Port::<u32>::new(self.ports + register).write(value) };
    }

    fn base(&self) -> *mut u8 {
        MEMORY.0.get().cast()
    }

    /// Address of the available ring: right behind the descriptors.
    fn available(&self) -> *mut u16 {
        self.base()
            .wrapping_add(16 * usize::from(self.queue_size))
            .cast()
    }

    /// Address of the used ring's index: on the next page, after its flags.
    fn used_index(&self) -> *const AtomicU16 {
        let end = 16 * usize::from(self.queue_size) + 6 + 2 * usize::from(self.queue_size);
        self.base()
            .wrapping_add(end.next_multiple_of(4096) + 2)
            .cast()
    }

    /// Hands both parts over, in this order; says whether the device took them.
    pub(crate) fn send(&mut self, header: &[u8], payload: &[u8]) -> bool {
        let parts = [header, payload];
        for (i, part) in parts.iter().enumerate() {
            let last = i + 1 == parts.len();
            let descriptor = Descriptor {
                address: part.as_ptr() as u64,
                len: part.len() as u32,
                flags: if last { 0 } else { NEXT },
                next: if last { 0 } else { i as u16 + 1 },
            };
            // SAFETY: the queue has two descriptors at least, and the device owns none of them between calls.
            unsafe {
                self.base()
                    .cast::<Descriptor>()
                    .wrapping_add(i)
                    .write_volatile(descriptor)
            };
        }
        let slot = usize::from(self.sent % self.queue_size);
        self.sent = self.sent.wrapping_add(1);
        // The available ring: flags (1: no interrupt), index, entries.
        for (word, value) in [(0, 1), (2 + slot, 0), (1, self.sent)] {
            // SAFETY: inside the available ring.
            unsafe { self.available().wrapping_add(word).write_volatile(value) };
        }
        fence(core::sync::atomic::Ordering::SeqCst);
        self.write16(QUEUE_NOTIFY, TRANSMIT_QUEUE);
        // SAFETY: inside the used ring.
        let used = unsafe { &*self.used_index() };
        (0..PATIENCE).any(|_| used.load(Acquire) == self.sent)
    }
}
