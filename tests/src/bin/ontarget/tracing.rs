//! Tracing as the kernel has it: static keys, the ring in both modes, nested writers, control from code.
//!
//! The image is booted without capture, so nobody but these tests takes sub-buffers out of the ring.

use core::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};

use takt_kernel::config::{TRACE_NR_SUBS, TRACE_SUB_SIZE};
use takt_kernel::irq::{self, Nmi};
use takt_kernel::machine;
use takt_kernel::sync::Semaphore;
use takt_kernel::thread::Builder;
use takt_kernel::time::{Cycles, Expiry, Instant, Nanos, Timer};
use takt_kernel::trace::rules::events::add_trigger;
use takt_kernel::trace::{self, Event, Mode, events};
use takt_kernel::{Error, thread_stack, trace_event, trace_marker};
use takt_tests::drained::{close, drain};
use takt_tests::harness::PRIORITY;
use takt_tests::worker::burn;
use takt_tests::{check, check_eq, check_err, interrupt, note, target_test};
use takt_tracer::rules::{Action, NewTrigger, UNLIMITED};
use takt_tracer::wire::{self, SubHeader};
use takt_tracer::{event, event_class};

event_class! {
    /// A number that counts up.
    pub class Counted = "counted", core8 { number: 32 u }
    print "number={number}";
}
event! {
    /// Emitted by the thread of a test.
    pub by_thread: Counted = core "test:by_thread";
}
event! {
    /// Emitted by a timer's function.
    pub by_interrupt: Counted = core "test:by_interrupt";
}
event! {
    /// Emitted in a non-maskable interrupt.
    pub by_nmi: Counted = core "test:by_nmi";
}

/// Bytes of a `Counted` record.
const LEN: usize = 12;
/// How many of them the ring holds at most.
const FULL: u32 = (TRACE_NR_SUBS * (TRACE_SUB_SIZE - wire::SUB_HEADER as usize) / LEN) as u32;

/// What was found in the ring so far.
#[derive(Default, Debug)]
struct Found {
    /// First and next number of each writer: thread, interrupt, NMI.
    first: [Option<u32>; 3],
    next: [u32; 3],
    /// Numbers that did not follow the one before.
    gaps: u32,
    /// Time stamps that were lower than the one before.
    backwards: u32,
    /// Records of other events.
    others: u32,
    /// The last header's count of lost events.
    lost: u32,
    last_ts: u64,
}

impl Found {
    /// Takes everything complete out of the ring.
    fn drain(&mut self) {
        let ids = [
            by_thread::Event::id(),
            by_interrupt::Event::id(),
            by_nmi::Event::id(),
        ]
        .map(|id| id.number());
        drain(0, |sub| {
            self.sub_buffer(sub, ids);
        });
    }

    fn sub_buffer(&mut self, sub: &[u8], ids: [u32; 3]) {
        let Some(header) = SubHeader::decode(sub) else {
            return;
        };
        self.lost = header.lost;
        let word = |at: usize| {
            sub.get(at..at + 4)
                .map_or(0, |b| u32::from_le_bytes([b[0], b[1], b[2], b[3]]))
        };
        let mut high = header.ts >> 32;
        let mut at = wire::SUB_HEADER as usize;
        while at + 8 <= sub.len() {
            let (low, id) = (word(at), wire::event_of(word(at + 4)).id());
            if id == wire::Event::Padding.id() {
                break;
            }
            if id == wire::CLOCK_ID {
                high = u64::from(word(at + 8));
            }
            let ts = high << 32 | u64::from(low);
            self.backwards += u32::from(ts < self.last_ts);
            self.last_ts = ts;
            if let Some(writer) = ids.iter().position(|known| *known == id) {
                let number = word(at + 8);
                if self.first[writer].is_some() && self.next[writer] != number {
                    self.gaps += 1;
                }
                self.first[writer].get_or_insert(number);
                self.next[writer] = number + 1;
            } else {
                self.others += u32::from(id != wire::CLOCK_ID);
            }
            // Every event switched on here has records of this length, and so has the clock.
            at += LEN;
        }
    }
}

fn switch(on: bool) -> Result<(), Error> {
    for id in [
        by_thread::Event::id(),
        by_interrupt::Event::id(),
        by_nmi::Event::id(),
    ] {
        trace::enable(id.number(), on)?;
    }
    Ok(())
}

