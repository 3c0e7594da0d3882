//! Who wants functions beside the tracers: hooks, commands, the profiler and the stack tracer are switched here.

use core::sync::atomic::Ordering::Relaxed;

use takt_tracer::profile::Entry;
use takt_tracer::rules::Action;

use super::change::{Change, apply, set};
use super::commands::COMMANDS;
use super::hooks::{Hook, SLOTS};
use super::profile::{self, PROFILED, entry_of, is_profiling};
use super::set::{Filter, id_of};
use super::stack_max::{self, is_stack_tracing};
use super::state::check_functions;
use crate::arch::stop::Text;
use crate::clock::Cycles;
use crate::compact::rolled;
use crate::error::Error;

/// Names a registered hook.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "a hook that is not named cannot be unregistered"]
pub struct HookId(usize);

/// Has `hook` called whenever one of the functions in `filter` begins. It runs with preemption disabled, in whatever
/// context the function is called, and must not block; functions that it calls itself do not call any hook.
///
/// # Errors
/// [`Error::OutOfResources`] if there are [`MAX_HOOKS`] already; those of [`Mutex::lock`](crate::sync::Mutex::lock).
///
/// # Context
/// Threads that may block. All CPUs stand still while the functions are patched.
///
/// # Safety
/// The hook runs wherever a function begins that its filter has or [will have](set_function_hook_filter): in NMIs, and inside
/// the kernel's sections, where what these protect may be half changed. So it calls nothing of the kernel's but trace points,
/// and takes no lock that a thread or an interrupt takes.
pub unsafe fn register_function_hook(hook: Hook, filter: &Filter) -> Result<HookId, Error> {
    let _change = Change::begin()?;
    let id = rolled(&SLOTS)
        .position(|slot| slot.hook.load(Relaxed).is_null())
        .ok_or(Error::OutOfResources)?;
    SLOTS[id].filter.store(filter);
    SLOTS[id].hook.store(hook as *mut (), Relaxed);
    apply()?;
    Ok(HookId(id))
}

/// Changes the functions at which a hook is called.
///
/// # Errors
/// Those of [`Mutex::lock`](crate::sync::Mutex::lock).
///
/// # Context
/// As [`register_function_hook`].
pub fn set_function_hook_filter(id: &HookId, filter: &Filter) -> Result<(), Error> {
    let _change = Change::begin()?;
    SLOTS[id.0].filter.store(filter);
    apply()
}

/// Takes a hook away. A call that is under way on another CPU may still end afterwards.
///
/// # Errors
/// Those of [`Mutex::lock`](crate::sync::Mutex::lock).
///
/// # Context
/// As [`register_function_hook`].
pub fn unregister_function_hook(id: HookId) -> Result<(), Error> {
    let _change = Change::begin()?;
    SLOTS[id.0].hook.store(core::ptr::null_mut(), Relaxed);
    SLOTS[id.0].filter.store(&Filter::NONE);
    apply()
}

/// Has something done at the entries of these functions (ftrace: `FUNC:COMMAND:COUNT` in
/// `set_ftrace_filter`); with `left` 0 no longer. Those that have such a command keep it. Not for
/// [`Action::Hist`] and what is about events.
///
/// # Errors
/// [`Error::InvalidArgument`] if it is no action for functions; [`Error::OutOfResources`] if there are too many, then nothing
/// has changed; those of [`Mutex::lock`](crate::sync::Mutex::lock).
///
/// # Context
/// As [`start`].
pub fn set_command(functions: &Filter, action: Action, left: u64) -> Result<(), Error> {
    if !action.is_for_functions() {
        return Err(Error::InvalidArgument);
    }
    let change = Change::begin()?;
    match left {
        // The last moves into the gap.
        0 => Text::lock()?.patch(|_| COMMANDS.remove(functions.ids(), action)),
        left => COMMANDS
            .add(functions.ids(), action, left)
            .map_err(|_| Error::OutOfResources)?,
    }
    change.end()
}

/// Switches the profiler on, which forgets what it has counted, or off (ftrace: `function_profile_enabled`).
///
/// # Errors
/// As [`start`].
///
/// # Context
/// As [`start`].
pub fn set_profile(on: bool) -> Result<(), Error> {
    check_functions()?;
    if on && !is_profiling() {
        profile::OVERHEAD.store(Cycles::ZERO);
        profile::OVERHEAD.store(calibrate()?);
        profile::TABLES.iter().flatten().for_each(Entry::clear);
    }
    let change = Change::begin()?;
    profile::ENABLED.store(u32::from(on), Relaxed);
    change.end()
}

/// A function that does nothing. Not where the tracer's own functions lie, which are never patched.
#[inline(never)]
#[unsafe(link_section = ".text.profile_nothing")]
extern "C" fn nothing() {
    // Not to be left out, nor to be taken for another empty function.
    core::hint::black_box(());
}

/// What an empty function seems to take, in cycles.
fn calibrate() -> Result<Cycles, Error> {
    let function: extern "C" fn() = core::hint::black_box(nothing);
    let Some((id, entry)) = id_of(function as usize).zip(entry_of(function as usize as u32)) else {
        return Err(Error::InvalidState);
    };
    // Or another change would have it measured without, or off.
    let _change = Change::begin()?;
    profile::ENABLED.store(1, Relaxed);
    PROFILED.store(&Filter::of_ids([id]));
    let patched = apply();
    let mut least = u64::MAX;
    // An interrupt may come into some of them.
    for _ in 0..CALIBRATIONS {
        entry.clear();
        function();
        if entry.view().hits == 1 {
            least = least.min(entry.view().cycles);
        }
    }
    profile::ENABLED.store(0, Relaxed);
    patched?;
    if least == u64::MAX {
        return Err(Error::InvalidState);
    }
    Ok(Cycles::new(least))
}

/// Calls of which the quickest counts.
const CALIBRATIONS: usize = 16;

/// Switches the stack tracer on or off (Linux: `kernel.stack_tracer_enabled`). What it has found stays.
///
/// # Errors
/// As [`start`].
///
/// # Context
/// As [`start`].
pub fn set_stack_tracer(on: bool) -> Result<(), Error> {
    check_functions()?;
    let change = Change::begin()?;
    stack_max::ENABLED.store(u32::from(on), Relaxed);
    change.end()
}

/// Chooses the functions whose entries measure (ftrace: `stack_trace_filter`); [`Filter::ALL`] at the beginning. Whatever
/// is in it, the chain of calls that is kept has every function that is under way.
///
/// # Errors
/// Those of [`Mutex::lock`](crate::sync::Mutex::lock).
///
/// # Context
/// As [`start`].
pub fn set_stack_filter(filter: &Filter) -> Result<(), Error> {
    set(&stack_max::FILTER, filter)
}

/// Forgets what was found; from here on only what is deeper than so many bytes is kept (ftrace: `stack_max_size`).
///
/// # Errors
/// As [`start`]: the stack tracer pauses meanwhile.
///
/// # Context
/// As [`start`].
pub fn set_stack_max(bytes: u32) -> Result<(), Error> {
    let was_on = is_stack_tracing();
    set_stack_tracer(false)?;
    // A measurement that an interrupt or another thread has left unfinished may still put back what it has found.
    stack_max::FLOOR.store(bytes, Relaxed);
    for deepest in &stack_max::TABLE {
        deepest.set(0, 0, &[]);
    }
    set_stack_tracer(was_on)
}
