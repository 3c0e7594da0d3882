//! Events with every kind of field, and stacks: what the viewers' tests read.
//!
//! `cargo xtask run fields` builds and boots it and prints its trace. Under `tracefs shell --icount` it goes on: its interrupt has a
//! name that no record tells then.
#![no_std]
#![no_main]

use core::hint::black_box;

use takt_board::cmdline::CommandLine;
use takt_board::control;
use takt_kernel::time::{Instant, Nanos, sleep_until};
use takt_kernel::trace::{self, Event, events};
use takt_kernel::{Error, irq, trace_event, trace_marker};
use takt_tracer::control::gate;
use takt_tracer::{event, event_class};

takt_board::entry!(main);

event_class! {
    /// Numbers of several widths, side by side.
    pub class Numbers = "numbers", wide { small: 5 i, kind: 2 enum("0=none,1=one"), big: 64 u, hex: 20 x }
    print "small={small} kind={kind} big={big} hex={hex}";
}
event_class! {
    /// Arrays of a fixed length, packed like so many fields, and one of any length.
    pub class Arrays = "arrays", core8 { nr: 8 u, bytes: [8; 4] u, small: [4; 3] i, wide: [64; 2] x, list: [16] x }
    print "nr={nr} bytes={bytes} small={small} wide={wide} list={list}";
}
event_class! {
    /// Places in the code, and a name that is cut if it is longer than it may be.
    pub class Places = "places", wide { at: 32 sym, name: * str(12) }
    print "at={at} name={name}";
}

event! {
    /// Emitted in each round.
    pub numbers: Numbers = wide "fields:numbers";
}
event! {
    /// Emitted in each round, with a list as long as its number.
    pub arrays: Arrays = core "fields:arrays";
}
event! {
    /// Emitted in each round.
    pub places: Places = wide "fields:places";
}
event! {
    /// Emitted in each round, by its number: a mask of two bits before one of its own.
    pub flags = core8 "fields:flags" { mask: 4 flags(", ", "6=BC,2=B,1=A") }
    print "set={mask}.";
}
event! {
    /// Emitted in each round. It shows less than its class does.
    pub only_small: Numbers = wide "fields:only_small" print "only small={small}";
}

/// The software interrupt in which a stack is recorded.
const VECTOR: u8 = irq::FIRST_DEVICE_VECTOR + 3;

#[inline(never)]
fn round(number: u8) {
    let list = [0x1234u16, 0xffff, 7, 8, 9, 10];
    trace_event!(
        numbers,
        -i8::from(number == 3),
        number % 2,
        u64::MAX - u64::from(number),
        0xabcdeu32
    );
    let signed = [-8i8, 7, -(number as i8 % 8)];
    let wide = [u64::MAX, u64::from(number)];
    let list = &list[..usize::from(number) % list.len()];
    trace_event!(only_small, 3u8, 0u8, 0u8, 0u8);
    trace_event!(flags, number);
    trace_event!(arrays, number, [number, 0, 255, 1], signed, wide, list);
    trace_event!(
        places,
        round as fn(u8) as usize + 4,
        // Not empty: babeltrace2 shows the one before in that case.
        &"a_name_that_is_cut"[..=usize::from(number)]
    );
    trace_marker!("round {number}: done");
    trace::stack::record_stack(0);
}

#[inline(never)]
fn calls(number: u8, deeper: u8) {
    if deeper > 0 {
        calls(number, deeper - 1);
    } else {
        round(number);
    }
    // Not a tail call.
    black_box(number);
}

extern "C" fn interrupt(_: usize, _: Instant) {
    calls(0, 1);
    black_box(());
}

/// Has the host control the tracer, and an interrupt in every millisecond.
fn live(line: &CommandLine<'_>) -> Result<(), Error> {
    control::start(line)?;
    let mut next = Instant::now();
    loop {
        next += Nanos::from_millis(1).to_cycles();
        sleep_until(next)?;
        raise();
    }
}

fn raise() {
    // SAFETY: the gate leads to the kernel's stub for that vector, which keeps every register.
    unsafe { core::arch::asm!("int {}", const VECTOR) };
}

fn main(command_line: &'static str) {
    for event in [
        numbers::Event::id().number(),
        arrays::Event::id().number(),
        only_small::Event::id().number(),
        flags::Event::id().number(),
        places::Event::id().number(),
        events::print::Event::id().number(),
        events::irq_name::Event::id().number(),
        events::irq_handler_entry::Event::id().number(),
    ] {
        // No one else rewrites code now.
        let _ = trace::enable(event, true);
    }
    trace::tracing_on();
    for number in 0..16 {
        calls(number, number);
    }
    if irq::register(VECTOR, "fields", interrupt, 0).is_ok() {
        raise();
    }
    let line = CommandLine(command_line);
    if line.get(gate::WORD).is_some()
        && let Err(error) = live(&line)
    {
        defmt::error!("there is no live control: {}", error);
    }
}
