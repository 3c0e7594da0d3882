//! A virtio device by its legacy interface, and its queues.
//!
//! Source: Virtio PCI Card Specification 0.9.5, 2.1 to 2.4.

use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicU16, Ordering::Acquire, fence};

use takt_kernel::config::MAX_VIRTIO_QUEUE as MAX_QUEUE;
use takt_kernel::machine::Port;

use crate::pci::Function;

const GUEST_FEATURES: u16 = 0x04;
const QUEUE_ADDRESS: u16 = 0x08;
const QUEUE_SIZE: u16 = 0x0c;
const QUEUE_SELECT: u16 = 0x0e;
const QUEUE_NOTIFY: u16 = 0x10;
const STATUS: u16 = 0x12;
/// Where there are messages: which one the selected queue sends.
const QUEUE_MESSAGE: u16 = 0x16;
const NO_MESSAGE: u16 = 0xffff;

/// Acknowledge, driver, driver OK.
const READY: u8 = 1 | 2 | 4;

/// In a descriptor: it goes on in another one.
pub(crate) const NEXT: u16 = 1;
/// The device writes there.
pub(crate) const WRITTEN: u16 = 2;

/// In an available ring.
const NO_INTERRUPT: u16 = 1;

/// A piece of memory that is handed over.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Descriptor {
    pub(crate) address: u64,
    pub(crate) len: u32,
    pub(crate) flags: u16,
    pub(crate) next: u16,
}

/// Descriptors, available ring and, on the next page boundary, the used ring, for a queue of any size up to the most.
#[repr(C, align(4096))]
pub(crate) struct Memory(UnsafeCell<[u8; 16 * MAX_QUEUE + 4096 + 4096]>);

// SAFETY: only the one `Queue` touches it.
unsafe impl Sync for Memory {}

impl Memory {
    pub(crate) const fn new() -> Self {
        Self(UnsafeCell::new([0; 16 * MAX_QUEUE + 4096 + 4096]))
    }
}

/// A device that is being set up.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Device {
    ports: u16,
}

impl Device {
    /// The device of this function, reset and without features; `None` if it has no legacy interface.
    pub(crate) fn new(function: Function) -> Option<Self> {
        let device = Self::silent(function)?;
        device.write8(STATUS, 1);
        device.write8(STATUS, 3);
        // SAFETY: a register of the device.
        unsafe { Port::<u32>::new(device.ports + GUEST_FEATURES).write(0) };
        Some(device)
    }

    /// The device of this function, reset: it may access memory, and has none to access yet.
    pub(crate) fn silent(function: Function) -> Option<Self> {
        let ports = function.enable_ports(0)?;
        let device = Self { ports };
        device.reset();
        // SAFETY: it has no queues any more, and is given those of its driver.
        unsafe { function.enable_dma() };
        Some(device)
    }

    /// It has no queues any more.
    pub(crate) fn reset(self) {
        self.write8(STATUS, 0);
    }

    /// Whether somebody drives the device of this function.
    pub(crate) fn is_driven(function: Function) -> bool {
        // SAFETY: a register of the device; reading it has no effect.
        let status = |ports| unsafe { Port::<u8>::new(ports + STATUS).read() };
        function.enable_ports(0).map(status) == Some(READY)
    }

    /// A queue of the device, in this memory; `None` if it has no such queue, or a larger one than there is memory for.
    ///
    /// # Safety
    /// Once for each memory.
    pub(crate) unsafe fn queue(self, number: u16, memory: &'static Memory) -> Option<Queue> {
        self.write16(QUEUE_SELECT, number);
        let size = self.read16(QUEUE_SIZE);
        if size < 2 || usize::from(size) > MAX_QUEUE {
            return None;
        }
        let address = (memory.0.get() as u32) >> 12;
        // SAFETY: a register of the device, which has this memory from now on.
        unsafe { Port::<u32>::new(self.ports + QUEUE_ADDRESS).write(address) };
        Some(Queue {
            device: self,
            number,
            size,
            memory,
            posted: 0,
            seen: 0,
        })
    }

