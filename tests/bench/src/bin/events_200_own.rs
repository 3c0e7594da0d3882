//! 200 events, each with a class of its own.
#![no_std]
#![no_main]

include!(concat!(env!("OUT_DIR"), "/events_200_own.rs"));
