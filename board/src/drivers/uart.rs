//! A serial port by interrupts: a 16550 or 8250 with a ring in front of its receiver and one behind its transmitter.
//!
//! The [`Uart`] is a static, which has the rings; [`Uart::open`] gives the [`Port`], which has embedded-io's traits and may be
//! copied to any number of threads, as std's `&TcpStream`. The handler moves bytes between the rings and the FIFOs and wakes
//! who waits. Rings and registers change under one lock, with interrupts off for at most 16 bytes at a time, so that
//! threads, the handler and other CPUs may do all of it at once.
//!
//! Source: National Semiconductor PC16550D data sheet, 8.0.

use core::sync::atomic::{AtomicBool, Ordering::Relaxed};

use heapless::Deque;
use spin::Once;
use takt_kernel::sync::Semaphore;
use takt_kernel::time::Instant;
use takt_kernel::{Error as KernelError, irq};

use super::Error;
use crate::capture;
use crate::ioapic::{Line, Pin};
use crate::lock::IrqLock;
use crate::uart::{CAUSE, DATA, Fifos, Interrupts, LineStatus, ModemControl, Registers, SCRATCH};

mod port;

pub use port::Port;

/// Bytes for which interrupts are off at most.
const CHUNK: usize = 16;
/// Causes that one interrupt handles at most.
const MAX_CAUSES: usize = 8;
/// The highest speed, in bits a second.
const MAX_BAUD: u32 = 115_200;

/// What went wrong while bytes were received, since the port was opened.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Counts {
    /// The FIFO was full when a byte came: the handler was late, or with the ring full too, the reader. At least as many bytes
    /// are lost.
    pub overruns: u32,
    /// Bytes of a wrong parity. They are read all the same.
    pub parity: u32,
    /// Bytes without a stop bit, as they come at a wrong speed. They are read all the same.
    pub framing: u32,
    /// How often the line was held low for longer than a byte.
    pub breaks: u32,
}

/// Signals from the other side.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Inputs {
    /// Clear to send.
    pub cts: bool,
    /// Data set ready.
    pub dsr: bool,
    /// Ring indicator.
    pub ri: bool,
    /// Data carrier detect.
    pub dcd: bool,
}

/// Signals to the other side.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Outputs {
    /// Data terminal ready.
    pub dtr: bool,
    /// Request to send.
    pub rts: bool,
    /// Nothing goes out: transmitter and outputs are connected to receiver and inputs.
    pub loopback: bool,
}

struct State<const RECEIVE: usize, const TRANSMIT: usize> {
    received: Deque<u8, RECEIVE>,
    to_send: Deque<u8, TRANSMIT>,
    /// Those that are on.
    interrupts: Interrupts,
    /// Bytes that an empty transmitter takes.
    fifo_len: usize,
    counts: Counts,
}

/// A serial port with its rings, of so many bytes: a static.
pub struct Uart<const RECEIVE: usize = 256, const TRANSMIT: usize = 256> {
    name: &'static str,
    registers: Registers,
    isa: u8,
    is_open: AtomicBool,
    line: Once<Line>,
    state: IrqLock<State<RECEIVE, TRANSMIT>>,
    /// Given when bytes have come.
    has_bytes: Semaphore,
    /// Given when bytes have gone.
    has_room: Semaphore,
}

/// What the handler has done.
#[derive(Default)]
struct Handled {
    received: bool,
    sent: bool,
}

/// What the input clock is divided by for so many bits a second, if that comes within 2 %.
fn divisor(baud: u32) -> Option<u16> {
    let divisor = (MAX_BAUD + baud / 2).checked_div(baud)?;
    let got = MAX_BAUD.checked_div(divisor)?;
    (got.abs_diff(baud) <= baud / 50)
        .then_some(divisor)?
        .try_into()
        .ok()
}

