//! Record functions that are diverted: whoever asks sees every record's arguments before it is made, and may refuse it.

use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};

use takt_kernel::machine::ModelSink;
use takt_kernel::thread::{self, Builder};
use takt_kernel::time::{Cycles, Expiry, Instant, Nanos, Timer, sleep};
use takt_kernel::trace::rules::{self, Arguments};
use takt_kernel::trace::{self, Event, Mode};
use takt_kernel::{Error, irq, thread_stack, trace_event, trace_event_irqs_off};
use takt_tests::drained;
use takt_tests::harness::PRIORITY;
use takt_tests::{check, check_eq, interrupt, target_test};
use takt_tracer::wire::{self, SubHeader};
use takt_tracer::{event, event_class};

/// A class for each record function; the events are `r0` … in this order.
macro_rules! classes {
    ($($class:ident $name:literal $layout:ident $(($ctx:literal))? { $($fields:tt)* } $event:ident $kind:ident $id:literal;)*) => {
        $(event_class! {
            /// One form of record.
            pub class $class = $name, $layout $(($ctx))? { $($fields)* }
            print "";
        }
        event! {
            /// Emitted by a test.
            pub $event: $class = $kind $id;
        })*

        fn ids() -> impl Iterator<Item = u32> {
            [$(<$event::Event as Event>::id().number()),*].into_iter()
        }
    };
}

classes! {
    Zero "r_zero" core24(0x80) { f: 24 x } r0 core "rules:r0";
    One "r_one" core24(0x80) { a: 32 x } r1 core "rules:r1";
    Two "r_two" core24(0x80) { a: 32 x, b: 32 x } r2 core "rules:r2";
    Three "r_three" core24(0x80) { a: 64 x, b: 32 x } r3 core "rules:r3";
    Four "r_four" core24(0x80) { a: 64 x, b: 64 x } r4 core "rules:r4";
    Str "r_text" core24(0x80) { t: * str } r5 core "rules:r5";
    Str1 "r_text1" core24(0x80) { a: 32 x, t: * str } r6 core "rules:r6";
    Six "r_six" core24(0x80) { a: 64 x, b: 64 x, c: 64 x } r7 core "rules:r7";
    Six1 "r_six_text" core24(0x80) { a: 64 x, b: 64 x, c: 64 x, t: * str } r8 core "rules:r8";
    ZeroC "r_zero_c" core8 { f: 8 x } c0 core "rules:s0";
    OneC "r_one_c" wide { a: 32 x } c1 wide "rules:s1";
    TwoC "r_two_c" core8 { a: 32 x, b: 32 x } c2 core "rules:s2";
    ThreeC "r_three_c" wide { a: 64 x, b: 32 x } c3 wide "rules:s3";
    FourC "r_four_c" core8 { a: 64 x, b: 64 x } c4 core "rules:s4";
    StrC "r_text_c" wide { t: * str } c5 wide "rules:s5";
    Str1C "r_text1_c" core8 { a: 32 x, t: * str } c6 core "rules:s6";
    SixC "r_six_c" wide { a: 64 x, b: 64 x, c: 64 x } c7 wide "rules:s7";
    Six1C "r_six_text_c" core8 { a: 64 x, b: 64 x, c: 64 x, t: * str } c8 core "rules:s8";
    Near "r_near" near { f: 11 x, a: 64 x } n0 near "rules:near";
    Far "r_far" near { f: 11 x, a: 64 x } n1 near "rules:near_far";
}

const A: u64 = 0x1122_3344_5566_7788;
const B: u64 = 0x99aa_bbcc_ddee_ff01;
const C: u64 = 0x0203_0405_0607_0809;
/// One that takes the fast path of texts, and one that does not.
const TEXTS: [&[u8]; 2] = [b"eleven byte", b"a text that is longer than sixteen bytes"];

