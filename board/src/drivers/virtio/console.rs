//! A virtio console by interrupts.

use core::sync::atomic::{AtomicBool, Ordering::Relaxed};

use embedded_io::{ErrorType, Read, ReadReady, Write, WriteReady};
use heapless::Vec;
use spin::Once;
use takt_kernel::Error as KernelError;
use takt_kernel::sync::Semaphore;
use takt_kernel::time::{Instant, Nanos, sleep};

use super::super::Error;
use super::{BUFFER, Buffers, CONSOLE, attach};
use crate::lock::IrqLock;
use crate::pci::{Function, Msix};
use crate::virtio::queue::{Device, Memory, Queue};

const RECEIVE_QUEUE: u16 = 0;
const TRANSMIT_QUEUE: u16 = 1;
/// Buffers of each direction.
const NR: usize = 4;
/// How long it takes at most to see that everything is sent.
const FLUSH_POLL: Nanos = Nanos::from_micros(100);

/// What was received and not read to its end.
struct Rest {
    buffer: u16,
    at: usize,
    len: usize,
}

struct State {
    receive: Queue,
    rest: Option<Rest>,
    transmit: Queue,
    /// Buffers that the device does not have.
    free: Vec<u16, NR>,
}

/// A console with its queues and buffers: a static. The host waits with what it sends until there is a buffer: nothing is lost.
pub struct Console {
    is_open: AtomicBool,
    memory: [Memory; 2],
    received: Buffers<NR>,
    sent: Buffers<NR>,
    state: Once<(IrqLock<State>, Msix)>,
    has_bytes: Semaphore,
    has_room: Semaphore,
}

impl Default for Console {
    fn default() -> Self {
        Self::new()
    }
}

impl Console {
    /// One that is not open.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            is_open: AtomicBool::new(false),
            memory: [const { Memory::new() }; 2],
            received: Buffers::new(),
            sent: Buffers::new(),
            state: Once::new(),
            has_bytes: Semaphore::new(0, 1),
            has_room: Semaphore::new(0, 1),
        }
    }

    /// Sets up the console of this function; its interrupts come to a CPU.
    ///
    /// # Errors
    /// [`InvalidArgument`](KernelError::InvalidArgument) if the function is no console, has no legacy interface or no messages,
    /// or the CPU does not run; [`InvalidState`](KernelError::InvalidState) if this value was opened before, or somebody drives
    /// the function: the capture does; [`OutOfResources`](KernelError::OutOfResources) if there is no vector.
    pub fn open(&'static self, function: Function, cpu: usize) -> Result<Port, Error> {
        if self.is_open.swap(true, Relaxed) {
            return Err(KernelError::InvalidState.into());
        }
        let queue = |device: Device, number: u16| {
            // SAFETY: `is_open` is this call's. It stays true, unless the device is reset.
            let queue = unsafe { device.queue(number, &self.memory[usize::from(number)]) };
            queue.and_then(|mut queue| queue.set_message(0).then_some(queue))
        };
        let state = |device| {
            Some(State {
                receive: queue(device, RECEIVE_QUEUE)?,
                rest: None,
                transmit: queue(device, TRANSMIT_QUEUE)?,
                free: (0..NR as u16).collect(),
            })
        };
        let argument = core::ptr::from_ref(self) as usize;
        let attached = attach(
            function,
            CONSOLE,
            cpu,
            "virtio-console",
            on_interrupt,
            argument,
            state,
        );
        let (msix, state) = attached.inspect_err(|_| self.is_open.store(false, Relaxed))?;
        let (state, _) = self.state.call_once(|| (IrqLock::new(state), msix));
        state.with(|state| {
            for buffer in 0..NR as u16 {
                self.received
                    .hand_over(&mut state.receive, buffer, BUFFER, true);
            }
        });
        Ok(Port {
            console: self,
            state,
        })
    }
}

extern "C" fn on_interrupt(console: usize, _: Instant) {
    // SAFETY: `open` gives the address of a static.
    let console = unsafe { &*(console as *const Console) };
    // It is not told which of both; a permit that nobody has taken says it as well.
    let _ = console.has_bytes.give();
    let _ = console.has_room.give();
}

/// An open console, which may be copied to any number of threads.
///
/// # Context
/// Threads. Where there is nothing to wait for, interrupt handlers as well.
#[derive(Clone, Copy)]
pub struct Port {
    console: &'static Console,
    state: &'static IrqLock<State>,
}

impl State {
    /// Something was received that was not read.
    fn has_bytes(&self) -> bool {
        self.rest.is_some() || self.receive.has_used()
    }

