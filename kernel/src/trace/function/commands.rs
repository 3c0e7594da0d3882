//! Commands of functions: `traceon`, `traceoff` and `stacktrace` at the entries of some, each so often at most.
//!
//! Such an entry calls a thunk of its own, so what has no command pays nothing. `traceon` acts before the entry is recorded,
//! `stacktrace` and `traceoff` behind that, as events' triggers do. As there, what would change nothing does not count, and
//! no stack is recorded while nothing is. Whom [`leave_out`](super::leave_out) leaves out does not count either.

use core::sync::atomic::Ordering::Relaxed;

use takt_tracer::control::Commands;
use takt_tracer::rules::Action;

use super::change::Change;
use super::set::id_of;
use super::{LEFT_OUT, graph, hooks, who_runs};
use crate::arch::stop::Text;
use crate::error::Error;
use crate::trace::{control, stack};

/// What the host reads.
pub(super) static COMMANDS: Commands = Commands::new();

/// Has something done at the entries of the functions with these ids (ftrace: `FUNC:COMMAND:COUNT` in
/// `set_ftrace_filter`); with `left` 0 no longer. Those that have such a command keep it. Not for
/// [`Action::Hist`] and what is about events.
///
/// # Errors
/// [`Error::InvalidArgument`] if it is no action for functions; [`Error::OutOfResources`] if there are too many, then nothing
/// has changed; those of [`Mutex::lock`](crate::sync::Mutex::lock).
///
/// # Context
/// As [`start`](super::start).
pub fn set_command(
    ids: impl Iterator<Item = u32> + Clone,
    action: Action,
    left: u64,
) -> Result<(), Error> {
    if !action.is_for_functions() {
        return Err(Error::InvalidArgument);
    }
    let change = Change::begin()?;
    match left {
        // The last moves into the gap.
        0 => Text::lock()?.patch(|_| COMMANDS.remove(ids, action)),
        left => COMMANDS
            .add(ids, action, left)
            .map_err(|_| Error::OutOfResources)?,
    }
    change.end()
}

/// Whether a function has commands.
pub(super) fn is_wanted(id: usize) -> bool {
    COMMANDS.has(id as u32)
}

/// Called by the thunk at the entry of a function that has commands, whatever else wants it.
pub(super) extern "C" fn dispatch(ip: u32, slot: *mut usize) {
    // SAFETY: the thunk passes the place of the return address.
    let parent_ip = graph::return_address(slot as usize, unsafe { slot.read() });
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
