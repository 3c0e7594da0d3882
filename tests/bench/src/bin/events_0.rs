//! No event of its own: what the others are compared with.
#![no_std]
#![no_main]

include!(concat!(env!("OUT_DIR"), "/events_0_shared.rs"));
