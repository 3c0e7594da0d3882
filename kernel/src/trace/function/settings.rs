//! Choosing what is traced, and how.

use core::sync::atomic::Ordering::Relaxed;

use super::change::{Change, set};
use super::graph_thunk;
use super::set::Filter;
use super::state::*;
use crate::compact::rolled;
use crate::error::Error;

/// Has every call of a function in the filter recorded, as event `ftrace:function`, while recording is on
/// ([`tracing_on`](crate::trace::tracing_on)).
///
/// # Errors
/// [`Error::OutOfResources`] if the image has more functions than [`MAX_FUNCTIONS`]; [`Error::InvalidState`] if it was
/// built without their entries; those of [`Mutex::lock`](crate::sync::Mutex::lock).
///
/// # Context
/// Threads that may block. All CPUs stand still while the functions are patched.
pub fn start() -> Result<(), Error> {
    begin(Tracer::Function)
}

/// Has entry and return of every function in the filter recorded, as events `ftrace:funcgraph_entry` and
/// `ftrace:funcgraph_exit`, instead of what [`start`] does. For durations the host needs `sched:sched_switch`,
/// `irq:irq_handler_entry` and `irq:irq_handler_exit` as well.
///
/// # Errors
/// As [`start`].
///
/// # Context
/// As [`start`].
pub fn start_graph() -> Result<(), Error> {
    begin(Tracer::Graph)
}

#[inline(never)]
fn begin(tracer: Tracer) -> Result<(), Error> {
    check_functions()?;
    choose(tracer)
}

/// Ends what [`start`] or [`start_graph`] began: the functions the tracer alone wanted are as if never patched. Those
/// that are under way return as they would.
///
/// # Errors
/// Those of [`Mutex::lock`](crate::sync::Mutex::lock).
///
/// # Context
/// As [`start`].
pub fn stop() -> Result<(), Error> {
    choose(Tracer::Nop)
}

#[inline(never)]
fn choose(tracer: Tracer) -> Result<(), Error> {
    let change = Change::begin()?;
    CHOICE.store(tracer as u8, Relaxed);
    change.end()
}

/// What [`set_filter`] has chosen.
///
/// # Context
/// Threads.
#[must_use]
pub fn filter() -> Filter {
    FILTER.load()
}

/// What [`set_notrace`] has chosen.
///
/// # Context
/// Threads.
#[must_use]
pub fn notrace() -> Filter {
    NOTRACE.load()
}

/// What [`set_graph_functions`] has chosen.
///
/// # Context
/// Threads.
#[must_use]
pub fn graph_functions() -> Option<Filter> {
    HAS_GRAPH_FUNCTIONS
        .load(Relaxed)
        .then(|| GRAPH_FUNCTIONS.load())
}

/// What [`set_graph_notrace`] has chosen.
///
/// # Context
/// Threads.
#[must_use]
pub fn graph_notrace() -> Filter {
    GRAPH_NOTRACE.load()
}

/// Chooses the functions that the tracer records (ftrace: `set_ftrace_filter`); [`Filter::ALL`] at the beginning.
///
/// # Errors
/// Those of [`Mutex::lock`](crate::sync::Mutex::lock).
///
/// # Context
/// As [`start`].
pub fn set_filter(filter: &Filter) -> Result<(), Error> {
    set(&FILTER, filter)
}

/// Chooses functions that the tracer does not record although the filter has them (ftrace: `set_ftrace_notrace`).
///
/// # Errors
/// Those of [`Mutex::lock`](crate::sync::Mutex::lock).
///
/// # Context
/// As [`start`].
pub fn set_notrace(filter: &Filter) -> Result<(), Error> {
    set(&NOTRACE, filter)
}

/// Has the tracer record only while one of these threads runs (ftrace: `set_ftrace_pid`), interrupts that come
/// meanwhile included; all threads if there are none.
///
/// # Errors
/// Those of [`Mutex::lock`](crate::sync::Mutex::lock).
///
/// # Context
/// As [`start`].
pub fn set_pids(tids: &[u8]) -> Result<(), Error> {
    let change = Change::begin()?;
    rolled(&PIDS).for_each(|word| word.store(0, Relaxed));
    for tid in rolled(tids) {
        PIDS[usize::from(tid / 32)].fetch_or(1 << (tid % 32), Relaxed);
    }
    HAS_PIDS.store(!tids.is_empty(), Relaxed);
    change.end()
}

