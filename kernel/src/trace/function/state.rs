//! What is chosen: the choices themselves, and what follows from them for each function.

use core::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, Ordering::Relaxed};

use super::entry;
use super::set::SharedFilter;
use crate::arch::percpu;
use crate::config::MAX_FUNCTIONS;
use crate::error::Error;

/// What is recorded of functions.
#[repr(u8)]
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Tracer {
    Nop,
    Function,
    Graph,
}

/// Who records.
pub(super) static CHOICE: AtomicU8 = AtomicU8::new(Tracer::Nop as u8);

/// What was chosen by [`set_filter`](super::set_filter) and [`set_notrace`](super::set_notrace). Nothing on the hot paths looks at them.
pub(super) static FILTER: SharedFilter = SharedFilter::all();
pub(super) static NOTRACE: SharedFilter = SharedFilter::none();

/// The functions that the tracer records, all things considered.
pub(super) static TRACED: SharedFilter = SharedFilter::none();

/// The functions that the function graph hooks, all things considered.
pub(super) static GRAPHED: SharedFilter = SharedFilter::none();
pub(super) static IS_GRAPH_ON: AtomicBool = AtomicBool::new(false);

/// The functions that the graph begins at, if [`HAS_GRAPH_FUNCTIONS`]; those it leaves out, and all they call.
pub(super) static GRAPH_FUNCTIONS: SharedFilter = SharedFilter::none();
pub(super) static HAS_GRAPH_FUNCTIONS: AtomicBool = AtomicBool::new(false);
pub(super) static GRAPH_NOTRACE: SharedFilter = SharedFilter::none();
/// Whether that set has any: finding a function's number costs more than the rest of its entry.
pub(super) static HAS_GRAPH_NOTRACE: AtomicBool = AtomicBool::new(false);
pub(super) static MAX_DEPTH: AtomicU32 = AtomicU32::new(u32::MAX);

/// Records are to be made by the record functions, which someone has diverted.
pub(super) static ARE_RECORDS_JUDGED: AtomicBool = AtomicBool::new(false);

/// Option `func_stack_trace`.
#[unsafe(export_name = "TAKT_FUNC_STACK_TRACE")]
pub(super) static IS_STACK_WANTED: AtomicBool = AtomicBool::new(false);

/// Option `function-trace`.
#[unsafe(export_name = "TAKT_FUNCTION_TRACE")]
pub(super) static IS_WANTED_BESIDE: AtomicBool = AtomicBool::new(false);
/// A tracer of latencies is the current one.
pub(super) static IS_BESIDE: AtomicBool = AtomicBool::new(false);

/// A bit for each thread that is traced, if [`HAS_PIDS`].
pub(super) static PIDS: [AtomicU32; 8] = [const { AtomicU32::new(0) }; 8];
pub(super) static HAS_PIDS: AtomicBool = AtomicBool::new(false);

/// What [`who_runs`] says of the thread that is left out where no threads were chosen.
pub(super) static LEFT_OUT: AtomicU32 = AtomicU32::new(NOBODY);
/// What it never says: a bit that is no part of that.
pub(super) const NOBODY: u32 = 1;

/// Whether the image has functions that can be traced, and not too many.
pub(super) fn check_functions() -> Result<(), Error> {
    match entry::entries().len() {
        0 => Err(Error::InvalidState),
        nr if nr > MAX_FUNCTIONS => Err(Error::OutOfResources),
        _ => Ok(()),
    }
}

/// Whether [`leave_out`](super::leave_out) counts.
pub(super) fn has_left_out() -> bool {
    LEFT_OUT.load(Relaxed) != NOBODY
}

/// Whether a stack is to be recorded after every record of the tracer `function`.
///
/// # Context
/// Any.
#[must_use]
pub fn has_stack_trace() -> bool {
    IS_STACK_WANTED.load(Relaxed)
}

/// Of the context word: the running thread, and whether an interrupt or an NMI is handled.
pub(super) const WHO_RUNS: u32 = 0xff << TID_SHIFT
    | ((percpu::HARDIRQ | percpu::NMI) as u32) << ((percpu::PREEMPT - percpu::CONTEXT) * 8);
/// Where the thread stands there.
pub(super) const TID_SHIFT: usize = (percpu::CURRENT_TID - percpu::CONTEXT) * 8;

#[inline(never)]
pub(super) fn is_pid_traced() -> bool {
    if !HAS_PIDS.load(Relaxed) {
        return who_runs() != LEFT_OUT.load(Relaxed);
    }
    let tid = percpu::current_tid();
    PIDS[usize::from(tid / 32)].load(Relaxed) >> (tid % 32) & 1 != 0
}

/// The running thread, and whether an interrupt or an NMI has it wait, as the context word has them.
#[inline(always)]
pub(super) fn who_runs() -> u32 {
    percpu::this().context() & WHO_RUNS
}