    /// Everything is set up.
    pub(crate) fn start(self) {
        self.write8(STATUS, READY);
    }

    fn write8(self, register: u16, value: u8) {
        // SAFETY: a register of the device.
        unsafe { Port::<u8>::new(self.ports + register).write(value) };
    }

    fn write16(self, register: u16, value: u16) {
        // SAFETY: a register of the device.
        unsafe { Port::<u16>::new(self.ports + register).write(value) };
    }

    fn read16(self, register: u16) -> u16 {
        // SAFETY: a register of the device.
        unsafe { Port::<u16>::new(self.ports + register).read() }
    }
}

/// A queue of a device.
pub(crate) struct Queue {
    device: Device,
    number: u16,
    size: u16,
    memory: &'static Memory,
    /// How many chains of descriptors were handed over.
    posted: u16,
    /// How many of them were taken back.
    seen: u16,
}

// SAFETY: the memory is this queue's alone.
unsafe impl Send for Queue {}

impl Queue {
    fn base(&self) -> *mut u8 {
        self.memory.0.get().cast()
    }

    /// Address of the available ring: right behind the descriptors.
    fn available(&self) -> *mut u16 {
        self.base().wrapping_add(16 * usize::from(self.size)).cast()
    }

    /// Address of the used ring: on the next page.
    fn used(&self) -> *mut u8 {
        let end = 16 * usize::from(self.size) + 6 + 2 * usize::from(self.size);
        self.base().wrapping_add(end.next_multiple_of(4096))
    }

    /// Has it send this message of the device's; says whether the device does.
    pub(crate) fn set_message(&mut self, entry: u16) -> bool {
        self.device.write16(QUEUE_SELECT, self.number);
        self.device.write16(QUEUE_MESSAGE, entry);
        self.device.read16(QUEUE_MESSAGE) != NO_MESSAGE
    }

    /// It sends none.
    pub(crate) fn without_interrupts(&mut self) {
        // SAFETY: the available ring's flags.
        unsafe { self.available().write_volatile(NO_INTERRUPT) };
    }

    /// Writes a descriptor that the device does not have.
    pub(crate) fn set(&mut self, index: u16, descriptor: Descriptor) {
        debug_assert!(index < self.size);
        let at = self.base().cast::<Descriptor>();
        // SAFETY: inside the descriptors, of which there is a whole number of sizes.
        unsafe {
            at.wrapping_add(usize::from(index % self.size))
                .write_volatile(descriptor)
        };
    }

    /// Hands over the chain that begins with this descriptor, of which no other one is under way.
    pub(crate) fn post(&mut self, head: u16) {
        let slot = usize::from(self.posted % self.size);
        self.posted = self.posted.wrapping_add(1);
        // Behind the flags: the index, the entries.
        for (word, value) in [(2 + slot, head), (1, self.posted)] {
            // SAFETY: inside the available ring.
            unsafe { self.available().wrapping_add(word).write_volatile(value) };
        }
    }

    /// Has the device look what there is.
    pub(crate) fn notify(&mut self) {
        fence(core::sync::atomic::Ordering::SeqCst);
        self.device.write16(QUEUE_NOTIFY, self.number);
    }

    /// Whether there is something to take back.
    pub(crate) fn has_used(&self) -> bool {
        // SAFETY: inside the used ring.
        let index = unsafe { &*self.used().wrapping_add(2).cast::<AtomicU16>() };
        index.load(Acquire) != self.seen
    }

    /// Takes back a chain that the device is done with: its first descriptor, and how much the device has written.
    pub(crate) fn take(&mut self) -> Option<(u16, u32)> {
        if !self.has_used() {
            return None;
        }
        let slot = usize::from(self.seen % self.size);
        self.seen = self.seen.wrapping_add(1);
        let entry = self.used().wrapping_add(4 + 8 * slot).cast::<[u32; 2]>();
        // SAFETY: inside the used ring, and the device has written it before its index.
        let [head, len] = unsafe { entry.read_volatile() };
        Some((head as u16, len))
    }
}
