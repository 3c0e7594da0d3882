//! Has each task that is stopped begin anew.
#![no_std]
#![no_main]

use takt_user::abi::fault;
use takt_user::{NEVER, Peer, log, receive, reply_and_receive, time};

takt_user::entry!(main);

const LOGGER: Peer = Peer::new(0);

fn main(_: u64) {
    let mut received = receive(0, NEVER);
    while let Ok(it) = received {
        let mut answer = [0; 6];
        if let Some(call) = it.call.filter(|call| call.is_fault) {
            log!(
                "task {} stopped at {:#x} in life {}, {} ns; it begins anew",
                call.badge,
                call.message[fault::RIP],
                call.message[fault::GENERATION],
                time()
            );
            answer[0] = fault::RESTART;
            let _ = LOGGER.notify(2);
        }
        received = reply_and_receive(answer, 0, NEVER);
    }
}
