//! The driver of the serial port that the valve is at the other end of: COM2, a 16550. Each message is a set point, and becomes a line.
//! It has a bug: one set point makes it write to where it must not.
#![no_std]
#![no_main]

use core::fmt::Write;

use takt_user::device::{Port, acknowledge};
use takt_user::{Instant, interrupt, port, receive, reply_and_receive};

takt_user::entry!(main);

/// The set point that it does not bear.
const BAD: u64 = 7;
/// In the kernel.
const WILD: *mut u64 = 0x100_0000 as *mut u64;

/// Registers, behind the first port. Source: National Semiconductor PC16550D data sheet, 8.0.
const DATA: u16 = 0;
const INTERRUPTS: u16 = 1;
const FIFO_CONTROL: u16 = 2;
const LINE_CONTROL: u16 = 3;
const MODEM_CONTROL: u16 = 4;
const LINE_STATUS: u16 = 5;

/// Bytes that the empty transmitter takes.
const FIFO_LEN: usize = 16;

/// What has yet to be sent.
struct Queue {
    bytes: [u8; 256],
    begin: usize,
    len: usize,
}

/// What there is no room for is lost.
impl Write for Queue {
    fn write_str(&mut self, text: &str) -> core::fmt::Result {
        for byte in text.bytes() {
            if self.len < self.bytes.len() {
                let end = (self.begin + self.len) % self.bytes.len();
                self.bytes[end] = byte;
                self.len += 1;
            }
        }
        Ok(())
    }
}

impl Queue {
    fn take(&mut self) -> Option<u8> {
        self.len = self.len.checked_sub(1)?;
        let byte = self.bytes[self.begin];
        self.begin = (self.begin + 1) % self.bytes.len();
        Some(byte)
    }
}

fn register(offset: u16) -> Port {
    port!("com2").behind(offset)
}

fn write(offset: u16, value: u8) {
    // SAFETY: the UART's, which writes to no memory.
    unsafe { register(offset).write_u8(value) };
}

/// 115,200 bits a second, 8N1; nothing of what an earlier life left.
fn set_up() {
    write(INTERRUPTS, 0);
    write(LINE_CONTROL, 1 << 7);
    write(DATA, 1);
    write(INTERRUPTS, 0);
    write(LINE_CONTROL, 3);
    write(FIFO_CONTROL, 7);
    // Its interrupt is led outside.
    write(MODEM_CONTROL, 1 << 3 | 3);
}

/// Gives the transmitter what it takes, which interrupts when it takes more.
fn send(queue: &mut Queue) {
    // SAFETY: reading the line's status has no effect.
    let is_empty = unsafe { register(LINE_STATUS).read_u8() } & 1 << 5 != 0;
    if is_empty {
        for byte in core::iter::from_fn(|| queue.take()).take(FIFO_LEN) {
            write(DATA, byte);
        }
    }
    // Off and on is another edge, whatever came before.
    write(INTERRUPTS, 0);
    write(INTERRUPTS, u8::from(queue.len != 0) << 1);
}

fn main(_: u64) {
    let interrupt = interrupt!("com2");
    let mut queue = Queue {
        bytes: [0; 256],
        begin: 0,
        len: 0,
    };
    set_up();
    // From here on, and whenever it has come.
    let _ = acknowledge(interrupt);
    let mut received = receive(interrupt, Instant::NEVER);
    while let Ok(it) = received {
        if it.bits & interrupt != 0 {
            let _ = acknowledge(interrupt);
        }
        let set_point = it.call.map(|call| call.message[0]);
        if set_point == Some(BAD) {
            // SAFETY: none. That is the bug.
            unsafe { WILD.write_volatile(BAD) };
        }
        if let Some(set_point) = set_point {
            // It cannot fail.
            let _ = writeln!(queue, "valve to {set_point} per mille");
        }
        send(&mut queue);
        received = match set_point {
            Some(_) => reply_and_receive([0; 6], interrupt, Instant::NEVER),
            None => receive(interrupt, Instant::NEVER),
        };
    }
}
