//! A storm of writers: a thread, a timer's interrupt, and non-maskable interrupts that the host has QEMU inject at any
//! moment. Each numbers its records, which have every size that there is; what they say follows from writer and number.
//!
//! The host decodes what comes of it and holds it against the counts printed here (`xtask::commands::test::storm`, which
//! knows the same formulas): every record is there, as it was written, or counted as lost.

use core::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};

use takt_board::capture;
use takt_kernel::irq::{self, Nmi};
use takt_kernel::time::{Cycles, Expiry, Instant, Nanos, Timer};
use takt_kernel::trace::{self, Event, Mode};
use takt_kernel::{Error, trace_event};
use takt_tests::harness::{self, Outcome};
use takt_tests::worker::burn;
use takt_tests::{check, check_eq, note, target_test};
use takt_tracer::{event, event_class};

event_class! {
    /// 8 bytes.
    pub class Small = "storm_small", core24(0x80) { writer: 2 u, number: 22 u }
    print "writer={writer} number={number}";
}
event_class! {
    /// 12 bytes.
    pub class One = "storm_one", core8 { writer: 8 u, number: 32 u }
    print "writer={writer} number={number}";
}
event_class! {
    /// 16 bytes.
    pub class Two = "storm_two", core8 { writer: 8 u, number: 32 u, mixed: 32 x }
    print "writer={writer} number={number} mixed={mixed}";
}
event_class! {
    /// 20 bytes.
    pub class Three = "storm_three", core8 { writer: 8 u, number: 32 u, mixed: 64 x }
    print "writer={writer} number={number} mixed={mixed}";
}
event_class! {
    /// 24 bytes, with a 16-bit id.
    pub class Four = "storm_four", wide { writer: 32 u, number: 32 u, mixed: 64 x }
    print "writer={writer} number={number} mixed={mixed}";
}
event_class! {
    /// 16 to 56 bytes.
    pub class Text = "storm_text", core8 { writer: 8 u, number: 32 u, text: * str }
    print "writer={writer} number={number} text={text}";
}

event! {
    /// Emitted for numbers that leave 0 when divided by six.
    pub small: Small = core "storm:small";
}
event! {
    /// Emitted for numbers that leave 1 when divided by six.
    pub one: One = core "storm:one";
}
event! {
    /// Emitted for numbers that leave 2 when divided by six.
    pub two: Two = core "storm:two";
}
event! {
    /// Emitted for numbers that leave 3 when divided by six.
    pub three: Three = core "storm:three";
}
event! {
    /// Emitted for numbers that leave 4 when divided by six.
    pub four: Four = wide "storm:four";
}
event! {
    /// Emitted for numbers that leave 5 when divided by six.
    pub text: Text = core "storm:text";
}

/// A writer. Its number stands in its records.
#[derive(Clone, Copy, Debug)]
enum Writer {
    Thread,
    Interrupt,
    Nmi,
}

/// What each writer's next record is numbered. Nobody else writes it.
static NEXT: [AtomicU32; 3] = [const { AtomicU32::new(0) }; 3];
static NR_NMIS: AtomicU32 = AtomicU32::new(0);
static RUNS: AtomicBool = AtomicBool::new(false);
static STORM: spin::Once<Timer> = spin::Once::new();

/// The storm goes on until so many were there.
const NMIS_WANTED: u32 = 2_000;
/// Records of the thread between two looks at what is to be done.
const ROUND: u32 = 1_000;
/// How many rounds the thread may be ahead of the NMIs: bounds what is recorded.
const AHEAD: u32 = 64;
/// Between two interrupts, at least.
const PAUSE: Nanos = Nanos::from_micros(10);
/// Without an NMI for so long, of the guest's time, there are none.
const PATIENCE: Nanos = Nanos::from_secs(60);

/// The longest text.
const MAX_TEXT: u32 = 40;

