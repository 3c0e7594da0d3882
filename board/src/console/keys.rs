//! Keys that are pressed: on the serial line, and on a PS/2 keyboard.

use embedded_io::{Read, ReadReady};
use takt_kernel::machine::Port;

use crate::serial::Serial;

/// Ports of the keyboard's controller, and its bits.
///
/// Source: IBM PS/2 hardware interface technical reference, keyboard and auxiliary device controller.
const DATA: u16 = 0x60;
const STATUS: u16 = 0x64;
const HAS_DATA: u8 = 1 << 0;
const FROM_MOUSE: u8 = 1 << 5;
/// What ports give that belong to nothing.
const NOBODY: u8 = 0xff;
/// The key `q` where it is on a US keyboard, in scan code set 1, into which the controller translates.
const Q: u8 = 0x10;

/// Whether `q` was pressed since the last call.
pub(super) fn is_quit(has_serial: bool) -> bool {
    let mut serial = Serial::com1_as_is();
    let mut is_quit = false;
    // Bounded, should the ports belong to something else.
    for _ in 0..16 {
        let mut byte = [0];
        // What is there is read at once.
        let has_typed = has_serial && serial.read_ready() == Ok(true);
        if has_typed && serial.read(&mut byte) == Ok(1) {
            is_quit |= byte == *b"q";
        }
        let status = read(STATUS);
        let has_pressed = status != NOBODY && status & HAS_DATA != 0;
        if has_pressed {
            let code = read(DATA);
            is_quit |= code == Q && status & FROM_MOUSE == 0;
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
