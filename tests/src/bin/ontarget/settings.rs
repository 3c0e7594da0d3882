//! What the command line and the host set of the tracers, carried out.

use takt_board::carry_out;
use takt_kernel::config::{TRACE_NR_SUBS, TRACE_SUB_SIZE};
use takt_kernel::machine::Text;
use takt_kernel::trace::{self, Event, Mode, tracers};
use takt_kernel::trace_event;
use takt_tests::harness::PRIORITY;
use takt_tests::worker::{join, spawn};
use takt_tests::{check, check_eq, note, target_test};
use takt_tracer::control::setting::{Errno, Setting};
use takt_tracer::{event, event_class, wire};

event_class! {
    /// A number.
    pub class Set = "set", core8 { number: 32 u }
    print "number={number}";
}
event! {
    /// Emitted by the tests of settings.
    pub by_settings: Set = core "test:by_settings";
}

/// Records of `Set` that a sub-buffer holds.
const IN_SUB: u64 = ((TRACE_SUB_SIZE - wire::SUB_HEADER as usize) / 12) as u64;

/// Parses and carries out.
fn set(text: &str) -> Result<(), Errno> {
    Setting::parse(text)
        .unwrap_or(Err(Errno::NoEntry))
        .and_then(carry_out)
}

/// Switches the event of these tests by its id.
fn switch(on: bool) -> Result<(), Errno> {
    let ids = ["events=", "events_off="];
    let id = by_settings::Event::id().number();
    let mut text = heapless::String::<32>::new();
    let _ = core::fmt::write(&mut text, format_args!("{}{id}", ids[usize::from(!on)]));
    set(&text)
}

#[inline(never)]
fn emit(times: u64) {
    for number in 0..times {
        trace_event!(by_settings, number as u32);
    }
}

/// Events that are in the ring and that somebody may read.
fn in_buffer() -> u64 {
    trace::counters_of(0).in_buffer
}

/// As an image boots with `capture=off`, and nothing in the rings.
fn reset() {
    let all = [
        "tracing_on=0",
        "ftrace=nop",
        "tracing_cpumask=ff",
        "mode=flight",
        "trace_clear=",
    ];
    for text in all {
        if set(text).is_err() {
            note!("cannot set {text}");
        }
    }
    let _ = trace::set_buffer_size(TRACE_NR_SUBS);
}

target_test! {
    /// Events go on and off by their ids, and recording as such does.
    fn settings_switch_events_and_recording(Shared) {
        reset();
        check_eq!(switch(true), Ok(()));
        emit(3);
        check_eq!(in_buffer(), 0);
        check_eq!(set("tracing_on=1"), Ok(()));
        emit(3);
        // Whether its event is on or not.
        check_eq!(set("trace_marker=a word"), Ok(()));
        check_eq!(in_buffer(), 4);
        check_eq!(switch(false), Ok(()));
        emit(3);
        check_eq!(in_buffer(), 4);
        check_eq!(set("tracing_on=0"), Ok(()));
        check!(!trace::is_wanted() && !trace::is_on());
        reset();
        Ok(())
    }
}

target_test! {
    /// A bad setting has the number that Linux gives, and changes nothing.
    fn bad_settings_change_nothing(Shared) {
        reset();
        let before = tracers::current();
        check_eq!(set("ftrace=no_such_tracer"), Err(Errno::Invalid));
        check_eq!(tracers::current(), before);
        check_eq!(set("tracing_on=2"), Err(Errno::Invalid));
        check_eq!(set("tracing_cpumask=10000"), Err(Errno::Overflow));
        check_eq!(trace::cpumask(), 0xff);
        check_eq!(set("nothing=1"), Err(Errno::NoEntry));
        Ok(())
    }
}

/// Sets what waits for the right to patch.
fn sets(_: usize) {
    if set("event_pid=").is_err() {
        note!("no list of threads");
    }
}

target_test! {
    /// Of several threads that set something at once, none waits for another that does not run.
    fn several_threads_set(Shared) {
        // SAFETY: it is given back below.
        let text = unsafe { Text::take() }?;
        // Each preempts the one before, which waits with half of it done.
        let threads = [spawn(0, PRIORITY + 1, sets, 0)?, spawn(1, PRIORITY + 2, sets, 0)?];
        drop(text);
        join(&threads)?;
        Ok(())
    }
}

target_test! {
    /// A CPU that is not in the mask records nothing, and goes on when it is in it again.
    fn cpumask_stops_a_cpu(Shared) {
        reset();
        check_eq!(switch(true), Ok(()));
        check_eq!(set("tracing_on=1"), Ok(()));
        check_eq!(set("tracing_cpumask=0xfe"), Ok(()));
        emit(5);
        check_eq!(in_buffer(), 0);
        check!(trace::is_wanted());
        check_eq!(set("tracing_cpumask=1"), Ok(()));
        emit(5);
        check_eq!(in_buffer(), 5);
        // While recording is off, the mask turns nothing on.
        check_eq!(set("tracing_on=0"), Ok(()));
        check_eq!(set("tracing_cpumask=3"), Ok(()));
        check!(!trace::is_on());
        check_eq!(switch(false), Ok(()));
        reset();
        Ok(())
    }
}

target_test! {
    /// Clearing empties the ring in both modes; a full one that keeps the oldest takes new events again.
    fn clear_empties_the_ring(Shared) {
        reset();
        check_eq!(switch(true), Ok(()));
        for mode in ["mode=flight", "mode=capture"] {
            check_eq!(set("tracing_on=0"), Ok(()));
            check_eq!(set("trace_clear="), Ok(()));
            check_eq!(set(mode), Ok(()));
            check_eq!(set("tracing_on=1"), Ok(()));
            emit(IN_SUB * TRACE_NR_SUBS as u64 + 100);
            check!(in_buffer() > IN_SUB);
            check_eq!(set("trace_clear="), Ok(()));
            check_eq!(in_buffer(), 0);
            check!(trace::is_wanted() && trace::is_on());
            emit(7);
            check_eq!(in_buffer(), 7);
        }
        check_eq!(switch(false), Ok(()));
        reset();
        Ok(())
    }
}

target_test! {
    /// A part of the ring can be used; an impossible size changes nothing.
    fn buffer_size_is_a_part_of_the_ring(Shared) {
        reset();
        check_eq!(switch(true), Ok(()));
        check_eq!(set("mode=capture"), Ok(()));
        check_eq!(set("trace_buf_subs=4"), Ok(()));
        check_eq!(trace::buffer_size(), 4);
        check_eq!(set("trace_buf_subs=65536"), Err(Errno::NoMemory));
        check_eq!(set("trace_buf_subs=0"), Err(Errno::Invalid));
        check_eq!(trace::buffer_size(), 4);
        check_eq!(set("tracing_on=1"), Ok(()));
        emit(IN_SUB * 10);
        check!(in_buffer() <= IN_SUB * 4 && in_buffer() > IN_SUB * 3);
        check_eq!(set("trace_clear="), Ok(()));
        // What is overwritten in a smaller ring is not in it.
        check_eq!(set("tracing_on=0"), Ok(()));
        trace::set_mode(Mode::Overwrite);
        check_eq!(set("tracing_on=1"), Ok(()));
        emit(IN_SUB * 10);
        check!(in_buffer() <= IN_SUB * 4 && in_buffer() > IN_SUB * 2);
        check_eq!(set("trace_buf_subs=1"), Ok(()));
        check_eq!(trace::buffer_size(), 2);
        check_eq!(switch(false), Ok(()));
        reset();
        check_eq!(trace::buffer_size(), TRACE_NR_SUBS);
        Ok(())
    }
}
