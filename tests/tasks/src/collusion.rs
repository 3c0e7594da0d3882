//! Tasks that could evade their budgets, or keep the CPU from others, only together.

use takt_user::{Instant, Nanos, Peer, exit, receive, reply, sleep_until};

use crate::budget::work_until;

/// The handle of each one's first peer.
const NEXT: Peer = Peer::new(0);

pub(crate) fn run(what: u64) {
    let rest = what >> 8;
    match what & 0xff {
        0 => close_circles(rest >> 12, rest & 0xfff),
        1 => go_round(false),
        2 => go_round(true),
        _ => exit(94),
    }
}

/// Has a circle of calls closed at so many times, each so many nanoseconds later, as its budget of 200 µs ends.
fn close_circles(times: u64, step: u64) {
    let _ = NEXT.renew();
    for at in 1..=times {
        sleep_until(Instant::after(Nanos::from_millis(2)));
        let until = Instant::after(Nanos::new(200_000 - step * at)).nanos();
        let _ = NEXT.call([until, 0, 0, 0, 0, 0]);
    }
    sleep_until(Instant::after(Nanos::from_millis(2)));
    exit(u64::from(NEXT.call([0; 6]).is_err()));
}

/// Calls the next one for each that calls, which does the same; one of them works before, until a time that it is told. 0 ends it.
fn go_round(works: bool) {
    loop {
        let Ok(Some(call)) = receive(0, Instant::NEVER).map(|it| it.call) else {
            exit(1)
        };
        let message = call.message;
        let is_last = message[0] == 0;
        if works {
            work_until(Instant::from_nanos(message[0]));
        }
        if !(is_last && works) {
            let _ = NEXT.renew();
            let _ = NEXT.call(message);
        }
        if reply([0; 6]).is_err() {
            exit(2);
        }
        if is_last {
            exit(0);
        }
    }
}