/// Leaves a thread out while none are chosen by [`set_pids`]: one that is there for the tracer's sake, and would fill the
/// trace. Interrupts that come while it runs are recorded.
///
/// # Errors
/// Those of [`Mutex::lock`](crate::sync::Mutex::lock).
///
/// # Context
/// As [`start`].
pub fn leave_out(tid: u8) -> Result<(), Error> {
    let change = Change::begin()?;
    LEFT_OUT.store(u32::from(tid) << TID_SHIFT, Relaxed);
    change.end()
}

/// Chooses the functions that the function graph begins at: only they and what they call is recorded (ftrace:
/// `set_graph_function`). `None` is all functions, as at the beginning.
///
/// # Errors
/// Those of [`Mutex::lock`](crate::sync::Mutex::lock).
///
/// # Context
/// As [`start`].
pub fn set_graph_functions(filter: Option<&Filter>) -> Result<(), Error> {
    let change = Change::begin()?;
    GRAPH_FUNCTIONS.store(filter.unwrap_or(&Filter::NONE));
    HAS_GRAPH_FUNCTIONS.store(filter.is_some(), Relaxed);
    change.end()
}

/// Chooses functions that the function graph leaves out with all they call (ftrace: `set_graph_notrace`).
///
/// # Errors
/// Those of [`Mutex::lock`](crate::sync::Mutex::lock).
///
/// # Context
/// As [`start`].
pub fn set_graph_notrace(filter: &Filter) -> Result<(), Error> {
    let change = Change::begin()?;
    GRAPH_NOTRACE.store(filter);
    HAS_GRAPH_NOTRACE.store(*filter != Filter::NONE, Relaxed);
    change.end()
}

/// Says whether a stack is to be recorded after every record of the tracer `function` (ftrace: `func_stack_trace`). With
/// more than a few functions in the filter there is little else in the trace.
///
/// # Errors
/// Those of [`Mutex::lock`](crate::sync::Mutex::lock).
///
/// # Context
/// As [`start`].
pub fn set_stack_trace(on: bool) -> Result<(), Error> {
    let change = Change::begin()?;
    IS_STACK_WANTED.store(on, Relaxed);
    change.end()
}

/// Says whether the tracers of sections and wake-ups have the functions in the filter recorded as well (ftrace: option
/// `function-trace`), so that what they keep shows what ran. The latencies are longer then by what that takes.
///
/// # Errors
/// As [`start`].
///
/// # Context
/// As [`start`].
pub fn set_function_trace(on: bool) -> Result<(), Error> {
    check_functions()?;
    let change = Change::begin()?;
    IS_WANTED_BESIDE.store(on, Relaxed);
    change.end()
}

/// A tracer of latencies is about to listen, or has ceased to. If this fails it is as it was.
#[cfg(feature = "latency-tracers")]
pub(in crate::trace) fn beside_latency(on: bool) -> Result<(), Error> {
    let was_on = IS_BESIDE.swap(on, Relaxed);
    if !IS_WANTED_BESIDE.load(Relaxed) {
        return Ok(());
    }
    let done = Change::begin().and_then(Change::end_unheard);
    if done.is_err() {
        IS_BESIDE.store(was_on, Relaxed);
    }
    done
}

/// How deep the function graph looks; 0 is as deep as it can (ftrace: `max_graph_depth`).
///
/// # Context
/// Any.
pub fn set_max_graph_depth(depth: u32) {
    MAX_DEPTH.store(if depth == 0 { u32::MAX } else { depth }, Relaxed);
    graph_thunk::follow();
}

/// Whoever wants to look at every record before it is made does so from now on, or no longer.
///
/// # Context
/// Any.
#[cfg(feature = "rules")]
pub(crate) fn records_are_judged(are_judged: bool) {
    ARE_RECORDS_JUDGED.store(are_judged, Relaxed);
    graph_thunk::follow();
}
