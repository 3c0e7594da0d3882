//! The ways in which a run can end badly, each of which the host has to tell: `end=` on the command line says which.
//!
//! `cargo xtask run ends --append end=hang --timeout 2` shows where a guest stands that does not end.
#![no_std]
#![no_main]

use embedded_io::Write;
use takt_board::cmdline::CommandLine;
use takt_board::serial::Serial;
use takt_kernel::{preempt, trace, trace_event};
use takt_tracer::{event, event_class};

takt_board::entry!(main);

event_class! {
    /// How far the program has come.
    pub class Step = "step", wide { number: 32 u }
    print "number={number}";
}
event! {
    /// Emitted a few times before the end.
    pub step: Step = wide "ends:step";
}

/// Messages of a flood: more than there is room for.
const FLOOD: u32 = 200_000;

/// Bytes that are no text, and what would clear a terminal.
const JUNK: &[u8] = b"\xff\x1b[2J";

fn main(command_line: &'static str) {
    for number in 0..5u32 {
        trace_event!(step, number);
    }
    trace::marker("the end is near");
    match CommandLine(command_line).get("end") {
        Some("panic") => {
            let Ok(()) = Serial::com1().write_all(JUNK);
            panic!("as it was asked for");
        }
        Some("hang") => hang(),
        Some("flood") => (0..FLOOD).for_each(|number| defmt::info!("message {=u32}", number)),
        _ => defmt::info!("{=str}: bell \u{7}, clear \u{1b}[2J", command_line),
    }
}

/// Never returns, and takes no interrupt.
#[inline(never)]
fn hang() {
    let Ok(()) = Serial::com1().write_all(b"hanging\n");
    let _guard = preempt::irq_save();
    loop {
        core::hint::spin_loop();
    }
}
