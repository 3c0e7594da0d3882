//! The ways in which a run can end badly, each of which the host has to tell: `end=` on the command line says which.
//!
//! `cargo xtask run ends --append end=hang --timeout 2` shows where a guest stands that does not end.
#![no_std]
#![no_main]

use core::sync::atomic::{AtomicU32, Ordering::Relaxed};

use embedded_io::Write;
use takt_board::cmdline::CommandLine;
use takt_board::serial::Serial;
use takt_kernel::sync::Semaphore;
use takt_kernel::thread::Builder;
use takt_kernel::time::{Cycles, Expiry, Instant, Nanos, Timer, sleep};
use takt_kernel::{preempt, thread_stack, trace, trace_event};
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

/// A line several times as long as a message of the log, and a byte that is no text.
fn long_line() -> [u8; 2_000] {
    core::array::from_fn(|at| match at {
        1_999 => 0xff,
        _ => b'a' + (at % 26) as u8,
    })
}

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
        Some("loggers") => loggers(),
        Some("flood") => (0..FLOOD).for_each(|number| defmt::info!("message {=u32}", number)),
        Some("line") => {
            let Ok(()) = Serial::com1().write_all(&long_line());
        }
        _ => defmt::info!("{=str}: bell \u{7}, clear \u{1b}[2J", command_line),
    }
}

/// How many instructions of a message are interrupted by others: more than one has.
const INSTRUCTIONS: u32 = 2_000;

static NUMBER: AtomicU32 = AtomicU32::new(0);
static CAME: Semaphore = Semaphore::new(0, 1);
thread_stack!(static STACK: 16384);

/// Logs, and wakes a thread that logs.
fn expired(_: usize, _: Expiry) {
    defmt::info!("handler {=u32}", NUMBER.load(Relaxed));
    // It is waited for.
    let _ = CAME.give();
}

fn woken(_: usize) {
    while CAME.take().is_ok() {
        defmt::info!("woken {=u32}", NUMBER.load(Relaxed));
    }
}

/// At each instruction of a message there comes an interrupt whose handler logs, and behind it a thread that logs.
fn loggers() {
    let woken = Builder::new("woken", 80).and_then(|builder| builder.spawn(&STACK, woken, 0));
    let (Ok(_), Ok(timer)) = (woken, Timer::new(expired, 0)) else {
        panic!("no thread or no timer");
    };
    for number in 0..INSTRUCTIONS {
        NUMBER.store(number, Relaxed);
        timer.arm(Instant::now() + Cycles::new(u64::from(number)));
        defmt::info!("thread {=u32}", number);
        // The log is handed over meanwhile.
        if sleep(Nanos::from_micros(200)).is_err() {
            return;
        }
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
