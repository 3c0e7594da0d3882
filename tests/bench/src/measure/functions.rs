//! Function tracing, in an image whose functions have entries that can be patched.

use core::hint::black_box;

use takt_kernel::preempt;
use takt_kernel::trace::function::{self, Filter};
use takt_kernel::trace::{self, Mode};

use super::ping_pong::round_trip;
use crate::clock::stamp;
use crate::report::{bytes, insn};
use crate::threads::must;

#[inline(never)]
fn leaf(number: u32) -> u32 {
    black_box(number)
}

/// Instructions of a call.
#[inline(never)]
fn call() -> u32 {
    let before = stamp();
    black_box(leaf(1));
    stamp().wrapping_sub(before)
}

/// The least and what is recorded of several; the least because one of them may begin a sub-buffer.
fn least(call: impl Fn() -> u32) -> (u32, u64) {
    (0..8)
        .map(|_| {
            let before = trace::counters_of(0).bytes;
            let cost = call();
            (cost, trace::counters_of(0).bytes - before)
        })
        .min()
        .unwrap_or_default()
}

/// In another context than the call before, which is made here as well.
fn in_another_context() -> u32 {
    call();
    let _guard = preempt::disable();
    call()
}

pub(super) fn all() {
    insn("function-off-ping-pong", round_trip());
    let (off, _) = least(call);
    trace::set_mode(Mode::Overwrite);
    must(
        "filter",
        function::set_filter(&Filter::of_addresses(&[leaf as fn(u32) -> u32 as usize])),
    );
    must("start", function::start());
    trace::tracing_on();
    let (on, size) = least(call);
    let (context, sizes) = least(in_another_context);
    // The call of the thunk takes the place of the NOP.
    insn("function-event", on - off + 1);
    insn("function-event-context", context - off + 1);
    bytes("function-event-bytes", size as u32);
    bytes("function-event-context-bytes", (sizes / 2) as u32);
    must("filter", function::set_filter(&Filter::ALL));
    insn("function-on-ping-pong", round_trip());
    must("start", function::start_graph());
    insn("function-graph-ping-pong", round_trip());
    trace::tracing_off();
    must("stop", function::stop());
}