/// Whether frames or the console's text go over COM1.
fn is_com1_taken() -> bool {
    #[cfg(feature = "console")]
    let has_console = crate::console::has_port();
    #[cfg(not(feature = "console"))]
    let has_console = false;
    has_console || capture::has_port()
}

impl<const RECEIVE: usize, const TRANSMIT: usize> Uart<RECEIVE, TRANSMIT> {
    /// COM1, which the kernel's own messages go to as well. It cannot be opened while the capture (`capture=com1`) or the console
    /// has it; `console=screen` or `console=off` on the command line leaves it alone.
    #[must_use]
    pub const fn com1() -> Self {
        Self::new("com1", Registers::COM1, 4)
    }

    /// COM2.
    #[must_use]
    pub const fn com2() -> Self {
        Self::new("com2", Registers::COM2, 3)
    }

    /// Any other: what traces call its interrupt, the first of its eight ports, and the number of its ISA interrupt.
    ///
    /// # Safety
    /// A UART, or nothing, has these ports.
    #[must_use]
    pub const unsafe fn at(name: &'static str, base: u16, isa: u8) -> Self {
        // SAFETY: the caller's duty.
        Self::new(name, unsafe { Registers::at(base) }, isa)
    }

    const fn new(name: &'static str, registers: Registers, isa: u8) -> Self {
        const { assert!(RECEIVE > 0 && TRANSMIT > 0) };
        Self {
            name,
            registers,
            isa,
            is_open: AtomicBool::new(false),
            line: Once::new(),
            state: IrqLock::new(State {
                received: Deque::new(),
                to_send: Deque::new(),
                interrupts: Interrupts::empty(),
                fifo_len: 1,
                counts: Counts {
                    overruns: 0,
                    parity: 0,
                    framing: 0,
                    breaks: 0,
                },
            }),
            has_bytes: Semaphore::new(0, 1),
            has_room: Semaphore::new(0, 1),
        }
    }

    /// Sets the port up for so many bits a second, eight data bits, no parity, one stop bit; interrupts come to a CPU.
    ///
    /// # Errors
    /// [`InvalidArgument`](KernelError::InvalidArgument) if no UART answers, it cannot be that fast or slow within 2 %, or the
    /// CPU does not run; [`InvalidState`](KernelError::InvalidState) if the port is open, if it is COM1
    /// and the capture or the console has it, or if its pin has another handler;
    /// [`OutOfResources`](KernelError::OutOfResources) if there is no vector.
    pub fn open(&'static self, baud: u32, cpu: usize) -> Result<Port<RECEIVE, TRANSMIT>, Error> {
        let divisor = divisor(baud).ok_or(KernelError::InvalidArgument)?;
        if self.registers.is_com1() && is_com1_taken() {
            return Err(KernelError::InvalidState.into());
        }
        if self.is_open.swap(true, Relaxed) {
            return Err(KernelError::InvalidState.into());
        }
        match self.start(divisor, cpu) {
            Ok(()) => Ok(Port { uart: self, baud }),
            Err(error) => {
                self.is_open.store(false, Relaxed);
                Err(error.into())
            }
        }
    }

    fn start(&'static self, divisor: u16, cpu: usize) -> Result<(), KernelError> {
        for pattern in [0x5a, 0xa5] {
            self.registers.write(SCRATCH, pattern);
            if self.registers.read(SCRATCH) != pattern {
                return Err(KernelError::InvalidArgument);
            }
        }
        let argument = core::ptr::from_ref(self) as usize;
        let pin = Pin::isa(self.isa)?;
        let irq = irq::request(self.name, on_interrupt::<RECEIVE, TRANSMIT>, argument)?;
        let line = pin.route(irq, cpu)?;
        self.state.with(|state| {
            state.fifo_len = self
                .registers
                .set_divisor(divisor, Fifos::ON | Fifos::EIGHT_BYTES);
            self.registers
                .control_modem(ModemControl::all() - ModemControl::LOOPBACK);
            // What came before, and at another speed.
            self.registers.line_status();
            self.registers.read(DATA);
        });
        self.line.call_once(|| line).unmask();
        self.state
            .with(|state| self.enable(state, Interrupts::RECEIVED));
        Ok(())
    }

