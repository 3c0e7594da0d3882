//! Commands of functions: `traceon`, `traceoff` and `stacktrace` at the entries of some, each so often at most.
//!
//! Such an entry calls a thunk of its own, so what has no command pays nothing. `traceon` acts before the entry is recorded,
//! `stacktrace` and `traceoff` behind that, as events' triggers do. As there, what would change nothing does not count, and
//! no stack is recorded while nothing is. Whom [`leave_out`](super::leave_out) leaves out does not count either.

use core::sync::atomic::Ordering::Relaxed;

use takt_tracer::control::Commands;
use takt_tracer::rules::Action;

use super::hooks;
use super::set::id_of;
use super::shadow::return_address;
use super::state::{LEFT_OUT, who_runs};
use crate::trace::{control, stack};

/// What the host reads.
pub(super) static COMMANDS: Commands = Commands::new();

/// Whether a function has commands.
pub(super) fn is_wanted(id: usize) -> bool {
    COMMANDS.has(id as u32)
}

/// Called by the thunk at the entry of a function that has commands, whatever else wants it; `slot` has its return address.
pub(super) extern "C" fn dispatch(ip: u32, slot: &mut usize) {
    let parent_ip = return_address(core::ptr::from_mut(slot) as usize, *slot);
    let idle = match control::is_wanted() {
        true => Action::TraceOn.bit(),
        false => Action::TraceOff.bit() | Action::Stacktrace.bit(),
    };
    let id = id_of(ip as usize).filter(|_| who_runs() != LEFT_OUT.load(Relaxed));
    let actions = id.map_or(0, |id| COMMANDS.act(id as u32, idle));
    let acts = |action: Action| actions & action.bit() != 0;
    if acts(Action::TraceOn) {
        control::tracing_on();
    }
    hooks::dispatch(ip, slot);
    if acts(Action::Stacktrace) {
        stack::at_function(ip as usize, parent_ip);
    }
    if acts(Action::TraceOff) {
        control::tracing_off();
    }
}
