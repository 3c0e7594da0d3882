//! Function tracing: every function's entry, live.
//!
//! An image with feature `function` has a NOP of five bytes at the entry of each function, and patches it to a call
//! while someone is interested: the tracer `function` ([`start`], [`stop`]), the tracer `function_graph`
//! ([`start_graph`]), a hook ([`register_function_hook`]) or a command ([`set_command`]). Who
//! is interested in what are sets of functions ([`Filter`]); names and wildcards are the host's business.
//!
//! ```text
//!  function's entry: NOP ─ patched ─> call thunk ─┬─> record of 8 bytes      only the tracer wants it
//!                                                 ├─> record of 12 bytes, and the return hooked
//!                                                 ├─> dispatch ─> hooks      hooks, or hooks and a tracer
//!                                                 └─> commands ─> dispatch   commands, and whatever else
//! ```
//!
//! Never patched are the tracer (the crate `takt_tracer`, the module `trace` and the walk along the stack: the linker script
//! knows them by their names) and functions in sections `.text.notrace.*`: the first steps of an NMI, and what a further CPU
//! executes before its per-CPU block stands. The tracer's straight way calls nothing, so it cannot recur; its slow one calls
//! what is never patched; a guard stands behind the hooks' way.

mod change;
mod commands;
pub mod entry;
pub mod events;
pub mod graph;
mod graph_thunk;
mod hooks;
mod profile;
mod set;
mod shadow;
mod stack_max;
mod thunk;

use core::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering::Relaxed};

pub use commands::set_command;
pub use hooks::{
    Hook, HookId, MAX_HOOKS, nr_recursions, register_function_hook, set_function_hook_filter,
    unregister_function_hook,
};
pub use profile::{is_profiling, profile_of, set_profile};
pub use set::{Filter, id_of};
pub use stack_max::{
    is_stack_tracing, set_stack_filter, set_stack_max, set_stack_tracer, stack_filter, stack_max_of,
};

use change::{Change, apply, set};
use profile::PROFILED;
use set::SharedFilter;
use stack_max::MEASURED;
use takt_tracer::control::{FunctionBlock, Tracer as Name};

use crate::arch::percpu::{self, PerCpu};
use crate::config::MAX_FUNCTIONS;
use crate::error::Error;
use crate::sync::raw_mutex::RawMutex;
use crate::trace::compact::rolled;
use crate::trace::tracer;

/// What is recorded of functions.
#[repr(u8)]
#[derive(Clone, Copy, PartialEq, Eq)]
enum Tracer {
    Nop,
    Function,
    Graph,
}

/// Who records.
static CHOICE: AtomicU8 = AtomicU8::new(Tracer::Nop as u8);

/// Taken by whoever changes that or any of the sets below.
static CHANGE: RawMutex = RawMutex::new();

/// What was chosen by [`set_filter`] and [`set_notrace`]. Nothing on the hot paths looks at them.
static FILTER: SharedFilter = SharedFilter::all();
static NOTRACE: SharedFilter = SharedFilter::none();

/// The functions that the tracer records, all things considered.
static TRACED: SharedFilter = SharedFilter::none();

/// The functions that the function graph hooks, all things considered.
static GRAPHED: SharedFilter = SharedFilter::none();
static IS_GRAPH_ON: AtomicBool = AtomicBool::new(false);

/// The functions that the graph begins at, if [`HAS_GRAPH_FUNCTIONS`]; those it leaves out, and all they call.
static GRAPH_FUNCTIONS: SharedFilter = SharedFilter::none();
static HAS_GRAPH_FUNCTIONS: AtomicBool = AtomicBool::new(false);
static GRAPH_NOTRACE: SharedFilter = SharedFilter::none();
/// Whether that set has any: finding a function's number costs more than the rest of its entry.
static HAS_GRAPH_NOTRACE: AtomicBool = AtomicBool::new(false);
static MAX_DEPTH: AtomicU32 = AtomicU32::new(u32::MAX);

/// Records are to be made by the record functions, which someone has diverted.
static ARE_RECORDS_JUDGED: AtomicBool = AtomicBool::new(false);

/// Option `func_stack_trace`.
#[unsafe(export_name = "TAKT_FUNC_STACK_TRACE")]
static IS_STACK_WANTED: AtomicBool = AtomicBool::new(false);

/// Option `function-trace`.
#[unsafe(export_name = "TAKT_FUNCTION_TRACE")]
static IS_WANTED_BESIDE: AtomicBool = AtomicBool::new(false);
/// A tracer of latencies is the current one.
static IS_BESIDE: AtomicBool = AtomicBool::new(false);

/// A bit for each thread that is traced, if [`HAS_PIDS`].
static PIDS: [AtomicU32; 8] = [const { AtomicU32::new(0) }; 8];
static HAS_PIDS: AtomicBool = AtomicBool::new(false);

