//! What timerlat measures.

use takt_user::timerlat::Timerlat;
use takt_user::{exit, sleep_until, time};

/// Besides the CPU: it waits for activations until it is stopped.
const WAITS: u64 = 0x100;
/// Besides that: it sleeps for longer than a period each time.
const IS_LATE: u64 = 0x200;

/// Opens the CPU's timerlat, and ends with the number of the error that it gives.
pub(crate) fn run(what: u64) {
    let timerlat = match Timerlat::open(what as u32 & 0xff) {
        Ok(timerlat) => timerlat,
        Err(error) => exit(error as u64),
    };
    if what & WAITS == 0 {
        return;
    }
    while timerlat.wait().is_ok() {
        if what & IS_LATE != 0 {
            sleep_until(time() + 1_500_000);
        }
    }
    exit(99);
}
