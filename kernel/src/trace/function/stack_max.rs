//! The stack tracer: the deepest use of each stack, with the chain of calls that reached it.
//!
//! While it is on, the entry of every function measures how deep its return address lies on its stack: a thread's, an
//! idle thread's or a CPU's interrupt stack. So what the innermost function itself needs counts as soon as it calls
//! another. A new maximum is kept with the functions that are under way on that stack and the depth of each.
//!
//! Each stack is used by one context only, and what comes in between uses another, so an entry of the table is changed
//! by one writer. Exceptions' stacks (NMIs') are left out. The tracer's own calls need stack too (some 300 bytes); it
//! does not count them, but they must fit.

use core::sync::atomic::{AtomicU32, Ordering::Relaxed};

use heapless::Vec;
use takt_tracer::stack_max::{Deepest, MAX_FRAMES};

use super::set::{Filter, SharedFilter};
use super::shadow::{Place, place_of};
use crate::arch::interrupts;
use crate::backtrace::Backtrace;
use crate::config::{MAX_CPUS, MAX_THREADS};

/// What was chosen by [`set_stack_filter`](super::set_stack_filter).
pub(super) static FILTER: SharedFilter = SharedFilter::all();

/// The functions whose entries measure, all things considered.
pub(super) static MEASURED: SharedFilter = SharedFilter::none();

/// Zeros, so that they lie in `.bss`: the threads' first, then the interrupt stacks'.
#[unsafe(export_name = "TAKT_STACK_MAX")]
pub(super) static TABLE: [Deepest; MAX_THREADS + MAX_CPUS] =
    [const { Deepest::new() }; MAX_THREADS + MAX_CPUS];

#[unsafe(export_name = "TAKT_STACK_TRACER_ENABLED")]
pub(super) static ENABLED: AtomicU32 = AtomicU32::new(0);

/// Only what is deeper is kept.
#[unsafe(export_name = "TAKT_STACK_MAX_FLOOR")]
pub(super) static FLOOR: AtomicU32 = AtomicU32::new(0);

/// Whether the stack tracer is on.
///
/// # Context
/// Any.
#[must_use]
pub fn is_stack_tracing() -> bool {
    ENABLED.load(Relaxed) != 0
}

/// What [`set_stack_filter`](super::set_stack_filter) has chosen.
///
/// # Context
/// Threads.
#[must_use]
pub fn stack_filter() -> Filter {
    FILTER.load()
}

/// What was found of the stack of the thread with this number, or behind the threads, from
/// [`MAX_THREADS`] on, of a CPU's interrupt stack.
///
/// # Context
/// Any.
#[must_use]
pub fn stack_max_of(number: usize) -> Option<&'static Deepest> {
    TABLE.get(number).filter(|deepest| deepest.depth() != 0)
}

/// A function begins at `ip`, whose return address lies at `slot`.
#[inline(never)]
pub(super) fn measure(ip: usize, slot: usize, parent_ip: usize) {
    let Some(place) = place_of(slot) else { return };
    let Some(deepest) = TABLE.get(place.index) else {
        return;
    };
    let depth = (place.top - slot) as u32;
    let is_same = deepest.top.load(Relaxed) == place.top as u32;
    let least = if is_same { deepest.depth() } else { 0 };
    if depth > least.max(FLOOR.load(Relaxed)) {
        keep(deepest, &place, ip, slot, parent_ip);
    }
}

#[cold]
#[inline(never)]
fn keep(deepest: &Deepest, place: &Place, ip: usize, slot: usize, parent_ip: usize) {
    let depth = |slot: usize| (place.top - slot) as u32;
    let mut frames = Vec::<(u32, u32), MAX_FRAMES>::new();
    // There is room.
    let _ = frames.push((ip as u32, depth(slot)));
    let (_, frame) = interrupts::frame_pointer();
    let mut calls = Backtrace::from(frame as usize);
    // Behind the tracer's own frames comes the one of the caller. A call's own return address is one frame further up.
    let mut call = parent_ip.wrapping_sub(1);
    while let Some(at) = calls.next_slot() {
        let next = calls.next();
        if at <= slot {
            continue;
        }
        if !place.has(at) || frames.push((call as u32, depth(at))).is_err() {
            break;
        }
        match next {
            Some(next) => call = next,
            None => break,
        }
    }
    deepest.set(place.top as u32, (place.top - place.bottom) as u32, &frames);
}