/// What [`who_runs`] says of the thread that is left out where no threads were chosen.
static LEFT_OUT: AtomicU32 = AtomicU32::new(NOBODY);
/// What it never says: a bit that is no part of that.
const NOBODY: u32 = 1;

/// What a host that reads the RAM finds all of this by.
#[unsafe(no_mangle)]
static TAKT_FUNCTIONS: FunctionBlock = FunctionBlock {
    magic: AtomicU64::new(0),
    filter: FILTER.first_word(),
    notrace: NOTRACE.first_word(),
    graph: GRAPH_FUNCTIONS.first_word(),
    graph_notrace: GRAPH_NOTRACE.first_word(),
    stack: stack_max::FILTER.first_word(),
    pids: &PIDS[0],
    has_graph: &HAS_GRAPH_FUNCTIONS,
    has_pids: &HAS_PIDS,
    max_depth: &MAX_DEPTH,
    overrun: &graph::NR_OVERRUN,
    missed_returns: &shadow::NR_MISSED_RETURNS,
    skipped: &graph::NR_SKIPPED,
    commands: &commands::COMMANDS,
};

/// Tells a host that reads the RAM what is in force here, from now on.
///
/// # Context
/// Any.
pub fn announce() {
    TAKT_FUNCTIONS.announce();
}

/// Has every call of a function in the filter recorded, as event `ftrace:function`, while recording is on
/// ([`tracing_on`](super::tracing_on)).
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

/// Whether the image has functions that can be traced, and not too many.
fn check_functions() -> Result<(), Error> {
    match entry::entries().len() {
        0 => Err(Error::InvalidState),
        nr if nr > MAX_FUNCTIONS => Err(Error::OutOfResources),
        _ => Ok(()),
    }
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
    LEFT_OUT.store(u32::from(tid) << thunk::TID_SHIFT, Relaxed);
    change.end()
}

/// Whether [`leave_out`] counts.
fn has_left_out() -> bool {
    LEFT_OUT.load(Relaxed) != NOBODY
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

/// Whether a stack is to be recorded after every record of the tracer `function`.
///
/// # Context
/// Any.
#[must_use]
pub fn has_stack_trace() -> bool {
    IS_STACK_WANTED.load(Relaxed)
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
pub(super) fn beside_latency(on: bool) -> Result<(), Error> {
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

#[inline(never)]
fn is_pid_traced() -> bool {
    if !HAS_PIDS.load(Relaxed) {
        return who_runs() != LEFT_OUT.load(Relaxed);
    }
    let tid = percpu::current_tid();
    PIDS[usize::from(tid / 32)].load(Relaxed) >> (tid % 32) & 1 != 0
}

/// The running thread, and whether an interrupt or an NMI has it wait, as the context word has them.
#[inline(always)]
fn who_runs() -> u32 {
    // SAFETY: this CPU's block.
    unsafe { percpu::context_of(percpu::this()) & thunk::WHO_RUNS }
}

/// What this CPU's last record of a function says of the context does not count any more.
#[inline(always)]
pub(super) fn forget_context_here() {
    forget_context(percpu::this());
}

/// As [`forget_context_here`], for a CPU's block.
#[inline(always)]
pub(super) fn forget_context(cpu: *mut PerCpu) {
    // SAFETY: a CPU's block; blocks are static.
    let context = unsafe { &raw mut (*cpu).function_context };
    // SAFETY: a word of its own, written as a whole; see `thunk` for who may write when.
    unsafe { context.write_volatile(thunk::NO_CONTEXT) };
}

/// Records a function by the ring's ordinary ways, with its context. The next record begins with a context as well.
#[inline(never)]
extern "C" fn slow(ip: u32, slot: *mut usize) {
    use takt_tracer::event::Event;
    // SAFETY: the thunk passes the place of the return address.
    let parent_ip = graph::return_address(slot as usize, unsafe { slot.read() });
    forget_context_here();
    events::FunctionContext::emit::<super::KernelSink>(
        events::function_context::Event::id(),
        block_of(ip as usize),
        block_of(parent_ip.wrapping_sub(1)),
    );
}

/// The number of the block that an address lies in.
#[inline(always)]
fn block_of(address: usize) -> usize {
    address.wrapping_sub(entry::image_start()) / entry::BLOCK
}

/// `function` as the current tracer.
pub(super) static FUNCTION: tracer::Tracer = tracer::Tracer::new(Name::Function, &[], start, stop);

/// `function_graph` as the current tracer. Its events tell whose time it was.
pub(super) static FUNCTION_GRAPH: tracer::Tracer = tracer::Tracer::new(
    Name::FunctionGraph,
    &[
        &super::events::sched_switch::ID,
        &super::events::irq_handler_entry::ID,
        &super::events::irq_handler_exit::ID,
    ],
    start_graph,
    stop,
);
