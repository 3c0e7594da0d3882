//! Tasks that could evade their budgets, or keep the CPU from others, only together.

use takt_user::{Error, Instant, Nanos, Peer, exit, receive, reply, sleep_until};

use crate::budget::{work_until, work_up_to_the_end};

/// The handles of each one's first peer, and of the second.
const NEXT: Peer = Peer::new(0);
const SECOND: Peer = Peer::new(1);

pub(crate) fn run(what: u64) {
    let rest = what >> 8;
    match what & 0xff {
        0 => close_circles(rest >> 12, rest & 0xfff),
        1 => go_round(false),
        2 => go_round(true),
        3 => {
            work_up_to_the_end(rest);
            let _ = NEXT.call([0; 6]);
        }
        4 => serve_behind_a_call(rest),
        5 => have_done(),
        6 => do_once(),
        7 => call_again_and_again(rest),
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

/// Has so many microseconds of work done before it serves one.
fn serve_behind_a_call(micros: u64) {
    let called = SECOND.renew();
    let done = called.and_then(|()| SECOND.call([micros, 0, 0, 0, 0, 0]));
    let got = receive(0, Instant::after(Nanos::from_millis(3)));
    if got.is_ok() {
        let _ = reply([0; 6]);
    }
    exit(u64::from(done.is_err()));
}

/// Has the next one do what the first one asks for.
fn have_done() {
    let Ok(Some(call)) = receive(0, Instant::NEVER).map(|it| it.call) else {
        exit(1)
    };
    let done = NEXT.renew().and_then(|()| NEXT.call(call.message));
    exit(u64::from(done.is_err() || reply([0; 6]).is_err()));
}

/// Works for the first one for so many microseconds.
fn do_once() {
    let Ok(Some(call)) = receive(0, Instant::NEVER).map(|it| it.call) else {
        exit(1)
    };
    work_until(Instant::after(Nanos::new(call.message[0] * 1_000)));
    exit(u64::from(reply([0; 6]).is_err()));
}

/// Calls the second one, which serves another by then, for so many microseconds again and again, until that has ended.
fn call_again_and_again(micros: u64) {
    sleep_until(Instant::after(Nanos::from_millis(1)));
    let _ = SECOND.renew();
    let again = || SECOND.call_until([0; 6], Instant::after(Nanos::new(micros * 1_000)));
    while again() == Err(Error::TimedOut) {}
}