/// An empty ring in this mode, with the test's events on and recording.
fn begin(mode: Mode) -> Result<(), Error> {
    end();
    trace::set_mode(mode);
    switch(true)?;
    trace::tracing_on();
    Ok(())
}

/// Stops recording and closes the ring; gives what is in it.
fn end() -> Found {
    trace::tracing_off();
    let mut found = Found::default();
    // Losses that the first pass could not mention for want of room show in a second.
    for _ in 0..2 {
        close();
        found.drain();
    }
    found
}

/// Not inlined, so that there is one place in the code for this event.
#[inline(never)]
fn emit(number: u32) {
    trace_event!(by_thread, number);
}

fn emit_all(numbers: core::ops::Range<u32>) {
    numbers.for_each(emit);
}

/// A static branch begins with the code of `test eax, imm32` or of a jump.
const TEST: u8 = 0xa9;
const JUMP: u8 = 0xe9;

/// The first byte of every place where the event is emitted.
fn code_of(id: u32) -> impl Iterator<Item = u8> {
    machine::branch_places()
        .filter(move |(key, _)| u32::from(*key) == id)
        // SAFETY: a byte of the kernel's text.
        .map(|(_, code)| unsafe { (code as *const u8).read_volatile() })
}

/// A sum of how all places of keys stand.
fn first_bytes() -> u64 {
    machine::branch_places().fold(0, |sum: u64, (_, code)| {
        // SAFETY: a byte of the kernel's text.
        let byte = unsafe { (code as *const u8).read_volatile() };
        sum.wrapping_mul(31).wrapping_add(byte.into())
    })
}

/// A trigger that switches another event on.
const ENABLE_EVENT: NewTrigger<'_> = NewTrigger {
    action: Action::EnableEvent,
    left: UNLIMITED,
    other: 0,
    condition: &[],
    spec: &[],
    text: &[],
};

static NEXT: [AtomicU32; 2] = [const { AtomicU32::new(0) }; 2];
static RUNS: AtomicBool = AtomicBool::new(false);
static STORM: spin::Once<Timer> = spin::Once::new();

/// Records, has an NMI come in the middle, records again, and comes again some instructions after its end.
fn storm(_: usize, expiry: Expiry) {
    trace_event!(by_interrupt, NEXT[0].fetch_add(1, Relaxed));
    if irq::count(0).is_multiple_of(3) {
        interrupt::raise_nmi();
    }
    trace_event!(by_interrupt, NEXT[0].fetch_add(1, Relaxed));
    if RUNS.load(Relaxed)
        && let Some(timer) = STORM.get()
    {
        timer.arm(expiry.at + Cycles::new(1_201 + irq::count(0) % 61));
    }
}

fn in_nmi(_: &Nmi) {
    if RUNS.load(Relaxed) {
        trace_event!(by_nmi, NEXT[1].fetch_add(1, Relaxed));
    }
}

thread_stack!(static CHOOSER: 16384);
static ROUND: Semaphore = Semaphore::new(0, 1);
static CHOSEN: Semaphore = Semaphore::new(0, 1);

/// Has a tracer chosen for a while.
fn choose_for_a_while(name: &str) -> Result<(), Error> {
    trace::set_tracer(name)?;
    burn(2_000_000);
    trace::set_tracer("nop")
}

/// Does so in each round.
fn chooser(rounds: usize) {
    for _ in 0..rounds {
        let done = ROUND.take().and_then(|()| choose_for_a_while("irqsoff"));
        if done.and_then(|()| CHOSEN.give()).is_err() {
            break;
        }
    }
}

