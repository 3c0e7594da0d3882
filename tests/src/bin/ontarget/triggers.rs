//! Filters and triggers of events, and snapshots: set as a host sets them, by lines.

use core::convert::Infallible;
use core::fmt::Write;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

use takt_board::carry_out;
use takt_kernel::config::{TRACE_NR_SUBS, TRACE_SUB_SIZE};
use takt_kernel::trace::{self, Event, latency, set_tracer};
use takt_kernel::{preempt, trace_event};
use takt_tests::drained::{close, drain};
use takt_tests::harness::{Failure, PRIORITY};
use takt_tests::worker::{self, burn};
use takt_tests::{check, check_eq, interrupt, target_test};
use takt_tracer::control::setting::{Errno, Setting};
use takt_tracer::ring::Word;
use takt_tracer::ring::observer::{Observer, RingView};
use takt_tracer::wire::{self, SubHeader};
use takt_tracer::{event, event_class};

event_class! {
    /// A number.
    pub class Ruled = "ruled", core8 { number: 32 u }
    print "number={number}";
}
event! {
    /// Emitted by the tests of rules.
    pub ruled: Ruled = core "test:ruled";
}

type Line = heapless::String<256>;

fn set(text: &str) -> Result<(), Errno> {
    Setting::parse(text)
        .unwrap_or(Err(Errno::NoEntry))
        .and_then(carry_out)
}

fn id() -> u32 {
    ruled::Event::id().number()
}

fn set_of_event(name: &str, rest: &str) -> Result<(), Errno> {
    let mut line = Line::new();
    let _ = write!(line, "{name}={}{rest}", id());
    set(&line)
}

/// Stages a program that lets numbers from `least` to `most` through, behind `at` words; it has 8 words.
fn stage(at: usize, least: u32, most: u32) -> Result<(), Errno> {
    let mut line = Line::new();
    // One test: a range, of the 32 bits of the first extra word.
    let _ = write!(
        line,
        "program={at},1,301,fffeffff,200001,{least:x},0,{most:x},0"
    );
    set(&line)
}

#[inline(never)]
fn emit(numbers: core::ops::Range<u32>) {
    for number in numbers {
        trace_event!(ruled, number);
    }
}

fn reset() -> Result<(), Errno> {
    for place in (0..4).rev() {
        let mut line = Line::new();
        let _ = write!(line, ",{place}");
        // There need not be one.
        let _ = set_of_event("event_trigger_off", &line);
    }
    set_of_event("event_filter", ",0,0")?;
    for text in [
        "tracing_on=0",
        "ftrace=nop",
        "mode=flight",
        "snapshot=0",
        "trace_clear=",
    ] {
        set(text)?;
    }
    set_of_event("events", "")?;
    set("tracing_on=1")
}

/// The first CPU's ring, as one from outside reads it.
struct Outside;

impl RingView for Outside {
    type Error = Infallible;

    fn load(&self, word: Word) -> Result<u64, Infallible> {
        let (control, _) = trace::place_of(0);
        // SAFETY: a control word, which is an atomic.
        Ok(
            unsafe { AtomicU64::from_ptr((control + word.offset() as usize) as *mut u64) }
                .load(Relaxed),
        )
    }

    fn copy(&self, offset: u32, out: &mut [u8]) -> Result<(), Infallible> {
        let (_, memory) = trace::place_of(0);
        for (at, byte) in (offset as usize..).zip(out) {
            // SAFETY: inside the ring's memory.
            *byte = unsafe { ((memory + at) as *const u8).read_volatile() };
        }
        Ok(())
    }
}

/// Numbers that were found: how many, the first and the last.
#[derive(Debug, Default, PartialEq, Eq)]
struct Found {
    nr: u32,
    first: Option<u32>,
    last: Option<u32>,
    /// Records of a latency that was kept.
    maxima: u32,
}

impl Found {
    fn range(first: u32, last: u32) -> Self {
        Self {
            nr: last + 1 - first,
            first: Some(first),
            last: Some(last),
            maxima: 0,
        }
    }

