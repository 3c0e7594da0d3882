//! A control loop of 1 kHz. Every tenth turn it gives the valve a set point, by the driver of a serial port, and it goes on without one.
#![no_std]
#![no_main]

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

use takt_user::{Error, Instant, Nanos, Peer, event, exit, log, sleep_until, trace_event};

takt_user::entry!(main);

const UART: Peer = Peer::new(0);
const LOGGER: Peer = Peer::new(1);

event! {
    /// Emitted when a turn has begun, with how many nanoseconds late that was.
    pub turn_begun = wide "plant:turn_begun" { turn: 32 u, late: 32 u }
    print "turn={turn} late={late} ns";
}

const PERIOD: Nanos = Nanos::from_millis(1);
/// A turn that begins later than this has missed its deadline.
const TOLERANCE: Nanos = Nanos::from_micros(20);

fn main(turns: u64) {
    let (mut missed, mut without_uart, mut latest) = (0u32, 0u32, Nanos::ZERO);
    // SAFETY: a page, of which the manifest has this task write and the logger read.
    let lateness = unsafe { &*takt_user::region!("lateness").cast::<AtomicU64>() };
    let mut next = Instant::now();
    for turn in 0..turns {
        next += PERIOD;
        sleep_until(next);
        let late = Instant::now() - next;
        trace_event!(turn_begun, turn, late.get());
        latest = late.max(latest);
        lateness.store(latest.get(), Relaxed);
        missed += u32::from(late > TOLERANCE);
        if turn % 10 != 0 {
            continue;
        }
        let set_point = [turn / 10, 0, 0, 0, 0, 0];
        let mut answer = UART.call(set_point);
        // It lives anew.
        if answer == Err(Error::Stale) {
            answer = UART.renew().and_then(|()| UART.call(set_point));
        }
        match answer {
            Ok(_) => {}
            Err(Error::Dead | Error::Stale) => without_uart += 1,
            Err(error) => {
                log!("no answer of the driver: {error:?}");
                exit(1);
            }
        }
        let _ = LOGGER.notify(1);
    }
    defmt::info!(
        "{=u64} turns, {=u32} missed, the latest by {=u64} ns, {=u32} set points without the driver",
        turns,
        missed,
        latest.get(),
        without_uart
    );
    exit(u64::from(missed != 0));
}