macro_rules! emit_all {
    ($trace:ident, $text:expr) => {{
        let text: &[u8] = $text;
        $trace!(r0, 0x0065_4321u32);
        $trace!(r1, A as u32);
        $trace!(r2, A as u32, B as u32);
        $trace!(r3, A, B as u32);
        $trace!(r4, A, B);
        $trace!(r5, text);
        $trace!(r6, A as u32, text);
        $trace!(r7, A, B, C);
        $trace!(r8, A, B, C, text);
        $trace!(c0, 0x21u8);
        $trace!(c1, A as u32);
        $trace!(c2, A as u32, B as u32);
        $trace!(c3, A, B as u32);
        $trace!(c4, A, B);
        $trace!(c5, text);
        $trace!(c6, A as u32, text);
        $trace!(c7, A, B, C);
        $trace!(c8, A, B, C, text);
        $trace!(n0, 0x721u16, NEAR.load(Relaxed));
        $trace!(n1, 0x0feu8, A);
    }};
}

/// A time near that of the records.
static NEAR: AtomicU64 = AtomicU64::new(0);
/// The number of the event with it, and of the one with a time far from it.
const NUMBERS_NEAR: [usize; 2] = [18, 19];

/// Extra words of the event of that number, and whether it has a text.
fn shape(number: usize) -> (usize, bool) {
    if NUMBERS_NEAR.contains(&number) {
        return (2, false);
    }
    [
        (0, false),
        (1, false),
        (2, false),
        (3, false),
        (4, false),
        (0, true),
        (1, true),
        (6, false),
        (6, true),
    ][number % 9]
}

/// Extra words of the record with that word, of the event of that number.
fn words_in(number: usize, word: u32) -> usize {
    match wire::event_of(word) {
        wire::Event::Near { is_far: false, .. } => 1,
        _ => shape(number).0,
    }
}

/// The extra words of the event of that number.
fn extra(number: usize) -> [u32; 6] {
    let a = match number == NUMBERS_NEAR[0] {
        true => NEAR.load(Relaxed),
        false => A,
    };
    let [a, b, c] = [a, B, C].map(|pair| [pair as u32, (pair >> 32) as u32]);
    match number % 9 {
        2 => [a[0], b[0], 0, 0, 0, 0],
        3 => [a[0], a[1], b[0], 0, 0, 0],
        _ => [a[0], a[1], b[0], b[1], c[0], c[1]],
    }
}

fn emit_in_thread() {
    TEXTS.iter().for_each(|text| emit_all!(trace_event, text));
}

fn emit_in_interrupt() {
    TEXTS
        .iter()
        .for_each(|text| emit_all!(trace_event_irqs_off, text));
    // The other sink looks at the flags, and finds interrupts off.
    TEXTS.iter().for_each(|text| emit_all!(trace_event, text));
}

const NR: u32 = 20;

/// What was asked and told so far, of this module's events; what was not as it should be, with a bit for each reason.
static ASKED: AtomicU32 = AtomicU32::new(0);
static TOLD: AtomicU32 = AtomicU32::new(0);
static WRONG: AtomicU32 = AtomicU32::new(0);
/// The context that is expected.
static CONTEXT: AtomicU32 = AtomicU32::new(0);

fn number_of(word: u32) -> Option<usize> {
    let id = wire::event_of(word).id();
    ids().position(|known| known == id)
}

/// The word that the event of that number has in that context.
fn word_of(number: usize, context: u32) -> u32 {
    let id = ids().nth(number).unwrap_or(0);
    let fields = match number {
        0 => 0x6543_2100,
        9 => 0x2100,
        18 => 0x721 << 1,
        19 => 0x0fe << 1,
        _ => 0,
    };
    id | fields | if number < 9 { 0 } else { context }
}

/// Refuses every third, and wants to be told of every second.
fn looks(record: &Arguments) -> u32 {
    let Some(number) = number_of(record.word()) else {
        return 1;
    };
    let asked = ASKED.fetch_add(1, Relaxed);
    let (words, has_text) = shape(number);
    let text = has_text.then_some(TEXTS[asked as usize / NR as usize % 2]);
    let context = CONTEXT.load(Relaxed);
    let mut wrong = 0;
    wrong |= u32::from(number != (asked % NR) as usize);
    wrong |= u32::from(record.word() != word_of(number, context)) << 1;
    wrong |= u32::from(record.extra() != &extra(number)[..words]) << 2;
    wrong |= u32::from(record.text() != text) << 3;
    wrong |= u32::from(&raw const *record as usize % 8 != 0) << 4;
    WRONG.fetch_or(wrong, Relaxed);
    u32::from(!asked.is_multiple_of(3)) | u32::from(asked.is_multiple_of(2)) << 8
}

