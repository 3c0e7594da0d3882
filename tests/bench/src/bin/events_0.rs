//! No event of its own: what the others are compared with.
#![no_std]
#![no_main]

takt_bench::footprint!("events_0_shared.rs");
