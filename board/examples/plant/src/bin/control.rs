//! A control loop of 1 kHz. Every tenth turn it gives the valve a set point, and it goes on without one.
#![no_std]
#![no_main]

use takt_user::{Error, Peer, exit, log, sleep_until, time};

takt_user::entry!(main);

const VALVE: Peer = Peer::new(0);
const LOGGER: Peer = Peer::new(1);

/// Nanoseconds.
const PERIOD: u64 = 1_000_000;
/// A turn that begins later than this has missed its deadline.
const TOLERANCE: u64 = 20_000;

fn main(turns: u64) {
    let (mut missed, mut without_valve, mut latest) = (0, 0, 0);
    let mut next = time();
    for turn in 0..turns {
        next += PERIOD;
        sleep_until(next);
        let late = time().saturating_sub(next);
        latest = late.max(latest);
        missed += u32::from(late > TOLERANCE);
        if turn % 10 != 0 {
            continue;
        }
        match VALVE.call([turn / 10, 0, 0, 0, 0, 0]) {
            Ok(_) => {}
            // It was stopped, or lives anew: the next set point is for the new one.
            Err(Error::Dead | Error::Stale) => {
                without_valve += 1;
                let _ = VALVE.renew();
            }
            Err(error) => {
                log!("no answer of the valve: {error:?}");
                exit(1);
            }
        }
        let _ = LOGGER.notify(1);
    }
    log!(
        "{turns} turns, {missed} missed, the latest by {latest} ns, {without_valve} set points without the valve"
    );
    exit(u64::from(missed != 0));
}
