//! Logs in defmt's way and emits events, or gives the kernel what is neither.
#![no_std]
#![no_main]

mod raw;

use core::arch::x86_64::_rdtsc;

use takt_user::abi::{Call, Error, MAX_LOG};
use takt_user::{Instant, Nanos, event, event_class, exit, sleep_until, trace_event};

takt_user::entry!(main);

const SAYS: u64 = 0;
const BABBLES: u64 = 1;
const FLOODS: u64 = 2;
const EMITS: u64 = 3;
const WAITS: u64 = 4;
const MEASURES: u64 = 5;
const FORGES: u64 = 6;
const EMITS_TOO_MANY: u64 = 7;
const EMITS_IN_BURSTS: u64 = 8;
const EMITS_TOO_MUCH: u64 = 9;
const EMITS_TOO_MANY_WORDS: u64 = 10;

event! {
    /// Emitted without anything.
    pub alone = wide "talk:alone" {}
    print "alone";
}
event_class! {
    /// Two numbers. The kernel's class of that name means something to whoever reads a trace.
    pub class Pair = "sched_switch", wide { next: 32 u, other: 32 x }
    print "next={next} other={other}";
}
event! {
    /// Emitted with two numbers: a record of 16 bytes.
    pub pair: Pair = wide "talk:pair";
}
event! {
    /// Emitted with as many words as there can be.
    pub words = wide "talk:words" { words: [32; 8] u }
    print "words={words}";
}
event! {
    /// Emitted with a text.
    pub text = wide "talk:text" { number: 16 u, text: * str }
    print "number={number} text={text}";
}

defmt::bitflags! {
    /// Shown by the names of what is set.
    struct Doors: u16 {
        const OPEN = 1;
        const LOCKED = 2;
        const WATCHED = 1 << 9;
    }
}

/// What logs while it is logged.
struct Interrupts;

impl defmt::Format for Interrupts {
    fn format(&self, f: defmt::Formatter<'_>) {
        defmt::info!("in between");
        defmt::write!(f, "interrupts");
    }
}

fn main(what: u64) {
    match what {
        SAYS => says(),
        BABBLES => babbles(),
        EMITS => exit(emits()),
        WAITS => waits(),
        MEASURES => exit(measures()),
        FORGES => forges(),
        EMITS_TOO_MANY => emits_too_many(|| trace_event!(pair, 1u32, 2u32)),
        EMITS_TOO_MUCH => emits_too_many(|| trace_event!(text, 1u16, [b'x'; 512])),
        EMITS_TOO_MANY_WORDS => emits_too_many(|| trace_event!(words, [7u32; 8])),
        EMITS_IN_BURSTS => (0..10).for_each(|_| {
            let end = Instant::after(Nanos::from_millis(100));
            (0..20_000u32).for_each(|number| trace_event!(pair, number, 0));
            sleep_until(end);
        }),
        FLOODS => (0..1000u32).for_each(|round| defmt::info!("round {=u32}", round)),
        _ => exit(99),
    }
}

fn says() {
    defmt::info!("x = {}", 7);
    defmt::warn!(
        "{=str} {=[u8]:x} {}",
        "text",
        [1, 2, 0xff],
        Some((1u8, -2i64))
    );
    defmt::error!("a slice {}", [1u16, 2, 3].as_slice());
    defmt::info!("doors: {}", Doors::OPEN | Doors::WATCHED);
    defmt::info!("{}", Interrupts);
    defmt::info!("{=[u8]}", [0; MAX_LOG]);
    defmt::debug!("not compiled in");
    takt_user::log!("in words");
}

