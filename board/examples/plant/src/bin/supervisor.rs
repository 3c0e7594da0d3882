//! Has each task that is stopped begin anew, and feeds watchdogs.
#![no_std]
#![no_main]

use takt_user::abi::fault;
use takt_user::{Error, Instant, Nanos, Peer, feed, receive, reply_and_receive};

takt_user::entry!(main);

const LOGGER: Peer = Peer::new(0);

/// How often it feeds the watchdogs that the manifest gives it.
const PAUSE: Nanos = Nanos::from_millis(250);

fn main(_: u64) {
    let mut received = receive(0, Instant::after(PAUSE));
    loop {
        // It may have none.
        let _ = feed();
        let mut answer = [0; 6];
        received = match received {
            Ok(it) => {
                if let Some(call) = it.call.filter(|call| call.is_fault) {
                    defmt::warn!(
                        "task {=u32} stopped at {=u64:#x} in life {=u64}, {=u64} ns; it begins anew",
                        call.badge,
                        call.message[fault::RIP],
                        call.message[fault::GENERATION],
                        Instant::now().nanos()
                    );
                    answer[0] = fault::RESTART;
                    let _ = LOGGER.notify(2);
                }
                reply_and_receive(answer, 0, Instant::after(PAUSE))
            }
            Err(Error::TimedOut) => receive(0, Instant::after(PAUSE)),
            Err(_) => return,
        };
    }
}
