//! One event.
#![no_std]
#![no_main]

takt_bench::footprint!("events_1_shared.rs");