    fn read(&mut self, buffers: &'static Buffers<NR>, bytes: &mut [u8]) -> usize {
        loop {
            let rest = match self.rest.take() {
                Some(rest) => rest,
                None => match self.receive.take() {
                    Some((buffer, len)) => Rest {
                        buffer,
                        at: 0,
                        len: BUFFER.min(len as usize),
                    },
                    None => return 0,
                },
            };
            let Some(from) = buffers.0.get(usize::from(rest.buffer)) else {
                continue;
            };
            // SAFETY: the device has given it back, and the lock is held.
            let from = unsafe { &*from.get() };
            let from = &from[rest.at..rest.len];
            let nr = from.len().min(bytes.len());
            bytes[..nr].copy_from_slice(&from[..nr]);
            if nr < from.len() {
                self.rest = Some(Rest {
                    at: rest.at + nr,
                    ..rest
                });
            } else {
                buffers.hand_over(&mut self.receive, rest.buffer, BUFFER, true);
            }
            if nr > 0 {
                return nr;
            }
        }
    }

    /// Takes back what was sent; says how many buffers are free.
    fn reclaim(&mut self) -> usize {
        while let Some((buffer, _)) = self.transmit.take() {
            // There is room for all that there are.
            let _ = self.free.push(buffer);
        }
        self.free.len()
    }

    fn write(&mut self, buffers: &'static Buffers<NR>, bytes: &[u8]) -> usize {
        self.reclaim();
        let Some(buffer) = self.free.pop() else {
            return 0;
        };
        let Some(to) = buffers.0.get(usize::from(buffer)) else {
            return 0;
        };
        let nr = bytes.len().min(BUFFER);
        // SAFETY: the device has given it back, and the lock is held.
        let to = unsafe { &mut *to.get() };
        to[..nr].copy_from_slice(&bytes[..nr]);
        buffers.hand_over(&mut self.transmit, buffer, nr, false);
        nr
    }
}

impl Port {
    /// Takes what has come, 64 bytes at most, and waits for the first one.
    ///
    /// # Errors
    /// [`TimedOut`](KernelError::TimedOut); [`WrongContext`](KernelError::WrongContext) if it would have to wait where that is
    /// not allowed.
    pub fn read_until(&self, bytes: &mut [u8], deadline: Instant) -> Result<usize, Error> {
        if bytes.is_empty() {
            return Ok(0);
        }
        loop {
            let (nr, has_more) = self.state.with(|state| {
                let nr = state.read(&self.console.received, bytes);
                (nr, state.has_bytes())
            });
            if nr > 0 {
                // Others may wait too, and it may have taken their permit.
                if has_more {
                    let _ = self.console.has_bytes.give();
                }
                return Ok(nr);
            }
            self.console.has_bytes.take_until(deadline)?;
        }
    }

    /// Sends bytes, 64 at most, and waits for a buffer for them.
    ///
    /// # Errors
    /// As [`read_until`](Self::read_until).
    pub fn write_until(&self, bytes: &[u8], deadline: Instant) -> Result<usize, Error> {
        if bytes.is_empty() {
            return Ok(0);
        }
        loop {
            let (nr, has_more) = self.state.with(|state| {
                let nr = state.write(&self.console.sent, bytes);
                (nr, !state.free.is_empty())
            });
            if nr > 0 {
                if has_more {
                    let _ = self.console.has_room.give();
                }
                return Ok(nr);
            }
            self.console.has_room.take_until(deadline)?;
        }
    }
}

impl ErrorType for Port {
    type Error = Error;
}

impl Read for Port {
    fn read(&mut self, bytes: &mut [u8]) -> Result<usize, Error> {
        self.read_until(bytes, Instant::NEVER)
    }
}

impl ReadReady for Port {
    fn read_ready(&mut self) -> Result<bool, Error> {
        Ok(self.state.with(|state| state.has_bytes()))
    }
}

impl Write for Port {
    fn write(&mut self, bytes: &[u8]) -> Result<usize, Error> {
        self.write_until(bytes, Instant::NEVER)
    }

    /// Waits until the host has everything.
    fn flush(&mut self) -> Result<(), Error> {
        while self.state.with(State::reclaim) < NR {
            sleep(FLUSH_POLL)?;
        }
        Ok(())
    }
}

impl WriteReady for Port {
    fn write_ready(&mut self) -> Result<bool, Error> {
        Ok(self.state.with(|state| state.reclaim() > 0))
    }
}
