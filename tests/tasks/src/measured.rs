//! What timerlat measures.

use core::arch::x86_64::_rdtsc;

use takt_user::timerlat::Timerlat;
use takt_user::{Instant, Nanos, exit, receive, sleep_until};

/// Besides the CPU: it waits for activations until it is stopped.
const WAITS: u64 = 0x100;
/// Besides that: it sleeps for longer than a period each time.
const IS_LATE: u64 = 0x200;

/// Instead: it sleeps some times, and ends with how late it was at most, in ns where the TSC counts them.
const SLEEPS: u64 = 0x400;
/// Instead: it computes for so long that both are done that sleep.
const SPINS: u64 = 0x800;
/// Instead: it opens the CPU's timerlat, and never waits for it: it receives, sleeps or computes without end.
const KEEPS: u64 = 0x1000;
/// Besides that: it receives from the millisecond on that stands above.
const RECEIVES: u64 = 0x2000;

fn now() -> u64 {
    // SAFETY: reads a counter.
    unsafe { _rdtsc() }
}

fn lateness() -> u64 {
    let begun = now().next_multiple_of(1_000_000);
    let late = (1..10).map(|nr| {
        let deadline = begun + nr * 1_000_000;
        sleep_until(Instant::from_nanos(deadline));
        now() - deadline
    });
    late.max().unwrap_or(0)
}

fn keep(what: u64) {
    let _timerlat = Timerlat::open(what as u32 & 0xff);
    if what & RECEIVES != 0 {
        sleep_until(Instant::from_nanos((what >> 16) * 1_000_000));
    }
    match what & (SLEEPS | SPINS) {
        SLEEPS => sleep_until(Instant::NEVER),
        SPINS => loop {
            core::hint::spin_loop();
        },
        _ => drop(receive(0, Instant::NEVER)),
    }
}

/// Opens the CPU's timerlat, and ends with the number of the error that it gives.
pub(crate) fn run(what: u64) {
    if what & KEEPS != 0 {
        return keep(what);
    }
    if what & SLEEPS != 0 {
        exit(lateness());
    }
    if what & SPINS != 0 {
        let begun = now();
        while now() - begun < 24_000_000 {}
        return;
    }
    let timerlat = match Timerlat::open(what as u32 & 0xff) {
        Ok(timerlat) => timerlat,
        Err(error) => exit(error as u64),
    };
    if what & WAITS == 0 {
        return;
    }
    while timerlat.wait().is_ok() {
        if what & IS_LATE != 0 {
            sleep_until(Instant::after(Nanos::new(1_500_000)));
        }
    }
    exit(99);
}
