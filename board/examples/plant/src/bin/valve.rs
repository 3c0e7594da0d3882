//! What drives the valve. It has a bug: one set point makes it write to where it must not.
#![no_std]
#![no_main]

use takt_user::{NEVER, receive, reply_and_receive};

takt_user::entry!(main);

/// The set point that it does not bear.
const BAD: u64 = 7;
/// In the kernel.
const WILD: *mut u64 = 0x100_0000 as *mut u64;

fn main(_: u64) {
    let mut received = receive(0, NEVER);
    while let Ok(it) = received {
        let set_point = it.call.map_or(0, |call| call.message[0]);
        if set_point == BAD {
            // SAFETY: none. That is the bug.
            unsafe { WILD.write_volatile(set_point) };
        }
        received = reply_and_receive([set_point, 0, 0, 0, 0, 0], 0, NEVER);
    }
}