    fn enable(&self, state: &mut State<RECEIVE, TRANSMIT>, interrupts: Interrupts) {
        state.interrupts = interrupts;
        self.registers.enable(interrupts);
    }

    /// Reads the line's status, whose errors are gone then: counts them.
    fn line_status(&self, counts: &mut Counts) -> LineStatus {
        let status = self.registers.line_status();
        let has = |bit| u32::from(status.contains(bit));
        counts.overruns += has(LineStatus::OVERRUN);
        counts.breaks += has(LineStatus::BREAK);
        // A break looks like a byte without a stop bit.
        if !status.contains(LineStatus::BREAK) {
            counts.parity += has(LineStatus::PARITY);
            counts.framing += has(LineStatus::FRAMING);
        }
        status
    }

    /// Until the UART wants nothing: its interrupts are edges, and no other comes before.
    fn handle(&self, state: &mut State<RECEIVE, TRANSMIT>) -> Handled {
        let mut handled = Handled::default();
        for _ in 0..MAX_CAUSES {
            let cause = self.registers.read(CAUSE);
            if cause & 1 != 0 {
                return handled;
            }
            match cause >> 1 & 7 {
                0 => _ = self.registers.modem_status(),
                1 => handled.sent |= self.send(state),
                _ => handled.received |= self.receive(state),
            }
        }
        // It goes on to want something: the next edge, for which others may run first.
        self.registers.enable(Interrupts::empty());
        self.registers.enable(state.interrupts);
        handled
    }

    /// From the FIFO to the ring; says whether there were any. What the ring has no room for stays in the FIFO until somebody
    /// reads: a sender that sees it full waits, and one that is faster than the reader does not keep the CPU in this handler.
    fn receive(&self, state: &mut State<RECEIVE, TRANSMIT>) -> bool {
        for nr in 0..CHUNK {
            if state.received.is_full() {
                self.enable(state, state.interrupts - Interrupts::RECEIVED);
                return nr != 0;
            }
            let status = self.line_status(&mut state.counts);
            if !status.contains(LineStatus::DATA_READY) {
                return nr != 0;
            }
            let byte = self.registers.read(DATA);
            // What comes with a break is no byte.
            if !status.contains(LineStatus::BREAK) {
                let _ = state.received.push_back(byte);
            }
        }
        true
    }

    /// From the ring to the FIFO; says whether there were any.
    fn send(&self, state: &mut State<RECEIVE, TRANSMIT>) -> bool {
        let status = self.line_status(&mut state.counts);
        if !status.contains(LineStatus::TRANSMIT_EMPTY) {
            return false;
        }
        for nr in 0..state.fifo_len {
            let Some(byte) = state.to_send.pop_front() else {
                self.enable(state, state.interrupts - Interrupts::ROOM);
                return nr != 0;
            };
            self.registers.write(DATA, byte);
        }
        true
    }
}

extern "C" fn on_interrupt<const RECEIVE: usize, const TRANSMIT: usize>(uart: usize, _: Instant) {
    // SAFETY: `start` gives the address of a static of this type.
    let uart = unsafe { &*(uart as *const Uart<RECEIVE, TRANSMIT>) };
    let handled = uart.state.with(|state| uart.handle(state));
    // A permit that nobody has taken says it as well.
    if handled.received {
        let _ = uart.has_bytes.give();
    }
    if handled.sent {
        let _ = uart.has_room.give();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn speeds_come_within_two_percent() {
        for (baud, expected) in [
            (115_200, Some(1)),
            (57_600, Some(2)),
            (38_400, Some(3)),
            (9_600, Some(12)),
            (31_250, None),
            (2, Some(57_600)),
            (1, None),
            (230_400, None),
            (0, None),
        ] {
            assert_eq!(divisor(baud), expected, "{baud}");
        }
    }
}
