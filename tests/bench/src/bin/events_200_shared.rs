//! 200 events that share one class.
#![no_std]
#![no_main]

takt_bench::footprint!("events_200_shared.rs");
