//! The function graph: entry and return of functions.
//!
//! At the entry of a function its return address, on the stack, is replaced by that of a trampoline, and kept on a
//! shadow stack (see `shadow`). Where that has no place for it the function is not hooked.
//!
//! Some functions never return: a thread's last, or the interrupt that finds the idle thread waiting. What they left is
//! dropped when something is called from further up the same stack: the place of its return address is higher.
//!
//! What goes straight through is done in assembly (see `graph_thunk`); everything else, and all of
//! it that others need, is here.
//!
//! Durations are the host's business: records say on which stack a function runs, and the events of the scheduler and
//! of interrupts who had the CPU meanwhile.

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

use takt_tracer::event::Event;

use super::shadow::{self, Frame, NR_MISSED_RETURNS, Part, Place, Shadow, place_of};
use super::state::{
    GRAPH_FUNCTIONS, GRAPH_NOTRACE, HAS_GRAPH_FUNCTIONS, HAS_GRAPH_NOTRACE, IS_GRAPH_ON, MAX_DEPTH,
    is_pid_traced,
};
use super::{events, profile};
use crate::clock::Instant;
use crate::compact::counted;
use crate::config::GRAPH_DEPTH;
use crate::probe::sink::KernelSink;

pub(super) static NR_OVERRUN: AtomicU64 = AtomicU64::new(0);
pub(super) static NR_SKIPPED: AtomicU64 = AtomicU64::new(0);

/// What the function graph could not record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GraphCounters {
    /// Functions not hooked because the shadow stack was full ([`GRAPH_DEPTH`]).
    pub overrun: u64,
    /// Functions that were entered and never returned.
    pub missed_returns: u64,
    /// Functions not hooked because they ran on neither stack, or inside the tracer itself.
    pub skipped: u64,
}

/// The counters since boot.
///
/// # Context
/// Any.
#[must_use]
pub fn graph_counters() -> GraphCounters {
    GraphCounters {
        overrun: NR_OVERRUN.load(Relaxed),
        missed_returns: NR_MISSED_RETURNS.load(Relaxed),
        skipped: NR_SKIPPED.load(Relaxed),
    }
}

/// Called by the thunk at the entry of a function; `slot` has its return address.
pub(super) extern "C" fn graph_entry(ip: u32, slot: &mut usize) {
    enter(ip, slot, true, false);
}

/// Puts a function on its shadow stack, has it return to the trampoline, and records it, if it is to be in the graph; its
/// time is measured if it is to be. Nothing of it if there is no shadow stack, or someone is at work on it.
#[inline(never)]
pub(super) fn enter(ip: u32, slot: &mut usize, is_graphed: bool, is_timed: bool) {
    let at = core::ptr::from_mut(slot) as usize;
    let Some((shadow, place)) = shadow_of(at).filter(|(shadow, _)| !shadow.is_busy()) else {
        NR_SKIPPED.fetch_add(1, Relaxed);
        return;
    };
    shadow.set_busy(true);
    let ret = *slot;
    if !shadow.is_of(&place) {
        shadow.adopt(&place);
    }
    shadow.drop_dead(at, shadow::is_trampoline(ret));
    let part = match shadow.top() {
        Some(top) if is_timed && top.part == Part::Muted => Some(Part::Muted),
        _ if !is_graphed => Some(Part::None),
        _ => part_of(shadow, ip).or(is_timed.then_some(Part::None)),
    };
    if let Some(part) = part {
        let frame = Frame {
            is_timed,
            ..Frame::new(at, ret, ip, part)
        };
        push(shadow, place.index, slot, frame, ip);
    }
    shadow.set_busy(false);
}

/// The shadow stack of the function whose return address lies at `slot`.
#[inline(always)]
fn shadow_of(slot: usize) -> Option<(&'static mut Shadow, Place)> {
    let place = place_of(slot)?;
    // SAFETY: this context's own shadow stack.
    Some((unsafe { &mut *shadow::shadow(place.index) }, place))
}

