//! The cost of trace events.

use core::hint::black_box;

use takt_kernel::time::Instant;
use takt_kernel::trace::events::{
    Contended, Create, Name, OneMutex, OneThread, OneTimer, Place, Print, Prio, Switch,
    TimerDeadline, Vector, Wakeup,
};
use takt_kernel::trace::{self, Event, Mode};
use takt_kernel::{trace_event, trace_event_irqs_off, trace_event_irqs_on};
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

event_class! {
    /// A number and a text.
    pub class TextOne = "bench_text_one", wide { number: 32 u, text: * str }
    print "{number} {text}";
}

/// Declares an event for each class, and a function that measures each. `as` gives the event's fields where the function
/// takes them otherwise: what goes to the first register of the recording functions first, and in one word what the
/// kernel has in one word of a thread's control block.
macro_rules! classes {
    ($($event:ident $class:ident $kind:ident $name:literal $trace:ident ($($arg:ident: $ty:ty = $value:expr),*) $(as $($field:expr),+)?;)*) => {
        $(event! {
            /// Emitted by the benchmark.
            pub $event: $class = $kind $name;
        })*

        fn every_class() {
            let mut first = 0;
            $({
                // As at a real place: the arguments in registers, their values unknown to the compiler; and the kernel's
                // own events by the macro for interrupts that are known to be off, as the kernel emits them; timerlat's by that for
                // interrupts known to be on.
                #[inline(never)]
                fn site($($arg: $ty),*) -> u32 {
                    let before = stamp();
                    classes!(@emit $trace $event [$($arg),*] $([$($field),+])?);
                    stamp().wrapping_sub(before)
                }
                let id = <$event::Event as Event>::id().number();
                first = first.max(class(stringify!($event), id, || site($(black_box($value)),*)));
            })*
            insn("event-first", first);
        }
    };
    (@emit $trace:ident $event:ident [$($arg:ident),*]) => {
        $trace!($event $(, $arg)*)
    };
    (@emit $trace:ident $event:ident [$($arg:ident),*] [$($field:expr),+]) => {
        $trace!($event $(, $field)*)
    };
}

classes! {
    switch Switch core "bench:switch" trace_event_irqs_off (thread: u32 = 0x3233_0780, state: u32 = 1, prev_prio: u32 = 50)
        as (thread >> 8) as u8, (thread >> 16) as u8, state, prev_prio;
    wakeup Wakeup core "bench:wakeup" trace_event_irqs_off (cpu: u32 = 0, tid: u8 = 7, prio: u8 = 50) as tid, prio, cpu;
    vector Vector core "bench:vector" trace_event_irqs_off (vector: u32 = 0x50);
    timer_deadline TimerDeadline near "bench:timer_deadline" trace_event_irqs_off (expires: u64 = Instant::now().cycles() + 1_000_000, timer: u32 = 300) as timer, expires;
    far_deadline TimerDeadline near "bench:far_deadline" trace_event_irqs_off (expires: u64 = 1 << 40, timer: u32 = 300) as timer, expires;
    one_timer OneTimer core "bench:one_timer" trace_event_irqs_off (timer: u32 = 300);
    one_thread OneThread core "bench:one_thread" trace_event_irqs_off (tid: u32 = 7);
    prio Prio core "bench:prio" trace_event_irqs_off (thread: u32 = 0x3232_0780, new: u32 = 51)
        as (thread >> 8) as u8, (thread >> 16) as u8, (thread >> 24) as u8, new;
    place Place core "bench:place" trace_event (caller: u32 = 0x20_0000);
    contended Contended core "bench:contended" trace_event_irqs_off (owner: u32 = 7, prio: u32 = 50, mutex: u32 = 0x20_0000);
    one_mutex OneMutex core "bench:one_mutex" trace_event_irqs_off (mutex: u32 = 0x20_0000);
    two Two wide "bench:two" trace_event (first: u32 = 1, second: u32 = 2);
    two_known Two wide "bench:two_known" trace_event_irqs_on (first: u32 = 1, second: u32 = 2);
    sample Sample core "bench:sample" trace_event_irqs_on (slot: u32 = 0, seqnum: u32 = 7, latency: u32 = 187);
    text Print core "bench:text" trace_event (buf: &'static [u8] = b"sixteen bytes!!!");
    create Create core "bench:create" trace_event_irqs_off (cpu: u32 = 0, tid: u8 = 7, prio: u8 = 50) as tid, prio, cpu;
    name Name core "bench:name" trace_event_irqs_off (comm: &'static [u8] = b"main", tid: u8 = 7) as tid, comm;
    text_one TextOne wide "bench:text_one" trace_event (text: &'static [u8] = b"main", number: u32 = 7) as number, text;
}

/// Enough records to see several sub-buffers begin.
const NR: u32 = 2_000;

/// One class: the cost of a place that is off, of a recorded event (the usual one, and the longest: a new sub-buffer),
/// and its bytes. Gives what the first record took after tracing was turned on, which is told who runs.
#[inline(always)]
fn class(name: &str, id: u32, site: impl Fn() -> u32) -> u32 {
    let own = own_cost();
    insn(format_args!("event-off-{name}"), site() - own);
    set(id, true);
    trace::tracing_on();
    let first = site() - own;
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
    first
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
