//! Counts what the others tell it, and logs that when nothing more important is to be done.
#![no_std]
#![no_main]

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

use takt_user::{Instant, receive};

takt_user::entry!(main);

const TURN: u32 = 1;
const FAULT: u32 = 2;

fn main(_: u64) {
    let (mut turns, mut faults) = (0u32, 0u32);
    // SAFETY: a page, which the manifest has this task read.
    let lateness = unsafe { &*takt_user::region!("lateness").cast::<AtomicU64>() };
    while let Ok(received) = receive(TURN | FAULT, Instant::NEVER) {
        turns += u32::from(received.bits & TURN != 0);
        faults += u32::from(received.bits & FAULT != 0);
        if turns % 10 == 0 || received.bits & FAULT != 0 {
            let late = lateness.load(Relaxed);
            defmt::info!(
                "{=u32} set points, {=u32} faults, turns late by {=u64} ns at most",
                turns,
                faults,
                late
            );
        }
    }
}
