//! The scheduler's structures on the host, in cycles of the TSC, beside what a user would take instead: those of `std`, and a
//! 4-ary heap that knows where each entry stands.
//!
//! `cargo bench -p takt-bench --bench scheduler`. Warm: the structure is in the caches as the operation before has left it.
//! Flushed: no line of it is in a cache. Compare within one run.
#![expect(
    unreachable_pub,
    reason = "the modules of a benchmark are reached by nobody else"
)]

mod measure;
mod memory;
mod threads;
mod timers;

fn main() {
    println!(
        "{:<24} {:<22} {:>6} {:>8} {:>8}",
        "cycles, median", "", "of", "warm", "flushed"
    );
    threads::all();
    timers::all();
}