    fn take(&mut self, sub: &[u8]) {
        let word = |at: usize| {
            let bytes = sub.get(at..at + 4).and_then(|bytes| bytes.first_chunk());
            bytes.map_or(0, |bytes| u32::from_le_bytes(*bytes))
        };
        let mut at = wire::SUB_HEADER as usize;
        while at + 8 <= sub.len() && word(at + 4) & 0xff != 0 {
            let event = word(at + 4) & 0xff;
            if event == id() {
                self.nr += 1;
                self.first.get_or_insert(word(at + 8));
                self.last = Some(word(at + 8));
            }
            self.maxima += u32::from(event == latency::latency_max::Event::id().number());
            // Only these tests' events are on, and the latency tracers' own.
            at += match event {
                event if event == id() || event == wire::CLOCK_ID => 12,
                event if event == latency::latency_max::Event::id().number() => 32,
                _ => return,
            };
        }
    }
}

static COPY: spin::Mutex<[u8; TRACE_SUB_SIZE]> = spin::Mutex::new([0; TRACE_SUB_SIZE]);

/// What the snapshot holds.
fn snapshot() -> Result<Found, Failure> {
    let observer = Observer::new(TRACE_SUB_SIZE as u32, TRACE_NR_SUBS as u32);
    let observer = observer.ok_or(Failure::new(format_args!("no observer")))?;
    let mut copy = COPY.lock();
    let mut found = Found::default();
    let Ok(kept) = observer.kept(&Outside);
    for seq in kept {
        if let Ok(Some(_)) = observer.copy_kept(&Outside, seq, &mut *copy) {
            check!(SubHeader::decode(&*copy).is_some_and(|header| header.seq == seq));
            found.take(&*copy);
        }
    }
    Ok(found)
}

/// What is recorded now, all of it: recording ends.
fn live() -> Found {
    trace::tracing_off();
    close();
    let mut found = Found::default();
    drain(0, |sub| {
        found.take(sub);
    });
    found
}

/// Stages a filter `COMM == "w3"` as a host compiles it that knows no thread of that name; it has 14 words.
fn stage_name() -> Result<(), Errno> {
    set("program=0,1,20200,fffeffff,0,0,0,0,0,0,0,0,0,2,3377")
}

/// Emits its argument, which stands for who runs.
fn emitter(number: usize) {
    emit(number as u32..number as u32 + 1);
}

