//! A chain of tasks that wait for each other, of which the first gives up at a time that all know.

use takt_user::{Error, Instant, Nanos, Peer, exit, receive, reply, sleep_until};

/// Between two times, in nanoseconds.
const PERIOD: u64 = 1_000_000;
/// From then on the first one waits for so long, and the last one sleeps.
const PATIENCE: u64 = 300_000;
const SLEEP: u64 = 600_000;

/// The handles of the first one's peer, and of the next ones', a byte each.
const FIRST: Peer = Peer::new(2);
const NEXT: u64 = 0x01_00_01_00;

/// Passes a message on, so many times. The last one, which is told that none is behind it, sleeps until the time that it is told.
pub(crate) fn relay(rounds: u64) {
    for _ in 0..rounds {
        let Ok(Some(call)) = receive(0, Instant::NEVER).map(|it| it.call) else {
            exit(1)
        };
        let [nr, until, next, ..] = call.message;
        if nr == 0 {
            sleep_until(Instant::from_nanos(until));
        } else {
            let peer = Peer::new((next & 0xff) as u32);
            let message = [nr - 1, until, next >> 8, 0, 0, 0];
            // It may have begun to live later.
            if peer.renew().and_then(|()| peer.call(message)).is_err() {
                exit(2);
            }
        }
        if reply([0; 6]).is_err() {
            exit(3);
        }
    }
}

/// Calls along a chain of so many others and gives up, as often as stands above the number.
pub(crate) fn give_up(what: u64) {
    let (nr, rounds) = (what & 0xff, what >> 8);
    let first = Instant::now().nanos().next_multiple_of(PERIOD) + PERIOD;
    for round in 0..rounds {
        let begun = first + round * PERIOD;
        sleep_until(Instant::from_nanos(begun));
        let message = [nr - 1, begun + SLEEP, NEXT, 0, 0, 0];
        let until = Instant::from_nanos(begun) + Nanos::new(PATIENCE);
        let called = FIRST.renew();
        if called.and_then(|()| FIRST.call_until(message, until)) != Err(Error::TimedOut) {
            exit(1);
        }
    }
}