/// The part of [`enter`] that there has to be room for.
#[inline(always)]
fn push(shadow: &mut Shadow, index: usize, slot: &mut usize, frame: Frame, ip: u32) {
    let (depth, is_irq) = (shadow.depth(), shadow.is_irq());
    let Some(frame) = shadow.push(frame) else {
        NR_OVERRUN.fetch_add(1, Relaxed);
        return;
    };
    shadow::note_last(index);
    // The trampoline returns to what stood there.
    *slot = shadow::trampoline(frame.is_timed);
    if frame.part == Part::Recorded {
        emit(true, is_irq, depth, frame);
    }
    if frame.is_timed {
        profile::entered(ip);
        // Last, so that nothing of this counts.
        frame.entered = Instant::now();
    }
}

/// What part a function has in the graph that is called now; `None` if it need not be hooked for that.
#[inline(never)]
fn part_of(shadow: &Shadow, ip: u32) -> Option<Part> {
    match shadow.top().filter(|top| top.part != Part::None) {
        Some(top) if top.part == Part::Muted => return None,
        Some(_) => {}
        None if !is_pid_traced() => return None,
        None if HAS_GRAPH_FUNCTIONS.load(Relaxed) && !GRAPH_FUNCTIONS.has(ip) => return None,
        None => {}
    }
    if shadow.depth() >= MAX_DEPTH.load(Relaxed) as usize {
        return None;
    }
    let is_muted = HAS_GRAPH_NOTRACE.load(Relaxed) && GRAPH_NOTRACE.has(ip);
    Some(if is_muted {
        Part::Muted
    } else {
        Part::Recorded
    })
}

/// Called by the trampoline when a function returns; `slot` is where its return address lay. Gives that address.
pub(super) extern "C" fn graph_return(slot: usize) -> usize {
    let now = Instant::now();
    if let Some((shadow, place)) = shadow_of(slot) {
        if shadow.is_of(&place) {
            shadow.drop_dead(slot, true);
        }
        if shadow.top().is_some_and(|top| top.slot == slot) {
            shadow.set_busy(true);
            let ret = pop(shadow, shadow.depth() - 1, now);
            shadow.set_busy(false);
            return ret;
        }
    }
    return_during_switch(slot, now)
}

/// The function at that depth has returned: drops it, records and counts its return, and gives the address that it returns
/// to.
#[inline(never)]
fn pop(shadow: &mut Shadow, depth: usize, now: Instant) -> usize {
    shadow.set_depth(depth);
    let is_irq = shadow.is_irq();
    let frame = shadow.popped();
    if frame.part == Part::Recorded {
        emit(false, is_irq, depth, frame);
    }
    if frame.is_timed {
        profile::returned(frame.ip(), now.wrapping_since(frame.entered));
    }
    frame.ret
}

/// Between the moment when another thread counts as the running one and the jump to it, the stack is still that of the
/// thread before.
#[cold]
#[inline(never)]
fn return_during_switch(slot: usize, now: Instant) -> usize {
    let last = shadow::last();
    for number in counted(shadow::NR + 1) {
        // That one at first, then all.
        let shadow = match number.checked_sub(1) {
            Some(index) => shadow::shadow(index),
            None => last,
        };
        if !shadow::is_anyones(shadow) {
            continue;
        }
        // SAFETY: where a frame of this stack is found no one else is at work: this is the context that owns it.
        let shadow = unsafe { &mut *shadow };
        let mut frames = shadow.frames().iter();
        if let Some(depth) = frames.rposition(|frame| frame.slot == slot) {
            return pop(shadow, depth, now);
        }
    }
    panic!("a function returned whose return address is not known");
}

#[inline(never)]
fn emit(is_entry: bool, is_irq: bool, depth: usize, frame: &Frame) {
    if !IS_GRAPH_ON.load(Relaxed) {
        return;
    }
    let id = if is_entry {
        events::funcgraph_entry::Event::id()
    } else {
        events::funcgraph_exit::Event::id()
    };
    let (block, tid) = (frame.block(), frame.tid());
    events::FuncGraph::emit::<KernelSink>(id, depth, is_irq, block, tid);
}

const _: () = assert!(GRAPH_DEPTH <= 127, "a record has 7 bits for the depth");
