//! Function tracing: every function's entry, live.
//!
//! An image with feature `function` has a NOP of five bytes at the entry of each function, and patches it to a call
//! while someone is interested: the tracer `function` ([`start`], [`stop`]) or a hook ([`register_function_hook`]). Who
//! is interested in what are sets of functions ([`Filter`]); names and wildcards are the host's business.
//!
//! ```text
//!  function's entry: NOP ─ patched ─> call thunk ─┬─> record of 8 bytes      only the tracer wants it
//!                                                 └─> dispatch ─> hooks      hooks, or hooks and the tracer
//! ```
//!
//! What the tracer itself needs is in sections `.text.notrace.*`, which are never patched: functions that write to
//! the ring, the first steps of an NMI, and what a further CPU executes before its per-CPU block stands. The tracer's
//! way calls nothing, so it cannot recur; a guard stands behind the hooks' way.

pub mod entry;
pub mod events;
mod hooks;
mod set;
mod thunk;

use core::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};

pub use hooks::{
    Hook, HookId, MAX_HOOKS, nr_recursions, register_function_hook, set_function_hook_filter,
    unregister_function_hook,
};
pub use set::{Filter, id_of};

use set::SharedFilter;

use crate::arch::percpu;
use crate::arch::stop::Text;
use crate::config::{MAX_CPUS, MAX_FUNCTIONS};
use crate::error::Error;
use crate::sync::Mutex;

/// Function tracing's choices.
struct Choice {
    is_on: bool,
    filter: Filter,
    notrace: Filter,
}

static CHOICE: Mutex<Choice> = Mutex::new(Choice {
    is_on: false,
    filter: Filter::ALL,
    notrace: Filter::NONE,
});

/// The functions that the tracer records, all things considered.
static TRACED: SharedFilter = SharedFilter::NONE;

/// A bit for each thread that is traced, if [`HAS_PIDS`].
static PIDS: [AtomicU32; 8] = [const { AtomicU32::new(0) }; 8];
static HAS_PIDS: AtomicBool = AtomicBool::new(false);

/// Has every call of a function in the filter recorded, as event `ftrace:function`, while recording is on
/// ([`tracing_on`](super::tracing_on)).
///
/// # Errors
/// [`Error::OutOfResources`] if the image has more functions than [`MAX_FUNCTIONS`]; [`Error::InvalidState`] if it was
/// built without their entries; those of [`Mutex::lock`].
///
/// # Context
/// Threads that may block. All CPUs stand still while the functions are patched.
pub fn start() -> Result<(), Error> {
    match entry::entries().len() {
        0 => return Err(Error::InvalidState),
        nr if nr > MAX_FUNCTIONS => return Err(Error::OutOfResources),
        _ => {}
    }
    change(|choice| choice.is_on = true)
}

/// Ends what [`start`] began: the functions the tracer alone wanted are as if never patched.
///
/// # Errors
/// Those of [`Mutex::lock`].
///
/// # Context
/// As [`start`].
pub fn stop() -> Result<(), Error> {
    change(|choice| choice.is_on = false)
}

/// Chooses the functions that the tracer records (ftrace: `set_ftrace_filter`); [`Filter::ALL`] at the beginning.
///
/// # Errors
/// Those of [`Mutex::lock`].
///
/// # Context
/// As [`start`].
pub fn set_filter(filter: &Filter) -> Result<(), Error> {
    change(|choice| choice.filter = *filter)
}

/// Chooses functions that the tracer does not record although the filter has them (ftrace: `set_ftrace_notrace`).
///
/// # Errors
/// Those of [`Mutex::lock`].
///
/// # Context
/// As [`start`].
pub fn set_notrace(filter: &Filter) -> Result<(), Error> {
    change(|choice| choice.notrace = *filter)
}

/// Has the tracer record only while one of these threads runs (ftrace: `set_ftrace_pid`), interrupts that come
/// meanwhile included; all threads if there are none.
///
/// # Errors
/// Those of [`Mutex::lock`].
///
/// # Context
/// As [`start`].
pub fn set_pids(tids: &[u8]) -> Result<(), Error> {
    change(|_| {
        PIDS.iter().for_each(|word| word.store(0, Relaxed));
        for tid in tids {
            PIDS[usize::from(tid / 32)].fetch_or(1 << (tid % 32), Relaxed);
        }
        HAS_PIDS.store(!tids.is_empty(), Relaxed);
    })
}

#[inline(always)]
fn is_pid_traced() -> bool {
    let tid = percpu::current_tid();
    !HAS_PIDS.load(Relaxed) || PIDS[usize::from(tid / 32)].load(Relaxed) >> (tid % 32) & 1 != 0
}

fn change(how: impl FnOnce(&mut Choice)) -> Result<(), Error> {
    let mut choice = CHOICE.lock()?;
    how(&mut choice);
    let traced = if choice.is_on {
        choice.filter.without(&choice.notrace)
    } else {
        Filter::NONE
    };
    TRACED.store(&traced);
    apply()
}

/// Patches every function's entry to what it has to call now.
fn apply() -> Result<(), Error> {
    let is_filtered = HAS_PIDS.load(Relaxed);
    let mut text = Text::lock()?;
    text.patch(|text| {
        for (id, &address) in entry::entries().iter().enumerate() {
            let target = match (TRACED.contains(id), hooks::is_wanted(id)) {
                _ if !entry::is_traceable(address) => None,
                (false, false) => None,
                (true, false) if is_filtered => Some(thunk::trace_pid()),
                (true, false) => Some(thunk::trace()),
                (_, true) => Some(thunk::ops()),
            };
            // SAFETY: an entry of the list, a thunk, and every other CPU stands still.
            unsafe { entry::set_target(text, address, target) };
        }
    });
    Ok(())
}

/// What the CPU's last record of a function says of the context does not count any more.
#[inline(always)]
pub(super) fn forget_context(cpu: usize) {
    debug_assert!(cpu < MAX_CPUS);
    // SAFETY: a word of its own, written as a whole; see `thunk` for who may write when.
    unsafe { (&raw mut (*percpu::of(cpu)).function_context).write_volatile(thunk::NO_CONTEXT) };
}

/// As [`forget_context`], for this CPU.
#[inline(always)]
pub(super) fn forget_context_here() {
    // SAFETY: as above.
    unsafe { (&raw mut (*percpu::this()).function_context).write_volatile(thunk::NO_CONTEXT) };
}

/// Records a function by the ring's ordinary ways, with its context. The next record begins with a context as well.
extern "C" fn slow(ip: u32, parent_ip: usize) {
    use takt_tracer::event::{Event, Id};
    let block = |address: usize| (address - entry::image_start()) / entry::BLOCK;
    forget_context_here();
    let id: Id = events::function_context::Event::id();
    events::FunctionContext::emit::<super::KernelSink>(
        id,
        block(ip as usize),
        block(parent_ip.wrapping_sub(1)),
    );
}

/// `function` as the current tracer.
pub(super) struct Function;

impl super::tracer::Tracer for Function {
    fn name(&self) -> &'static str {
        "function"
    }

    fn start(&self) -> Result<(), Error> {
        start()
    }

    fn stop(&self) -> Result<(), Error> {
        stop()
    }
}
