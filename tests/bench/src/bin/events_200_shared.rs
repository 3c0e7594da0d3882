//! 200 events that share one class.
#![no_std]
#![no_main]

include!(concat!(env!("OUT_DIR"), "/events_200_shared.rs"));
