//! One event.
#![no_std]
#![no_main]

include!(concat!(env!("OUT_DIR"), "/events_1_shared.rs"));
