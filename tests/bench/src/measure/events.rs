//! The cost of trace events.

use core::hint::black_box;

use takt_kernel::trace::events::{
    Contended, Create, OneMutex, OneThread, OneTimer, Place, Prio, Switch, Text, TimerDeadline,
    Vector, Wakeup,
};
use takt_kernel::trace::{self, Event, Mode};
use takt_kernel::trace_event;
use takt_tracer::{event, event_class};

use super::switch::yield_to_equal;
use crate::clock::{own_cost, stamp};
use crate::report::{bytes, insn};

event_class! {
    /// Two arguments, in an event whose id has 16 bits.
    pub class Two = "bench_two", wide { first: 32 u, second: 32 u }
    print "first={first} second={second}";
}

event_class! {
    /// As timerlat's class of samples; that crate's stacks would make the boot of this image longer.
    pub class Sample = "bench_sample", core8 { slot: 8 u, seqnum: 32 u, timer_latency: 32 cycles }
    print "#{seqnum} slot={slot} timer_latency={timer_latency} ns";
}

/// Declares an event for each class, and a function that measures each.
macro_rules! classes {
    ($($event:ident $class:ident $kind:ident $name:literal ($($arg:ident: $ty:ty = $value:expr),*);)*) => {
        $(event! {
            /// Emitted by the benchmark.
            pub $event: $class = $kind $name;
        })*

        fn every_class() {
            $({
                // Arguments as they are at a real place: in registers, their values unknown to the compiler.
                #[inline(never)]
                fn site($($arg: $ty),*) -> u32 {
                    let before = stamp();
                    trace_event!($event $(, $arg)*);
                    stamp().wrapping_sub(before)
                }
                class(stringify!($event), <$event::Event as Event>::id().number(), || site($(black_box($value)),*));
            })*
        }
    };
}

classes! {
    switch Switch core "bench:switch" (next: u8 = 7, prev_prio: u8 = 50, next_prio: u8 = 51, state: u8 = 1);
    wakeup Wakeup core "bench:wakeup" (tid: u8 = 7, prio: u8 = 50, cpu: u32 = 0);
    vector Vector core "bench:vector" (vector: u32 = 0x50);
    timer_deadline TimerDeadline core "bench:timer_deadline" (timer: u32 = 300, expires: u64 = 1 << 40);
    one_timer OneTimer core "bench:one_timer" (timer: u32 = 300);
    one_thread OneThread core "bench:one_thread" (tid: u32 = 7);
    prio Prio core "bench:prio" (tid: u8 = 7, old: u8 = 50, new: u8 = 51, base: u8 = 50);
    place Place core "bench:place" (caller: u32 = 0x20_0000);
    contended Contended core "bench:contended" (owner: u32 = 7, prio: u32 = 50, mutex: u32 = 0x20_0000);
    one_mutex OneMutex core "bench:one_mutex" (mutex: u32 = 0x20_0000);
    two Two wide "bench:two" (first: u32 = 1, second: u32 = 2);
    sample Sample core "bench:sample" (slot: u32 = 0, seqnum: u32 = 7, latency: u32 = 187);
    text Text core "bench:text" (buf: &'static [u8] = b"sixteen bytes!!!");
    create Create core "bench:create" (tid: u32 = 7, prio: u32 = 50, cpu: u32 = 0, comm: &'static [u8] = b"main");
}

/// Enough records to see several sub-buffers begin.
const NR: u32 = 2_000;

/// One class: the cost of a place that is off, of a recorded event (the usual one, and the longest: a new sub-buffer),
/// and its bytes.
#[inline(always)]
fn class(name: &str, id: u32, site: impl Fn() -> u32) {
    let own = own_cost();
    insn(format_args!("event-off-{name}"), site() - own);
    set(id, true);
    trace::tracing_on();
    let (mut least, mut most) = (u32::MAX, 0);
    for _ in 0..NR {
        let cost = site() - own;
        least = least.min(cost);
        most = most.max(cost);
    }
    let before = trace::counters_of(0).bytes;
    let one = site();
    let size = trace::counters_of(0).bytes - before;
    trace::tracing_off();
    set(id, false);
    insn(format_args!("event-{name}"), least);
    insn(format_args!("event-worst-{name}"), most);
    // If the one began a sub-buffer, the difference is no measure; then the next is.
    let _ = one;
    bytes(format_args!("event-bytes-{name}"), size as u32);
}

fn set(id: u32, on: bool) {
    // Only one CPU runs.
    let _ = trace::enable(id, on);
}

/// Instructions that a recorded `sched_switch` adds to a yield, and how many places of events there are on the way.
fn yield_traced() {
    let plain = yield_to_equal();
    let id = trace::events::sched_switch::Event::id().number();
    set(id, true);
    trace::tracing_on();
    // Twice: the first may begin a sub-buffer.
    let traced = yield_to_equal().min(yield_to_equal());
    trace::tracing_off();
    set(id, false);
    insn("yield-traced-adds", traced - plain);
}

pub(super) fn all() {
    trace::set_mode(Mode::Overwrite);
    every_class();
    yield_traced();
}