/// Records the writer's next record.
#[inline(never)]
fn record(writer: Writer) {
    let next = &NEXT[writer as usize];
    let number = next.load(Relaxed);
    let mixed = (u64::from(number) << 2 | writer as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    match number % 6 {
        0 => trace_event!(small, writer as u8, number % (1 << 22)),
        1 => trace_event!(one, writer as u8, number),
        2 => trace_event!(two, writer as u8, number, mixed as u32),
        3 => trace_event!(three, writer as u8, number, mixed),
        4 => trace_event!(four, writer as u32, number, mixed),
        _ => {
            let mut bytes = [0; MAX_TEXT as usize];
            for (byte, at) in bytes.iter_mut().zip(number..) {
                *byte = b'a' + ((at + writer as u32) % 26) as u8;
            }
            let len = number / 6 % (MAX_TEXT + 1);
            trace_event!(text, writer as u8, number, &bytes[..len as usize]);
        }
    }
    next.store(number + 1, Relaxed);
}

fn in_interrupt(_: usize, _: Expiry) {
    for _ in 0..6 {
        record(Writer::Interrupt);
    }
    if RUNS.load(Relaxed)
        && let Some(timer) = STORM.get()
    {
        let odd = u64::from(NEXT[Writer::Interrupt as usize].load(Relaxed) % 61);
        timer.arm(Instant::now() + PAUSE.to_cycles() + Cycles::new(odd));
    }
}

fn in_nmi(_: &Nmi) {
    if RUNS.load(Relaxed) {
        record(Writer::Nmi);
        record(Writer::Nmi);
        NR_NMIS.fetch_add(1, Relaxed);
    }
}

fn switch(on: bool) -> Result<(), Error> {
    for id in [
        small::Event::id(),
        one::Event::id(),
        two::Event::id(),
        three::Event::id(),
        four::Event::id(),
        text::Event::id(),
    ] {
        trace::enable(id.number(), on)?;
    }
    Ok(())
}

/// Waits until the NMIs have caught up with the thread's rounds.
fn wait_for_nmis(round: u32) -> Outcome {
    let mut seen = NR_NMIS.load(Relaxed);
    let mut limit = Instant::after(PATIENCE);
    while NR_NMIS.load(Relaxed) + AHEAD < round {
        burn(1_000);
        if NR_NMIS.load(Relaxed) != seen {
            seen = NR_NMIS.load(Relaxed);
            limit = Instant::after(PATIENCE);
        }
        check!(Instant::now() < limit, "no NMI comes any more after {seen}");
    }
    Ok(())
}

/// The storm. `between` comes after each of the thread's rounds, which it is told.
fn storm(mode: Mode, between: fn(u32)) -> Outcome {
    check!(capture::is_active(), "nobody takes what is recorded");
    trace::tracing_off();
    trace::set_mode(mode);
    switch(true)?;
    // SAFETY: it records.
    unsafe { irq::set_nmi_handler(in_nmi) };
    RUNS.store(true, Relaxed);
    trace::tracing_on();
    let timer = STORM.call_once(|| Timer::new(in_interrupt, 0).expect("there are timers left"));
    timer.arm(Instant::now() + PAUSE.to_cycles());
    harness::ask_for_nmis();
    let mut round = 0;
    while NR_NMIS.load(Relaxed) < NMIS_WANTED {
        for _ in 0..ROUND {
            record(Writer::Thread);
        }
        round += 1;
        between(round);
        wait_for_nmis(round)?;
    }
    RUNS.store(false, Relaxed);
    timer.cancel();
    trace::tracing_off();
    // Losses that the first could not mention for want of room are mentioned by the second.
    for _ in 0..2 {
        trace::close(0)?;
        capture::hand_over();
    }
    switch(false)?;
    let [by_thread, by_interrupt, by_nmi] = [0, 1, 2].map(|at: usize| NEXT[at].load(Relaxed));
    let counters = trace::counters_of(0);
    harness::print(format_args!(
        "storm: thread={by_thread} interrupt={by_interrupt} nmi={by_nmi} entries={} dropped={} commit_overrun={} overrun={}\n",
        counters.entries, counters.dropped, counters.commit_overrun, counters.overrun,
    ));
    let nr = NR_NMIS.load(Relaxed);
    note!("{nr} NMIs");
    check_eq!(by_nmi, 2 * nr);
    check!(
        by_interrupt > 1_000,
        "too few interrupts: {by_interrupt} records"
    );
    Ok(())
}

target_test! {
    /// What is recorded is handed over at once for a while and then not, so that the ring is full again and again:
    /// everything is in the capture, or counted as dropped.
    fn captured(Nmis) {
        storm(Mode::StopWhenFull, |round| {
            if round % 64 < 32 {
                capture::hand_over();
            }
        })
    }

    /// The newest is kept: what is in the ring at the end is the newest of each writer, without a gap, and everything
    /// else is counted as overwritten.
    fn overwritten(Nmis) {
        storm(Mode::Overwrite, |_| ())
    }
}
