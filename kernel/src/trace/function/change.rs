//! Changing what functions are wanted for: one at a time, and all entries are patched to it.

use core::sync::atomic::Ordering::Relaxed;

use super::profile::{PROFILED, is_profiling};
use super::set::{Filter, SharedFilter, WORDS};
use super::stack_max::{self, MEASURED, is_stack_tracing};
use super::state::{
    CHOICE, FILTER, GRAPHED, HAS_PIDS, IS_BESIDE, IS_GRAPH_ON, IS_WANTED_BESIDE, NOTRACE, TRACED,
    Tracer, has_left_out, has_stack_trace,
};
use super::{commands, entry, graph_thunk, hooks, thunk};
use crate::arch::stop::Text;
use crate::compact::{counted, opaque};
use crate::error::Error;
use crate::sync::held::{Held, Right};
use crate::sync::raw_mutex::RawMutex;
#[cfg(feature = "latency-tracers")]
use crate::trace::latency;

/// The right to change what is chosen.
pub(super) struct Change {
    _held: Held<OfChange>,
}

enum OfChange {}

impl Right for OfChange {
    const MUTEX: &'static RawMutex = &CHANGE;
}

/// Taken by whoever changes a choice or a set of functions.
static CHANGE: RawMutex = RawMutex::new();

impl Change {
    #[inline(always)]
    pub(super) fn begin() -> Result<Self, Error> {
        let _held = Held::wait()?;
        Ok(Self { _held })
    }

    /// Has everything be as it was chosen.
    ///
    /// All CPUs stand still for it, with interrupts off: no tracer of latencies is to take that for one.
    #[inline(never)]
    pub(super) fn end(self) -> Result<(), Error> {
        #[cfg(feature = "latency-tracers")]
        return latency::with_listener_off(|| self.end_unheard());
        #[cfg(not(feature = "latency-tracers"))]
        self.end_unheard()
    }

    /// The same where none listens.
    #[inline(never)]
    pub(super) fn end_unheard(self) -> Result<(), Error> {
        follow();
        apply()
    }
}

/// Chooses the functions of a set.
#[inline(never)]
pub(super) fn set(which: &SharedFilter, filter: &Filter) -> Result<(), Error> {
    let change = Change::begin()?;
    which.store(filter);
    change.end()
}

/// Reckons from the choices what each function's entry is wanted for.
#[inline(never)]
fn follow() {
    let choice = CHOICE.load(Relaxed);
    // Or there would be a loop for each choice.
    let all_if = |is_on: bool| opaque(usize::from(is_on).wrapping_neg()) as u64;
    let is_beside = IS_BESIDE.load(Relaxed) && IS_WANTED_BESIDE.load(Relaxed);
    let traced = all_if(choice == Tracer::Function as u8 || is_beside);
    let graphed = all_if(choice == Tracer::Graph as u8);
    let profiled = all_if(is_profiling());
    let measured = all_if(is_stack_tracing());
    for i in counted(WORDS) {
        let word = |set: &SharedFilter| set.word(i).load(Relaxed);
        let wanted = word(&FILTER) & !word(&NOTRACE);
        TRACED.word(i).store(wanted & traced, Relaxed);
        GRAPHED.word(i).store(wanted & graphed, Relaxed);
        PROFILED.word(i).store(wanted & profiled, Relaxed);
        let measures = word(&stack_max::FILTER) & measured;
        MEASURED.word(i).store(measures, Relaxed);
    }
    IS_GRAPH_ON.store(graphed != 0, Relaxed);
    graph_thunk::follow();
}

/// Patches every function's entry to what it has to call now.
#[inline(never)]
pub(super) fn apply() -> Result<(), Error> {
    let is_filtered = HAS_PIDS.load(Relaxed);
    let mut text = Text::lock()?;
    text.patch(|text| {
        for (id, &address) in entry::entries().iter().enumerate() {
            let wanted = (
                TRACED.contains(id),
                GRAPHED.contains(id),
                hooks::is_wanted(id) || PROFILED.contains(id) || MEASURED.contains(id),
            );
            let target = match wanted {
                _ if !entry::is_traceable(address) => None,
                _ if commands::is_wanted(id) => Some(thunk::commands()),
                (false, false, false) => None,
                (true, ..) if has_stack_trace() => Some(thunk::ops()),
                (true, false, false) if is_filtered => Some(thunk::trace_pid()),
                (true, false, false) if has_left_out() => Some(thunk::trace_others()),
                (true, false, false) => Some(thunk::trace()),
                (false, true, false) => Some(graph_thunk::entry()),
                _ => Some(thunk::ops()),
            };
            // SAFETY: an entry of the list, a thunk, and every other CPU stands still.
            unsafe { entry::set_target(text, address, target) };
        }
    });
    Ok(())
}
