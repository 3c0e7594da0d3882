//! A virtio source of entropy.

use core::sync::atomic::{AtomicBool, Ordering::Relaxed};

use rand_core::{TryCryptoRng, TryRng};
use spin::Once;
use takt_kernel::Error as KernelError;
use takt_kernel::sync::{Mutex, Semaphore};
use takt_kernel::time::Instant;

use super::super::Error;
use super::{BUFFER, Buffers, ENTROPY, attach};
use crate::pci::{Function, Msix};
use crate::virtio::queue::{Device, Memory, Queue};

/// A source of entropy with its queue and buffer: a static.
pub struct Entropy {
    is_open: AtomicBool,
    /// The device has the buffer.
    is_posted: AtomicBool,
    memory: Memory,
    buffer: Buffers<1>,
    state: Once<(Mutex<Queue>, Msix)>,
    has_bytes: Semaphore,
}

impl Default for Entropy {
    fn default() -> Self {
        Self::new()
    }
}

impl Entropy {
    /// One that is not open.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            is_open: AtomicBool::new(false),
            is_posted: AtomicBool::new(false),
            memory: Memory::new(),
            buffer: Buffers::new(),
            state: Once::new(),
            has_bytes: Semaphore::new(0, 1),
        }
    }

    /// Sets up the device of this function; its interrupts come to a CPU.
    ///
    /// # Errors
    /// [`InvalidArgument`](KernelError::InvalidArgument) if the function is no such device, has no legacy interface or no
    /// messages, or the CPU does not run; [`InvalidState`](KernelError::InvalidState) if this value was opened before, or
    /// somebody drives the function; [`OutOfResources`](KernelError::OutOfResources) if there is no vector.
    pub fn open(&'static self, function: Function, cpu: usize) -> Result<Source, Error> {
        if self.is_open.swap(true, Relaxed) {
            return Err(KernelError::InvalidState.into());
        }
        let queue = |device: Device| {
            // SAFETY: `is_open` is this call's. It stays true, unless the device is reset.
            let queue = unsafe { device.queue(0, &self.memory) };
            queue.and_then(|mut queue| queue.set_message(0).then_some(queue))
        };
        let argument = core::ptr::from_ref(self) as usize;
        let attached = attach(
            function,
            ENTROPY,
            cpu,
            "virtio-entropy",
            on_interrupt,
            argument,
            queue,
        );
        let (msix, queue) = attached.inspect_err(|_| self.is_open.store(false, Relaxed))?;
        let (queue, _) = self.state.call_once(|| (Mutex::new(queue), msix));
        Ok(Source {
            entropy: self,
            queue,
        })
    }
}

extern "C" fn on_interrupt(entropy: usize, _: Instant) {
    // SAFETY: `open` gives the address of a static.
    let entropy = unsafe { &*(entropy as *const Entropy) };
    // A permit that nobody has taken says it as well.
    let _ = entropy.has_bytes.give();
}

/// An open source of entropy, which may be copied to any number of threads: they take turns. Its bytes are as random as the
/// host's; QEMU's `rng-builtin` gives the same ones each time if it was told a `-seed`.
///
/// # Context
/// Threads.
#[derive(Clone, Copy)]
pub struct Source {
    entropy: &'static Entropy,
    queue: &'static Mutex<Queue>,
}

impl TryRng for Source {
    type Error = Error;

    fn try_next_u32(&mut self) -> Result<u32, Error> {
        let mut bytes = [0; 4];
        self.try_fill_bytes(&mut bytes)?;
        Ok(u32::from_ne_bytes(bytes))
    }

    fn try_next_u64(&mut self) -> Result<u64, Error> {
        let mut bytes = [0; 8];
        self.try_fill_bytes(&mut bytes)?;
        Ok(u64::from_ne_bytes(bytes))
    }

    /// Waits until the host has given them, 64 at a time.
    fn try_fill_bytes(&mut self, mut bytes: &mut [u8]) -> Result<(), Error> {
        let Self { entropy, queue } = *self;
        let mut queue = queue.lock()?;
        let wait = |queue: &mut Queue| loop {
            if let Some((_, len)) = queue.take() {
                entropy.is_posted.store(false, Relaxed);
                return Ok::<_, Error>(len as usize);
            }
            entropy.has_bytes.take()?;
        };
        // Of a call that could not wait: the buffer is the device's until then, and what it holds is nobody's.
        if entropy.is_posted.load(Relaxed) {
            wait(&mut queue)?;
        }
        while !bytes.is_empty() {
            let wanted = bytes.len().min(BUFFER);
            entropy.buffer.hand_over(&mut queue, 0, wanted, true);
            entropy.is_posted.store(true, Relaxed);
            let len = wait(&mut queue)?;
            // SAFETY: the device has given it back, and the queue is locked.
            let from = unsafe { &mut *entropy.buffer.0[0].get() };
            let (now, later) = bytes.split_at_mut(len.min(wanted));
            now.copy_from_slice(&from[..now.len()]);
            // Nobody reads them a second time.
            from.fill(0);
            bytes = later;
        }
        Ok(())
    }
}

impl TryCryptoRng for Source {}
