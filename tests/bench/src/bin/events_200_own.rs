//! 200 events, each with a class of its own.
#![no_std]
#![no_main]

takt_bench::footprint!("events_200_own.rs");
