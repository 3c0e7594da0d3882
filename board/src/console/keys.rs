//! Keys that are pressed: on the serial line, and on a PS/2 keyboard.

use bitflags::bitflags;
use embedded_io::{Read, ReadReady};
use takt_kernel::machine::Port;

use crate::serial::Serial;

/// Ports of the keyboard's controller.
///
/// Source: IBM PS/2 hardware interface technical reference, keyboard and auxiliary device controller.
const DATA: u16 = 0x60;
const STATUS: u16 = 0x64;
/// What ports give that belong to nothing.
const NOBODY: u8 = 0xff;

bitflags! {
    struct Status: u8 {
        const HAS_DATA = 1 << 0;
        const FROM_MOUSE = 1 << 5;
    }
}

/// The key `q` where it is on a US keyboard, in scan code set 1, into which the controller translates.
const Q: u8 = 0x10;

/// Whether `q` was pressed since the last call.
pub(super) fn is_quit(has_serial: bool) -> bool {
    let mut serial = Serial::com1();
    let mut is_quit = false;
    // Bounded, should the ports belong to something else.
    for _ in 0..16 {
        let mut byte = [0];
        // What is there is read at once.
        let has_typed = has_serial && serial.read_ready() == Ok(true);
        if has_typed && serial.read(&mut byte) == Ok(1) {
            is_quit |= byte == *b"q";
        }
        let status = Status::from_bits_retain(read(STATUS));
        let is_there = status.bits() != NOBODY;
        let has_pressed = is_there && status.contains(Status::HAS_DATA);
        if has_pressed {
            let code = read(DATA);
            is_quit |= code == Q && !status.contains(Status::FROM_MOUSE);
        }
        // On a real machine each look at a port takes a microsecond, in which no interrupt is taken.
        if !has_typed && !has_pressed {
            break;
        }
    }
    is_quit
}

fn read(port: u16) -> u8 {
    // SAFETY: the ports belong to the keyboard's controller or to nothing.
    unsafe { Port::<u8>::new(port).read() }
}
