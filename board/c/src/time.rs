//! Time, in cycles of the TSC.

use takt_kernel::time::{self, Cycles, Instant, Nanos};

use crate::result::code;

/// As a deadline: none.
pub const TAKT_NEVER: u64 = 0xffff_ffff_ffff_ffff;

const _: () = assert!(TAKT_NEVER == Instant::NEVER.cycles());

/// Now, in cycles of the TSC.
#[unsafe(no_mangle)]
pub extern "C" fn takt_now() -> u64 {
    Instant::now().cycles()
}

/// The time this many nanoseconds from now, in cycles.
#[unsafe(no_mangle)]
pub extern "C" fn takt_after_ns(nanos: u64) -> u64 {
    Instant::after(Nanos::new(nanos)).cycles()
}

/// Nanoseconds in cycles, rounded down.
#[unsafe(no_mangle)]
pub extern "C" fn takt_ns_to_cycles(nanos: u64) -> u64 {
    Nanos::new(nanos).to_cycles().get()
}

/// Cycles in nanoseconds, rounded down.
#[unsafe(no_mangle)]
pub extern "C" fn takt_cycles_to_ns(cycles: u64) -> u64 {
    Cycles::new(cycles).to_nanos().get()
}

/// Sleeps until an absolute time; returns at once if that is past. `TAKT_OK` or `TAKT_WRONG_CONTEXT`.
#[unsafe(no_mangle)]
pub extern "C" fn takt_sleep_until(deadline: u64) -> i32 {
    code(time::sleep_until(Instant::from_cycles(deadline)))
}

/// Sleeps for at least this many nanoseconds. `TAKT_OK` or `TAKT_WRONG_CONTEXT`.
#[unsafe(no_mangle)]
pub extern "C" fn takt_sleep_ns(nanos: u64) -> i32 {
    code(time::sleep(Nanos::new(nanos)))
}