fn is_told(result: u32) {
    WRONG.fetch_or(u32::from(result & !1 != 0x100) << 5, Relaxed);
    TOLD.fetch_add(1, Relaxed);
}

fn switch(on: bool) -> Result<(), Error> {
    ids().try_for_each(|id| trace::enable(id, on).map(|_| ()))
}

/// Every record in the ring of this CPU, in order, but for its time: number of the event, and its bytes behind the
/// time.
fn drain(mut each: impl FnMut(usize, &[u8])) {
    trace::tracing_off();
    drained::close();
    drained::drain(0, |sub| {
        if SubHeader::decode(sub).is_none() {
            return;
        }
        let word = |at: usize| {
            sub.get(at..at + 4)
                .map_or(0, |b| u32::from_le_bytes([b[0], b[1], b[2], b[3]]))
        };
        let mut at = wire::SUB_HEADER as usize;
        while at + 8 <= sub.len() && word(at + 4) & 0xff != 0 {
            let mut len = 12; // the clock's
            if let Some(number) = number_of(word(at + 4)) {
                len = 8 + 4 * words_in(number, word(at + 4));
                if shape(number).1 {
                    len += 4 + (word(at + len) as usize).next_multiple_of(4);
                }
                each(number, &sub[at + 4..(at + len).min(sub.len())]);
            }
            at += len;
        }
    });
}

/// What there is in the ring is, in this context, what `emit_all` recorded of the rounds but for every third, or wholly.
fn check_ring(contexts: &[u32], is_whole: bool) -> u32 {
    let mut next = 0;
    let mut wrong = 0;
    drain(|number, bytes| {
        if !is_whole && next % 3 == 0 {
            next += 1;
        }
        let context = contexts.get(next / (2 * NR as usize)).copied().unwrap_or(0);
        let word_at = |at: usize| {
            bytes
                .get(at..at + 4)
                .map_or(0, |b| u32::from_le_bytes([b[0], b[1], b[2], b[3]]))
        };
        let (words, has_text) = (words_in(number, word_at(0)), shape(number).1);
        // Should the clock's upper half change just now, the near one is far as well.
        let far = match number {
            18 => word_at(0) & wire::NEAR_FAR,
            19 => wire::NEAR_FAR,
            _ => 0,
        };
        wrong |= u32::from(number != next % NR as usize) << 8;
        wrong |= u32::from(word_at(0) != word_of(number, context) | far) << 9;
        wrong |= u32::from((0..words).any(|i| word_at(4 + 4 * i) != extra(number)[i])) << 10;
        let text = TEXTS[next / NR as usize % 2];
        let at = 4 + 4 * words;
        let is_right = !has_text
            || word_at(at) as usize == text.len()
                && bytes.get(at + 4..at + 4 + text.len()) == Some(text);
        wrong |= u32::from(!is_right) << 11;
        next += 1;
    });
    WRONG.fetch_or(wrong, Relaxed);
    next as u32
}

fn begin() -> Result<(), Error> {
    trace::tracing_off();
    for _ in 0..2 {
        trace::close(0)?;
        trace::discard(0);
    }
    trace::set_mode(Mode::StopWhenFull);
    NEAR.store(Instant::now().cycles(), Relaxed);
    ASKED.store(0, Relaxed);
    TOLD.store(0, Relaxed);
    WRONG.store(0, Relaxed);
    switch(true)?;
    trace::tracing_on();
    Ok(())
}

/// Preempt-count byte and thread, in the place of a record's context.
fn context(flags: u32) -> u32 {
    (0x80 | flags) << 16 | u32::from(thread::current().id()) << 24
}

