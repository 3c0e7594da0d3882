//! Bursts of events that no ring holds: the first of each are recorded, the others counted as dropped; then everything is
//! handed over to the host before the next burst. So a trace has losses at places that follow from the program alone:
//! what the viewers' tests read.
//!
//! `cargo xtask run bursts` builds and boots it and prints its trace.
#![no_std]
#![no_main]

use takt_kernel::time::{Nanos, sleep};
use takt_kernel::trace::{self, Event, events};
use takt_kernel::{Error, trace_event, trace_marker};
use takt_tracer::{event, event_class};

takt_board::entry!(main);

event_class! {
    /// Where in the bursts the program is.
    pub class Step = "step", wide { burst: 8 u, number: 32 u }
    print "burst={burst} number={number}";
}
event! {
    /// Emitted again and again, until the ring is full and beyond.
    pub step: Step = wide "bursts:step";
}

/// How many bursts there are.
const BURSTS: u8 = 10;
/// How many events of a burst find no room.
const DROPPED: u64 = 100;
/// There is a text once in so many events.
const MARKER: u32 = 64;
/// How long the idle thread is given at a time to hand over what is complete.
const PAUSE: Nanos = Nanos::from_micros(100);

/// Records until so many events were dropped. The idle thread, which would make room, does not run meanwhile.
fn burst(burst: u8) {
    let before = trace::counters_of(0).dropped;
    let mut number = 0u32;
    while trace::counters_of(0).dropped < before + DROPPED {
        trace_event!(step, burst, number);
        if number.is_multiple_of(MARKER) {
            trace_marker!("burst {burst}: {number} recorded");
        }
        number += 1;
    }
}

fn bursts() -> Result<(), Error> {
    for event in [
        step::Event::id().number(),
        events::print::Event::id().number(),
        events::sched_switch::Event::id().number(),
        events::irq_handler_entry::Event::id().number(),
        events::irq_handler_exit::Event::id().number(),
    ] {
        trace::enable(event, true)?;
    }
    trace::tracing_on();
    for number in 0..BURSTS {
        burst(number);
        while trace::has_full() {
            sleep(PAUSE)?;
        }
    }
    Ok(())
}

fn main(_command_line: &'static str) {
    if let Err(error) = bursts() {
        defmt::error!("bursts: {}", error);
    }
}
