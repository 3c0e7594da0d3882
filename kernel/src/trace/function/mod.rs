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
mod layout;
mod profile;
mod set;
pub(super) mod settings;
pub(crate) mod shadow;
mod slow;
mod stack_max;
mod state;
mod thunk;
mod users;

use core::sync::atomic::AtomicU64;

use takt_tracer::control::FunctionBlock;

pub use hooks::{Hook, MAX_HOOKS, nr_recursions};
pub use profile::{is_profiling, profile_of};
pub use set::{Filter, id_of};
pub use settings::{
    filter, graph_functions, graph_notrace, leave_out, notrace, set_filter, set_function_trace,
    set_graph_functions, set_graph_notrace, set_max_graph_depth, set_notrace, set_pids,
    set_stack_trace, start, start_graph, stop,
};
pub use stack_max::{is_stack_tracing, stack_filter, stack_max_of};
pub use state::has_stack_trace;
pub use users::{
    HookId, register_function_hook, set_command, set_function_hook_filter, set_profile,
    set_stack_filter, set_stack_max, set_stack_tracer, unregister_function_hook,
};

use state::{
    FILTER, GRAPH_FUNCTIONS, GRAPH_NOTRACE, HAS_GRAPH_FUNCTIONS, HAS_PIDS, MAX_DEPTH, NOTRACE, PIDS,
};

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