const IRQS_ON: u32 = 0x40;
const HARDIRQ: u32 = 0x10;

static GO_ON: AtomicBool = AtomicBool::new(true);
static ROUNDS: [AtomicU32; 2] = [const { AtomicU32::new(0) }; 2];
static SEEN: AtomicU32 = AtomicU32::new(0);

thread_stack!(static STACKS: [16384; 2]);

fn sees(_: &Arguments) -> u32 {
    SEEN.fetch_add(1, Relaxed);
    3
}

fn nothing(_: u32) {}

fn emits(cpu: usize) {
    while GO_ON.load(Relaxed) {
        emit_in_thread();
        ROUNDS[cpu].fetch_add(1, Relaxed);
    }
}

static STORM: spin::Once<Timer> = spin::Once::new();

fn storm(_: usize, expiry: Expiry) {
    emit_all!(trace_event_irqs_off, TEXTS[0]);
    if GO_ON.load(Relaxed)
        && let Some(timer) = STORM.get()
    {
        timer.arm(expiry.at + Cycles::new(30_011 + irq::count(0) % 61));
    }
}

target_test! {
    /// The records of the record functions, in every form and context, have the bytes that their layouts say.
    fn every_form_of_record(Shared) {
        begin()?;
        emit_in_thread();
        interrupt::raise(emit_in_interrupt);
        let contexts = [context(IRQS_ON), context(HARDIRQ), context(HARDIRQ)];
        let nr = check_ring(&contexts, true);
        switch(false)?;
        check_eq!((nr, WRONG.load(Relaxed)), (6 * NR, 0));
        Ok(())
    }

    /// The record functions in assembly and those that are the model of them make the same bytes of the same arguments:
    /// every form, and texts of every length up to more than one that takes the fast path.
    fn as_the_model_records(Shared) {
        begin()?;
        let text = b"abcdefghijklmnopqrstuvwxyz";
        macro_rules! both {
            ($class:ident $event:ident ($($value:expr),*)) => {
                $class::emit::<trace::KernelSink>(<$event::Event as Event>::id() $(, $value)*);
                $class::emit::<ModelSink>(<$event::Event as Event>::id() $(, $value)*);
            };
        }
        both!(Zero r0 (0x0065_4321u32));
        both!(One r1 (A as u32));
        both!(Two r2 (A as u32, B as u32));
        both!(Three r3 (A, B as u32));
        both!(Four r4 (A, B));
        both!(Six r7 (A, B, C));
        both!(ZeroC c0 (0x21u8));
        both!(OneC c1 (A as u32));
        both!(TwoC c2 (A as u32, B as u32));
        both!(ThreeC c3 (A, B as u32));
        both!(FourC c4 (A, B));
        both!(SixC c7 (A, B, C));
        both!(Near n0 (0x721u16, NEAR.load(Relaxed)));
        both!(Far n1 (0x0feu8, A));
        for len in 0..=text.len() {
            both!(Str r5 (&text[..len]));
            both!(Str1 r6 (A as u32, &text[..len]));
            both!(Six1 r8 (A, B, C, &text[..len]));
            both!(StrC c5 (&text[..len]));
            both!(Str1C c6 (A as u32, &text[..len]));
            both!(Six1C c8 (A, B, C, &text[..len]));
        }
        let mut before = heapless::Vec::<u8, 128>::new();
        let (mut nr, mut differ) = (0, 0);
        drain(|number, bytes| {
            let word = bytes.first_chunk().map_or(0, |word| u32::from_le_bytes(*word));
            let (words, has_text) = (words_in(number, word), shape(number).1);
            // What fills a text up to a multiple of 4 means nothing.
            let at = 4 + 4 * words;
            let len = bytes.get(at).map_or(0, |len| usize::from(*len));
            let used = bytes.get(..if has_text { at + 4 + len } else { at }).unwrap_or_default();
            if nr % 2 == 0 {
                before.clear();
                let _ = before.extend_from_slice(used);
            } else {
                differ += u32::from(used.is_empty() || before != used);
            }
            nr += 1;
        });
        switch(false)?;
        check_eq!((nr, differ), (2 * (14 + 6 * 27), 0));
        Ok(())
    }

    /// Diverted, each form of record shows all of its arguments before it is made, in threads and interrupts; what is
    /// refused is not in the ring, the others are as ever; and undiverted nobody is asked.
    fn rules_see_every_record(Shared) {
        begin()?;
        // SAFETY: they look at what they are shown, and change atomics of this module's.
        unsafe { rules::register(looks, is_told)? };
        CONTEXT.store(context(IRQS_ON), Relaxed);
        emit_in_thread();
        check_eq!((ASKED.load(Relaxed), WRONG.load(Relaxed)), (2 * NR, 0));
        CONTEXT.store(context(HARDIRQ), Relaxed);
        interrupt::raise(emit_in_interrupt);
        check_eq!((ASKED.load(Relaxed), TOLD.load(Relaxed), WRONG.load(Relaxed)), (6 * NR, 3 * NR, 0));
        // SAFETY: they are this test's.
        unsafe { rules::unregister()? };
        let contexts = [context(IRQS_ON), context(HARDIRQ), context(HARDIRQ)];
        check_eq!(check_ring(&contexts, false), 6 * NR);
        check_eq!(WRONG.load(Relaxed), 0);
        trace::tracing_on();
        emit_in_thread();
        check_eq!(ASKED.load(Relaxed), 6 * NR);
        let contexts = [context(IRQS_ON)];
        check_eq!(check_ring(&contexts, true), 2 * NR);
        check_eq!(WRONG.load(Relaxed), 0);
        switch(false)?;
        Ok(())
    }

    /// Two CPUs, and interrupts, record without end while the functions are diverted and put back 1,000 times: nobody
    /// meets half an instruction, and what is in the ring is whole.
    fn diverted_a_thousand_times(TwoCpus) {
        check_eq!(takt_board::smp::start(2), 2);
        begin()?;
        trace::set_mode(Mode::Overwrite);
        STORM.call_once(|| Timer::new(storm, 0).expect("there are timers left")).arm(Instant::after(Nanos::from_micros(100)));
        let mut threads = [None, None];
        for (cpu, thread) in threads.iter_mut().enumerate() {
            *thread = Some(Builder::new("emits", PRIORITY - 1)?.cpu(cpu).spawn(&STACKS[cpu], emits, cpu)?);
        }
        // A busy host may keep a CPU from running: then the changes go on, ten seconds at most.
        let end = Instant::after(Nanos::from_secs(10));
        let got_on = || ROUNDS.iter().all(|nr| nr.load(Relaxed) > 100) && SEEN.load(Relaxed) > 1_000;
        for round in 0.. {
            if round >= 1_000 && (got_on() || Instant::now() > end) {
                break;
            }
            // SAFETY: they count, in an atomic of this module's.
            unsafe { rules::register(sees, nothing)? };
            if round % 20 == 0 {
                sleep(Nanos::from_micros(200))?;
            }
            // SAFETY: they are this test's.
            unsafe { rules::unregister()? };
            if round % 20 == 10 {
                sleep(Nanos::from_micros(200))?;
            }
        }
        GO_ON.store(false, Relaxed);
        for thread in threads.into_iter().flatten() {
            thread.join(Instant::after(Nanos::from_secs(10)))?;
        }
        switch(false)?;
        let seen = SEEN.load(Relaxed);
        for rounds in &ROUNDS {
            check!(rounds.load(Relaxed) > 100, "too few rounds");
        }
        check!(seen > 1_000, "{seen} seen");
        let mut wrong = 0;
        drain(|number, bytes| {
            let word = bytes.first_chunk().map_or(0, |word| u32::from_le_bytes(*word));
            let words = words_in(number, word);
            let is_right = (0..words).all(|i| bytes.get(4 + 4 * i..8 + 4 * i) == Some(&extra(number)[i].to_le_bytes()));
            wrong += u32::from(!is_right);
        });
        check_eq!(wrong, 0);
        Ok(())
    }
}
