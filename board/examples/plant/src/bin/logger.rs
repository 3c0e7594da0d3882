//! Counts what the others tell it, and logs that when nothing more important is to be done.
#![no_std]
#![no_main]

use takt_user::{NEVER, log, receive};

takt_user::entry!(main);

const TURN: u32 = 1;
const FAULT: u32 = 2;

fn main(_: u64) {
    let (mut turns, mut faults) = (0, 0);
    while let Ok(received) = receive(TURN | FAULT, NEVER) {
        turns += u32::from(received.bits & TURN != 0);
        faults += u32::from(received.bits & FAULT != 0);
        if turns % 10 == 0 || received.bits & FAULT != 0 {
            log!("{turns} set points, {faults} faults");
        }
    }
}