target_test! {
    /// A filter on a thread's name: threads that have it already, and that get it afterwards, by ids that others had.
    fn names_of_threads_that_come_later(Shared) {
        reset()?;
        // Its id is that of the next ones.
        let early = worker::create(3, PRIORITY + 1, emitter, 1)?;
        stage_name()?;
        set_of_event("event_filter", ",14,0")?;
        early.start()?;
        worker::join(&[early])?;
        for (number, slot) in [(2, 2), (3, 3), (4, 3), (5, 4), (6, 3)] {
            let thread = worker::spawn(slot, PRIORITY + 1, emitter, number)?;
            worker::join(&[thread])?;
            check_eq!(thread.id(), early.id());
        }
        emit(7..8);
        let found = live();
        check_eq!((found.nr, found.first, found.last), (4, Some(1), Some(6)));
        // Nobody asks for names any more.
        set_of_event("event_filter", ",0,0")?;
        set("tracing_on=1")?;
        let thread = worker::spawn(4, PRIORITY + 1, emitter, 8)?;
        worker::join(&[thread])?;
        check_eq!(live().last, Some(8));
        reset()?;
        Ok(())
    }

    /// Only what the filter lets through is recorded, until it is taken away.
    fn filters_let_through(Shared) {
        reset()?;
        stage(0, 10, 19)?;
        set_of_event("event_filter", ",8,0")?;
        emit(0..100);
        check_eq!(live(), Found::range(10, 19));
        reset()?;
        emit(0..100);
        check_eq!(live(), Found::range(0, 99));
        // Not a program: the one there was stays.
        stage(0, 10, 19)?;
        set_of_event("event_filter", ",8,0")?;
        check_eq!(set_of_event("event_filter", ",7,0"), Err(Errno::Invalid));
        check_eq!(set_of_event("event_filter", ",2000,0"), Err(Errno::Invalid));
        check_eq!(set("program=1567,1,2"), Err(Errno::NoMemory));
        trace::tracing_on();
        emit(0..100);
        check_eq!(live(), Found::range(10, 19));
        reset()?;
        Ok(())
    }

    /// In interrupts too.
    fn filters_hold_in_interrupts(Shared) {
        reset()?;
        stage(0, 5, 6)?;
        set_of_event("event_filter", ",8,0")?;
        interrupt::raise(|| emit(0..10));
        check_eq!(live(), Found::range(5, 6));
        reset()?;
        Ok(())
    }

    /// `traceoff` stops behind its event, `traceon` goes on before it, each as often as it may.
    fn triggers_stop_and_go_on(Shared) {
        reset()?;
        stage(0, 7, 7)?;
        set_of_event("event_trigger", ",traceoff,1,0,0,8,0")?;
        emit(0..20);
        check!(!trace::is_wanted());
        check_eq!(live(), Found::range(0, 7));
        trace::tracing_on();
        emit(0..20);
        check!(trace::is_wanted());
        check_eq!(live(), Found::range(0, 19));
        stage(0, 12, 12)?;
        set_of_event("event_trigger", ",traceon,-,0,0,8,0")?;
        emit(0..20);
        check!(trace::is_wanted());
        check_eq!(live(), Found::range(12, 19));
        reset()?;
        Ok(())
    }

    /// `traceoff` while nothing is recorded, and `traceon` while something is, are none of the times that they may act.
    fn triggers_that_change_nothing_do_not_count(Shared) {
        reset()?;
        set_of_event("event_trigger", ",traceoff,2,0,0,0,0")?;
        emit(0..20);
        check!(!trace::is_wanted());
        trace::tracing_on();
        emit(20..40);
        check!(!trace::is_wanted());
        trace::tracing_on();
        emit(40..60);
        check!(trace::is_wanted());
        let found = live();
        check_eq!((found.nr, found.first, found.last), (22, Some(0), Some(59)));
        reset()?;
        set_of_event("event_trigger", ",traceon,1,0,0,0,0")?;
        emit(0..20);
        trace::tracing_off();
        emit(20..40);
        check!(trace::is_wanted());
        trace::tracing_off();
        emit(40..60);
        check!(!trace::is_wanted());
        check_eq!(live(), Found::range(0, 39));
        reset()?;
        Ok(())
    }

    /// An event that is off occurs for its triggers and is not recorded; with the last one it is off again.
    fn triggers_see_events_that_are_off(Shared) {
        reset()?;
        set_of_event("events_off", "")?;
        stage(0, 3, 3)?;
        set_of_event("event_trigger", ",traceoff,-,0,0,8,0")?;
        check!(!trace::is_enabled(id()));
        emit(0..3);
        check!(trace::is_wanted());
        emit(3..5);
        check!(!trace::is_wanted());
        check_eq!(live().nr, 0);
        // Switched on meanwhile, it is recorded, and stays on when the trigger goes.
        set_of_event("events", "")?;
        check!(trace::is_enabled(id()));
        trace::tracing_on();
        emit(0..3);
        check_eq!(live().nr, 3);
        set_of_event("event_trigger_off", ",0")?;
        check!(trace::is_enabled(id()));
        set_of_event("events_off", "")?;
        set_of_event("event_trigger", ",traceoff,-,0,0,8,0")?;
        set_of_event("event_trigger_off", ",0")?;
        check!(!trace::is_enabled(id()));
        trace::tracing_on();
        emit(0..10);
        check!(trace::is_wanted());
        check_eq!(live().nr, 0);
        check_eq!(set_of_event("event_trigger_off", ",0"), Err(Errno::Invalid));
        reset()?;
        Ok(())
    }

    /// The trigger `snapshot` keeps what was recorded up to its event.
    fn triggers_take_snapshots(Shared) {
        reset()?;
        stage(0, 7, 7)?;
        set_of_event("event_trigger", ",snapshot,1,0,0,8,0")?;
        emit(0..20);
        check_eq!(snapshot()?, Found::range(0, 7));
        emit(0..20);
        check_eq!(snapshot()?, Found::range(0, 7));
        reset()?;
        Ok(())
    }

    /// A snapshot stays whatever is recorded then, until it is cleared, freed, or there is another.
    fn snapshots_stay(Shared) {
        reset()?;
        check_eq!(snapshot()?.nr, 0);
        emit(0..50);
        set("snapshot=1")?;
        check_eq!(snapshot()?, Found::range(0, 49));
        let ring = (TRACE_NR_SUBS * TRACE_SUB_SIZE / 12) as u32;
        emit(50..50 + 3 * ring);
        check_eq!(snapshot()?, Found::range(0, 49));
        set("snapshot=1")?;
        let last = 49 + 3 * ring;
        let found = snapshot()?;
        check_eq!(found.last, Some(last));
        // Half the ring, but for headers and what one sub-buffer may lack.
        check!(found.nr > ring / 2 - ring / 16, "{} of {ring}", found.nr);
        check_eq!(found.first, Some(last + 1 - found.nr));
        set("snapshot=2")?;
        check_eq!(snapshot()?.nr, 0);
        emit(0..5);
        set("snapshot=1")?;
        set("snapshot=0")?;
        check_eq!(snapshot()?.nr, 0);
        emit(0..3 * ring);
        let found = live();
        check!(found.nr > ring - ring / 16, "{} of {ring}", found.nr);
        check_eq!(found.last, Some(3 * ring - 1));
        // There is nothing to keep where nothing is overwritten.
        set("mode=capture")?;
        check_eq!(set("snapshot=1"), Err(Errno::Busy));
        reset()?;
        Ok(())
    }

    /// A latency tracer keeps the trace of the longest stretch, whatever is recorded after it.
    fn maxima_are_kept(Shared) {
        reset()?;
        set_tracer("irqsoff")?;
        for what in ["snapshot=0", "snapshot=1", "snapshot=2"] {
            check_eq!(set(what), Err(Errno::Busy));
        }
        let stretch = |first: u32, instructions: u64| {
            let guard = preempt::irq_save();
            emit(first..first + 3);
            burn(instructions);
            drop(guard);
        };
        stretch(100, 30_000);
        let found = snapshot()?;
        check_eq!((found.last, found.maxima > 0), (Some(102), true));
        // Shorter ones, and a ring full of them.
        let ring = (TRACE_NR_SUBS * TRACE_SUB_SIZE / 12) as u32;
        for turn in 0..ring {
            stretch(1000 + turn, 0);
        }
        check_eq!(snapshot()?, found);
        stretch(200, 60_000);
        check_eq!(snapshot()?.last, Some(202));
        check!(latency::last().is_some_and(|latency| latency.cycles > 60_000));
        set_tracer("nop")?;
        check_eq!(snapshot()?.nr, 0);
        set("snapshot=1")?;
        reset()?;
        Ok(())
    }

    /// Where everything is handed over the rings stay whole, also if that is said while a latency tracer is at work.
    fn maxima_divide_no_capture(Shared) {
        reset()?;
        set_tracer("irqsoff")?;
        set("mode=capture")?;
        let guard = preempt::irq_save();
        burn(30_000);
        drop(guard);
        check!(latency::last().is_some_and(|latency| latency.cycles > 30_000));
        let word = |word| {
            let Ok(value) = Outside.load(word);
            value
        };
        check_eq!((word(Word::Halves), word(Word::Wanted)), (0, word(Word::Taken)));
        set_tracer("nop")?;
        reset()?;
        Ok(())
    }
}
