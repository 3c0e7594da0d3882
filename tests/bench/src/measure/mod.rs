//! The measurements. Each function measures what its name says and returns instructions, as they are between two
//! readings of the time.

mod device;
mod events;
#[cfg(feature = "function")]
mod functions;
mod interrupt;
mod metric;
mod mutex;
mod pick;
mod ping_pong;
mod queue;
mod random_timers;
mod semaphore;
mod switch;
mod thread;
mod timers;

use crate::clock::{own_cost, stamp};
use crate::report::insn;

/// Rounds of a measurement; the last counts, when every thread has been through its loop before.
const ROUNDS: u32 = 4;

/// Boot time: to be called first of all.
pub fn boot() {
    let now = stamp();
    insn("boot-kernel", takt_board::boot_time().get() as u32);
    insn("boot-reset", now);
}

/// A group of measurements.
type Group = (&'static str, fn());

/// Everything else; with `only`, the group of that name.
pub fn all(only: Option<&str>) {
    const GROUPS: &[Group] = &[
        #[cfg(feature = "function")]
        ("functions", functions::all),
        ("ping-pong", ping_pong::all),
        ("switch", switch::all),
        ("interrupt", interrupt::all),
        ("device", device::all),
        ("thread", thread::all),
        ("semaphore", semaphore::all),
        ("mutex", mutex::all),
        ("queue", queue::all),
        ("metric", metric::all),
        ("pick", pick::all),
        ("timers", timers::all),
        ("events", events::all),
    ];
    insn("own-cost", own_cost());
    for (name, measure) in GROUPS {
        if only.is_none_or(|only| only == *name) {
            measure();
        }
    }
}