target_test! {
    /// A trace point is an instruction without effect while its event is off, a jump while it is on, and the instruction
    /// again.
    fn static_keys_change_the_code(Shared) {
        end();
        let id = by_thread::Event::id().number();
        check_eq!(code_of(id).count(), 1);
        check!(code_of(id).all(|code| code == TEST));
        trace::tracing_on();
        let before = trace::counters_of(0).entries;
        emit(1);
        check_eq!(trace::counters_of(0).entries - before, 0);
        check_eq!(trace::enable(id, true)?, 1);
        check!(code_of(id).all(|code| code == JUMP));
        emit(2);
        check_eq!(trace::counters_of(0).entries - before, 1);
        check_eq!(trace::enable(id, false)?, 1);
        check!(code_of(id).all(|code| code == TEST));
        emit(3);
        check_eq!(trace::counters_of(0).entries - before, 1);
        check_eq!(trace::enable(0xfff1, true)?, 0);
        let sites = code_of(events::sched_switch::Event::id().number()).count();
        note!("sched_switch is emitted at {sites} places");
        check!(sites > 0);
        end();
        Ok(())
    }

    /// Whatever number is to be switched, events are and nothing else: the kernel's own keys, by which it knows that there is
    /// another CPU, stay as they are.
    fn only_events_are_switched(TwoCpus) {
        check_eq!(takt_board::smp::start(2), 2);
        end();
        let before = first_bytes();
        let mut refused = 0;
        for id in 0..0x400 {
            if trace::enable(id, true).is_ok() {
                trace::enable(id, false)?;
                continue;
            }
            refused += 1;
            check_err!(trace::enable(id, false), InvalidArgument);
            let event = by_thread::Event::id().number();
            for (event, other) in [(event, id), (id, event)] {
                check_err!(add_trigger(event, &NewTrigger { other, ..ENABLE_EVENT }), InvalidArgument);
            }
        }
        check!(refused > 0);
        check_eq!(first_bytes(), before);
        let id = by_thread::Event::id().number();
        check_eq!(trace::enable(id, true)?, 1);
        check!(first_bytes() != before);
        switch(false)?;
        check_eq!(first_bytes(), before);
        Ok(())
    }

    /// Two threads that choose tracers at the same time leave nothing switched on when they have come to the end.
    fn choosing_beside_another_cpu(TwoCpus) {
        const ROUNDS: usize = 100;
        check_eq!(takt_board::smp::start(2), 2);
        end();
        let before = first_bytes();
        let other = Builder::new("chooser", PRIORITY)?.cpu(1).spawn(&CHOOSER, chooser, ROUNDS)?;
        for round in 0..ROUNDS {
            ROUND.give()?;
            choose_for_a_while("wakeup")?;
            CHOSEN.take_until(Instant::after(Nanos::from_secs(5)))?;
            check_eq!((round, first_bytes()), (round, before));
        }
        other.join(Instant::NEVER)?;
        Ok(())
    }

    /// Nobody ends what another CPU is recording: that would come between the steps of its records.
    fn only_a_ring_at_rest_is_closed_from_outside(TwoCpus) {
        check_eq!(takt_board::smp::start(2), 2);
        trace::tracing_on();
        check_err!(trace::close(1), InvalidState);
        trace::close(0)?;
        trace::tracing_off();
        trace::close(1)?;
        end();
        Ok(())
    }

    /// Flight mode: the ring keeps the newest events without a gap and counts what it overwrote.
    fn overwrite_keeps_the_newest(Shared) {
        begin(Mode::Overwrite)?;
        let before = trace::counters_of(0);
        let written = 3 * FULL + 17;
        emit_all(0..written);
        let after = trace::counters_of(0);
        let overrun = (after.overrun - before.overrun) as u32;
        check_eq!((after.entries - before.entries) as u32, written);
        check_eq!(after.in_buffer as u32 + overrun, written);
        check_eq!((after.dropped - before.dropped, after.commit_overrun - before.commit_overrun), (0, 0));
        let found = end();
        check_eq!((found.gaps, found.backwards, found.others), (0, 0, 0));
        check_eq!(found.next[0], written);
        // What is found may lack the oldest sub-buffer, which the end of the newest took.
        let oldest = found.first[0].unwrap_or(0);
        check!(oldest >= overrun && oldest - overrun <= (TRACE_SUB_SIZE / LEN) as u32, "oldest {oldest}, overrun {overrun}");
        check!(written - oldest > FULL - 2 * (TRACE_SUB_SIZE / LEN) as u32, "only {} events kept", written - oldest);
        switch(false)?;
        Ok(())
    }

    /// The other mode: what comes when the ring is full is dropped and counted, and what is in it is the oldest.
    fn stop_when_full_keeps_the_oldest(Shared) {
        begin(Mode::StopWhenFull)?;
        let before = trace::counters_of(0);
        let written = FULL + 5_000;
        emit_all(0..written);
        let after = trace::counters_of(0);
        let (entries, dropped) = ((after.entries - before.entries) as u32, (after.dropped - before.dropped) as u32);
        check_eq!(entries + dropped, written);
        check!(dropped >= 5_000, "{dropped} dropped");
        check_eq!(after.overrun - before.overrun, 0);
        // Room again: recording goes on, and the next sub-buffer's header says how many are missing.
        let mut found = Found::default();
        found.drain();
        check_eq!((found.first[0], found.gaps, found.backwards), (Some(0), 0, 0));
        emit_all(written..written + 1_000);
        found.drain();
        let rest = end();
        check_eq!(rest.next[0].max(found.next[0]), written + 1_000);
        check!(rest.lost.max(found.lost) >= dropped, "{} lost by the headers, {dropped} dropped", rest.lost);
        check_eq!((rest.others, rest.backwards), (0, 0));
        switch(false)?;
        Ok(())
    }

    /// Recording is switched off and on by code, at once.
    fn tracing_off_and_on(Shared) {
        begin(Mode::StopWhenFull)?;
        check!(trace::is_on());
        emit_all(0..10);
        trace::tracing_off();
        check!(!trace::is_on());
        emit_all(10..20);
        trace::tracing_on();
        emit_all(20..30);
        let found = end();
        check_eq!((found.first[0], found.next[0], found.gaps), (Some(0), 30, 1));
        switch(false)?;
        Ok(())
    }

    /// A marker's text is in the ring, cut at the longest that there is.
    fn markers(Shared) {
        end();
        let id = events::print::Event::id().number();
        trace::enable(id, true)?;
        trace::tracing_on();
        trace::marker("a word of the application's own");
        trace::marker("");
        for number in 0..3 {
            trace_marker!("round {number}{}", "!");
        }
        let long = [b'x'; 2 * wire::MAX_BYTES];
        trace::marker(core::str::from_utf8(&long).unwrap_or(""));
        trace::tracing_off();
        trace::close(0)?;
        trace::enable(id, false)?;
        let (mut texts, mut formatted) = (0, 0);
        let mut xs = 0;
        drain(0, |sub| {
            texts += sub.windows(31).filter(|bytes| bytes == b"a word of the application's own").count();
            formatted += sub.windows(8).filter(|bytes| matches!(bytes, [b'r', b'o', b'u', b'n', b'd', b' ', b'0'..b'3', b'!'])).count();
            xs = sub.split(|byte| *byte != b'x').map(<[u8]>::len).fold(xs, usize::max);
        });
        // One more than a reader shows.
        check_eq!((texts, formatted, xs), (1, 3, wire::MAX_BYTES + 1));
        Ok(())
    }

    /// A thread, interrupts in the middle of its writes and NMIs in the middle of theirs: every event of all three is
    /// in the ring, in the order of each writer, and time stamps ascend.
    fn nested_writers_lose_nothing(Shared) {
        begin(Mode::StopWhenFull)?;
        // SAFETY: it records.
        unsafe { irq::set_nmi_handler(in_nmi) };
        RUNS.store(true, Relaxed);
        let before = trace::counters_of(0);
        STORM.call_once(|| Timer::new(storm, 0).expect("there are timers left")).arm(Instant::now() + Cycles::new(1_000));
        let mut found = Found::default();
        for round in 0..60u32 {
            for number in 0..500 {
                emit(500 * round + number);
                burn(u64::from(number % 7) * 4);
            }
            found.drain();
        }
        RUNS.store(false, Relaxed);
        burn(5_000);
        let after = trace::counters_of(0);
        trace::tracing_off();
        trace::close(0)?;
        found.drain();
        switch(false)?;
        let expected = [30_000, NEXT[0].load(Relaxed), NEXT[1].load(Relaxed)];
        note!("events of thread, interrupts and NMIs: {expected:?}");
        check_eq!(found.next, expected);
        check_eq!((found.first, found.gaps, found.backwards), ([Some(0); 3], 0, 0));
        check!(expected[1] > 1_000 && expected[2] > 200, "too few nested writers: {expected:?}");
        check_eq!((after.entries - before.entries) as u32, expected.iter().sum());
        check_eq!((after.dropped, after.commit_overrun, after.overrun), (before.dropped, before.commit_overrun, before.overrun));
        Ok(())
    }

    /// Entries are what is in the ring, what was read and what was overwritten; bytes count headers and padding too.
    fn counters_add_up(Shared) {
        begin(Mode::StopWhenFull)?;
        let before = trace::counters_of(0);
        emit_all(0..1_000);
        let after = trace::counters_of(0);
        check_eq!(after.entries - before.entries, 1_000);
        check!(after.bytes - before.bytes >= 1_000 * LEN as u64);
        let found = end();
        let read = trace::counters_of(0);
        check_eq!(read.entries, read.in_buffer + read.read + read.overrun);
        check_eq!(read.in_buffer, 0);
        check_eq!(found.next[0], 1_000);
        switch(false)?;
        Ok(())
    }
}
