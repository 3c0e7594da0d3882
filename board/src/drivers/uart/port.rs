//! [`Port`]: what a thread has of an open serial port.

use embedded_io::{ErrorType, Read, ReadReady, Write, WriteReady};
use takt_kernel::time::{Instant, Nanos, sleep};

use super::{CHUNK, Counts, Error, Inputs, Outputs, Uart};
use crate::ioapic::Line;
use crate::uart::{Interrupts, LineStatus, ModemControl, ModemStatus};

/// An open serial port.
///
/// # Context
/// Threads. Where there is nothing to wait for, interrupt handlers as well.
pub struct Port<const RECEIVE: usize = 256, const TRANSMIT: usize = 256> {
    pub(super) uart: &'static Uart<RECEIVE, TRANSMIT>,
    pub(super) baud: u32,
}

impl<const RECEIVE: usize, const TRANSMIT: usize> Clone for Port<RECEIVE, TRANSMIT> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<const RECEIVE: usize, const TRANSMIT: usize> Copy for Port<RECEIVE, TRANSMIT> {}

impl<const RECEIVE: usize, const TRANSMIT: usize> Port<RECEIVE, TRANSMIT> {
    /// Takes what has come, 16 bytes at most, and waits for the first one.
    ///
    /// # Errors
    /// [`TimedOut`](takt_kernel::Error::TimedOut); [`WrongContext`](takt_kernel::Error::WrongContext) if it would have to wait where that is
    /// not allowed.
    pub fn read_until(&self, bytes: &mut [u8], deadline: Instant) -> Result<usize, Error> {
        let Self { uart, .. } = self;
        if bytes.is_empty() {
            return Ok(0);
        }
        let mut has_waited = false;
        loop {
            let (nr, has_more) = uart.state.with(|state| {
                let mut nr = 0;
                for to in bytes.iter_mut().take(CHUNK) {
                    let Some(byte) = state.received.pop_front() else {
                        break;
                    };
                    *to = byte;
                    nr += 1;
                }
                if !state.interrupts.contains(Interrupts::RECEIVED) {
                    // There is room again for what is in the FIFO.
                    uart.enable(state, state.interrupts | Interrupts::RECEIVED);
                }
                (nr, !state.received.is_empty())
            });
            if nr > 0 {
                // It took the permit, and others may wait too.
                if has_waited && has_more {
                    let _ = uart.has_bytes.give();
                }
                return Ok(nr);
            }
            uart.has_bytes.take_until(deadline)?;
            has_waited = true;
        }
    }

    /// Puts bytes into the ring, 16 at most, and waits for room for the first one.
    ///
    /// # Errors
    /// As [`read_until`](Self::read_until).
    pub fn write_until(&self, bytes: &[u8], deadline: Instant) -> Result<usize, Error> {
        let Self { uart, .. } = self;
        if bytes.is_empty() {
            return Ok(0);
        }
        let mut has_waited = false;
        loop {
            let (nr, has_more) = uart.state.with(|state| {
                let mut nr = 0;
                for &byte in bytes.iter().take(CHUNK) {
                    if state.to_send.push_back(byte).is_err() {
                        break;
                    }
                    nr += 1;
                }
                if !state.interrupts.contains(Interrupts::ROOM) {
                    // An empty transmitter says so at once.
                    uart.enable(state, state.interrupts | Interrupts::ROOM);
                }
                (nr, !state.to_send.is_full())
            });
            if nr > 0 {
                if has_waited && has_more {
                    let _ = uart.has_room.give();
                }
                return Ok(nr);
            }
            uart.has_room.take_until(deadline)?;
            has_waited = true;
        }
    }

    /// What went wrong so far.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.uart.state.with(|state| state.counts)
    }

    /// The signals from the other side, now.
    #[must_use]
    pub fn inputs(&self) -> Inputs {
        let status = self.uart.registers.modem_status();
        Inputs {
            cts: status.contains(ModemStatus::CTS),
            dsr: status.contains(ModemStatus::DSR),
            ri: status.contains(ModemStatus::RI),
            dcd: status.contains(ModemStatus::DCD),
        }
    }

    /// Sets the signals to the other side.
    pub fn set_outputs(&self, outputs: Outputs) {
        let mut signals = ModemControl::OUT2;
        signals.set(ModemControl::DTR, outputs.dtr);
        signals.set(ModemControl::RTS, outputs.rts);
        signals.set(ModemControl::LOOPBACK, outputs.loopback);
        self.uart.registers.control_modem(signals);
    }

    /// The interrupt: its name, and to which CPU it comes.
    #[must_use]
    pub fn line(&self) -> Option<&'static Line> {
        self.uart.line.get()
    }
}

impl<const RECEIVE: usize, const TRANSMIT: usize> ErrorType for Port<RECEIVE, TRANSMIT> {
    type Error = Error;
}

impl<const RECEIVE: usize, const TRANSMIT: usize> Read for Port<RECEIVE, TRANSMIT> {
    fn read(&mut self, bytes: &mut [u8]) -> Result<usize, Error> {
        self.read_until(bytes, Instant::NEVER)
    }
}

impl<const RECEIVE: usize, const TRANSMIT: usize> ReadReady for Port<RECEIVE, TRANSMIT> {
    fn read_ready(&mut self) -> Result<bool, Error> {
        Ok(self.uart.state.with(|state| !state.received.is_empty()))
    }
}

impl<const RECEIVE: usize, const TRANSMIT: usize> Write for Port<RECEIVE, TRANSMIT> {
    fn write(&mut self, bytes: &[u8]) -> Result<usize, Error> {
        self.write_until(bytes, Instant::NEVER)
    }

    /// Waits until the last bit has gone out. No interrupt tells of that, so it looks again when it should be so far.
    fn flush(&mut self) -> Result<(), Error> {
        let Self { uart, baud } = *self;
        let byte_ns = 10 * 1_000_000_000 / u64::from(baud);
        loop {
            let (nr, status) = uart.state.with(|state| {
                let nr = state.to_send.len();
                (nr, uart.line_status(&mut state.counts))
            });
            if nr == 0 && status.contains(LineStatus::IDLE) {
                return Ok(());
            }
            sleep(Nanos::new(byte_ns * (nr as u64 + 1)))?;
        }
    }
}

impl<const RECEIVE: usize, const TRANSMIT: usize> WriteReady for Port<RECEIVE, TRANSMIT> {
    fn write_ready(&mut self) -> Result<bool, Error> {
        Ok(self.uart.state.with(|state| !state.to_send.is_full()))
    }
}