/// Frames that begin as those of this task, and all else.
fn babbles() {
    // What a decoder may be led to.
    defmt::trace!("{=u64:iso8601s}", 0);
    let mut seed = 0x5eed_u32;
    let mut random = || {
        seed = seed.wrapping_mul(0x0019_660d).wrapping_add(0x3c6e_f35f);
        (seed >> 16) as u8
    };
    let mut bytes = [0u8; MAX_LOG];
    for number in 0..60 {
        bytes.fill_with(&mut random);
        // Half of them have the number of a format, with more or fewer elements than there are bytes for.
        if number % 2 == 0 {
            bytes[..6].copy_from_slice(&[number / 2, 0, 0xff, 0xff, 0xff, number]);
        }
        frame(bytes.as_ptr() as u64, (random() % MAX_LOG as u8).into());
    }
    // Addresses and lengths of nobody's.
    for (at, len) in [
        (0, 8),
        (u64::MAX, 8),
        (bytes.as_ptr() as u64, u64::MAX),
        (0x100_0000, 8),
    ] {
        frame(at, len);
    }
    sleep_until(Instant::after(Nanos::new(200_000_000)));
    defmt::info!("after all");
}

/// Emits one of each; says how many were on.
fn emits() -> u64 {
    let mut nr = 0;
    let mut counted = |value: u32| {
        nr += 1;
        value
    };
    trace_event!(alone);
    trace_event!(pair, counted(7), 0xabcd_u32);
    trace_event!(words, {
        counted(0);
        [1, 2, 3, 4, 5, 6, 7, u32::MAX]
    });
    trace_event!(text, counted(3), "what a task has to say");
    trace_event!(text, counted(4), [b'x'; 600]);
    nr
}

/// Until an event is on.
fn waits() {
    let mut is_on = false;
    for _ in 0..100 {
        trace_event!(
            pair,
            {
                is_on = true;
                0
            },
            0u32
        );
        if is_on {
            exit(0);
        }
        sleep_until(Instant::after(Nanos::new(100_000)));
    }
    exit(1);
}

/// Exact instructions of a place with a record of 16 bytes, when it is there for the fourth time.
fn measures() -> u64 {
    let mut took = 0;
    for _ in 0..4 {
        let (before, between) = (now(), now());
        trace_event!(pair, 1u32, 2u32);
        took = now() - between - (between - before);
    }
    took
}

/// More than there may be, and one a while later.
fn emits_too_many(emits: impl Fn()) {
    (0..20_000).for_each(|_| emits());
    sleep_until(Instant::after(Nanos::new(200_000_000)));
    emits();
}

fn now() -> u64 {
    // SAFETY: reads a counter.
    unsafe { _rdtsc() }
}

/// Events that there are not, and fields that it does not have; what is on by its own flag alone is not recorded.
fn forges() {
    let flags =
        [&alone::ID, &pair::ID, &text::ID, &words::ID].map(|id| core::ptr::from_ref(id) as u64);
    let invalid = Error::InvalidArgument as u64;
    let first = flags[0] & 0xffff_ffff;
    let results = [
        call(Call::Trace, first + 1, 0) == invalid,
        call(Call::Trace, first + 8, 0) == invalid,
        call(Call::Trace, first.wrapping_sub(2) & 0xffff_ffff, 0) == invalid,
        call(Call::Trace, 0, 0) == invalid,
        call(Call::Trace, u64::MAX, u64::MAX) == invalid,
    ];
    for at in [0, u64::MAX, 0x100_0000, flags[0] + 0x1000_0000] {
        for len in [0, 8, u64::from(u32::MAX)] {
            let _ = call(Call::Trace, flags[2] & 0xffff_ffff | len << 32, at);
        }
    }
    for flag in flags {
        // SAFETY: the task's own data, which only places read.
        unsafe { (flag as *mut u8).write_volatile(1) };
    }
    let nr = emits();
    exit(u64::from(results.contains(&false) || nr != 4));
}

fn frame(at: u64, len: u64) {
    let _ = call(Call::LogFrame, at, len);
}

/// A call's result.
fn call(call: Call, a: u64, b: u64) -> u64 {
    raw::raw(call, [a, b, 0, 0])[0]
}
