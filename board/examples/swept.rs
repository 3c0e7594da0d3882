//! An application that marks a stretch of its own for `cargo xtask latency-sweep --example swept`.
//!
//! The stretch takes a message, works on it and hands it on. Booted without a sweep (`cargo xtask run swept`) the marks do
//! nothing.
#![no_std]
#![no_main]

use takt_kernel::sync::Queue;
use takt_kernel::thread;
use takt_timerlat::{sweep_begin, sweep_end};

takt_board::entry!(main);

static INBOX: Queue<u32, 4> = Queue::new();
static OUTBOX: Queue<u32, 4> = Queue::new();

fn checksum(mut value: u32) -> u32 {
    for _ in 0..8 {
        value = value.rotate_left(5) ^ 0x9e37_79b9;
    }
    value
}

fn main(_: &'static str) {
    // Has no effect unless latency-sweep boots this image.
    takt_board::sweep::start();
    // Below the measured thread.
    if thread::current().set_priority(50).is_err() {
        return;
    }
    for number in 0..1_000_000 {
        // The same state each time: a full inbox, an empty outbox.
        let _ = INBOX.try_send(7);
        sweep_begin!();
        if let Ok(message) = INBOX.try_receive() {
            let _ = OUTBOX.try_send(checksum(message));
        }
        sweep_end!();
        let _ = OUTBOX.try_receive();
        if number == 0 && !takt_timerlat::sweep::is_on() {
            defmt::info!("not swept: cargo xtask latency-sweep --example swept");
            return;
        }
    }
}
