//! The function graph: entry and return of functions.
//!
//! At the entry of a function its return address, on the stack, is replaced by that of a trampoline, and kept on a
//! shadow stack: one for each thread, and one for each CPU's interrupt stack. Which of them is told by the address of
//! the return address itself: it lies on the running thread's stack or on the CPU's interrupt stack. Where it lies on
//! neither (exceptions, and the few steps of a switch in which the running thread is the next one already) the function
//! is not hooked. So each shadow stack is used by one context only, and needs no protection but against itself.
//!
//! Some functions never return: a thread's last, or the interrupt that finds the idle thread waiting. What they left is
//! dropped when something is called from further up the same stack: the place of its return address is higher.
//!
//! Durations are the host's business: records say on which stack a function runs, and the events of the scheduler and
//! of interrupts who had the CPU meanwhile.

use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

use takt_tracer::event::Event;

use super::set::id_of;
use super::{
    GRAPH_FUNCTIONS, GRAPH_NOTRACE, HAS_GRAPH_FUNCTIONS, HAS_GRAPH_NOTRACE, MAX_DEPTH, events,
    thunk,
};
use crate::arch::{percpu, tsc};
use crate::config::{GRAPH_DEPTH, IDLE_STACK_SIZE, IRQ_STACK_SIZE, MAX_CPUS, MAX_THREADS};
use crate::trace::KernelSink;

/// A function that is under way.
#[derive(Clone, Copy)]
struct Frame {
    /// Where its return address lies.
    slot: usize,
    /// What stood there.
    ret: usize,
    ip: u32,
    part: Part,
    /// When it was entered, if that is measured; 0 if not.
    entered: u64,
}

/// What part a function has in the graph.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    /// None: it is there for its time only. What it calls may have one.
    None,
    /// It is recorded.
    Recorded,
    /// It is not recorded, nor what it calls.
    Muted,
}

impl Frame {
    #[inline(always)]
    fn new(slot: *mut usize, ret: usize, ip: u32, part: Part) -> Self {
        Self {
            slot: slot as usize,
            ret,
            ip,
            part,
            entered: 0,
        }
    }
}

struct Shadow {
    depth: usize,
    /// Someone is at work on it: what is entered meanwhile on the same stack is not hooked.
    is_busy: bool,
    frames: [Frame; GRAPH_DEPTH],
}

struct Shadows(UnsafeCell<[Shadow; MAX_THREADS + MAX_CPUS]>);

// SAFETY: each is used by one thread or by one CPU's interrupts; see the module's text.
unsafe impl Sync for Shadows {}

/// Zeros, so that they lie in `.bss`: the threads' first, then the interrupt stacks'.
static SHADOWS: Shadows = Shadows(UnsafeCell::new(
    [const {
        Shadow {
            depth: 0,
            is_busy: false,
            frames: [Frame {
                slot: 0,
                ret: 0,
                ip: 0,
                part: Part::None,
                entered: 0,
            }; GRAPH_DEPTH],
        }
    }; MAX_THREADS + MAX_CPUS],
));

pub(super) static NR_OVERRUN: AtomicU64 = AtomicU64::new(0);
pub(super) static NR_MISSED_RETURNS: AtomicU64 = AtomicU64::new(0);
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

/// Which stack an address lies on.
pub(super) struct Place {
    /// The number of its shadow stack.
    pub(super) index: usize,
    /// The stack's lowest address and the one above its highest.
    pub(super) bottom: usize,
    pub(super) top: usize,
}

impl Place {
    #[inline(always)]
    fn is_irq(&self) -> bool {
        self.index >= MAX_THREADS
    }

    #[inline(always)]
    pub(super) fn has(&self, slot: usize) -> bool {
        (self.bottom..self.top).contains(&slot)
    }
}

#[inline(always)]
pub(super) fn place_of(slot: usize) -> Option<Place> {
    // SAFETY: this CPU's own block; the field does not change once it runs.
    let top = unsafe { (*percpu::this()).irq_stack_top };
    let place = Place {
        index: MAX_THREADS + percpu::cpu(),
        bottom: top.wrapping_sub(IRQ_STACK_SIZE),
        top,
    };
    if place.has(slot) {
        return Some(place);
    }
    // SAFETY: the running thread's block; what is read does not change while it runs.
    let thread = unsafe { &*percpu::current() };
    let bottom = if thread.is_idle() {
        thread.stack_top.wrapping_sub(IDLE_STACK_SIZE)
    } else {
        thread.stack_bottom
    };
    let place = Place {
        index: thread.tid.index(),
        bottom,
        top: thread.stack_top,
    };
    place.has(slot).then_some(place)
}

#[inline(always)]
fn shadow(index: usize) -> *mut Shadow {
    // SAFETY: in bounds: an index is that of a thread, or of a CPU behind those.
    unsafe { SHADOWS.0.get().cast::<Shadow>().add(index) }
}

impl Shadow {
    /// Drops what never returned: nothing whose return address lies below `slot` can still be under way, and at `slot`
    /// only a function whose last act was to jump here, so that the return address is the trampoline's.
    #[inline(always)]
    fn drop_dead(&mut self, place: &Place, slot: usize, is_hooked: bool) {
        while let Some(top) = self.top() {
            let is_alive =
                place.has(top.slot) && (top.slot > slot || (top.slot == slot && is_hooked));
            if is_alive {
                return;
            }
            self.depth -= 1;
            NR_MISSED_RETURNS.fetch_add(1, Relaxed);
        }
    }

    #[inline(always)]
    fn top(&self) -> Option<Frame> {
        self.frames.get(self.depth.wrapping_sub(1)).copied()
    }
}

/// Called by the thunk at the entry of a function; `slot` is where its return address lies.
pub(super) extern "C" fn graph_entry(ip: u32, slot: *mut usize) {
    at_entry(slot, |shadow, place, ret| {
        if let Some(part) = part_of(shadow, ip) {
            push(shadow, place, slot, Frame::new(slot, ret, ip, part));
        }
    });
}

/// As [`graph_entry`], for a function whose time is measured; in the graph only if `is_graphed`.
pub(super) fn profile_entry(ip: u32, slot: *mut usize, is_graphed: bool) {
    at_entry(slot, |shadow, place, ret| {
        let part = match shadow.top() {
            Some(top) if top.part == Part::Muted => Part::Muted,
            _ if !is_graphed => Part::None,
            _ => part_of(shadow, ip).unwrap_or(Part::None),
        };
        let depth = shadow.depth;
        push(shadow, place, slot, Frame::new(slot, ret, ip, part));
        if let Some(frame) = shadow.frames.get_mut(depth) {
            super::profile::entered(ip);
            // Last, so that nothing of this counts.
            frame.entered = tsc::now().max(1);
        }
    });
}

/// Does `act` with the shadow stack of the function whose return address lies at `slot`, and with that address, unless
/// there is none or someone is at work on it.
#[inline(always)]
fn at_entry(slot: *mut usize, act: impl FnOnce(&mut Shadow, &Place, usize)) {
    let Some(place) = place_of(slot as usize) else {
        NR_SKIPPED.fetch_add(1, Relaxed);
        return;
    };
    // SAFETY: this context's own shadow stack.
    let shadow = unsafe { &mut *shadow(place.index) };
    if shadow.is_busy {
        NR_SKIPPED.fetch_add(1, Relaxed);
        return;
    }
    set_busy(shadow, true);
    // SAFETY: the thunk passes the place of the return address.
    let ret = unsafe { slot.read() };
    shadow.drop_dead(&place, slot as usize, ret == thunk::graph_return());
    act(shadow, &place, ret);
    set_busy(shadow, false);
}

/// Puts a function on its shadow stack, has it return to the trampoline, and records it.
#[inline(always)]
fn push(shadow: &mut Shadow, place: &Place, slot: *mut usize, frame: Frame) {
    let depth = shadow.depth;
    if let Some(free) = shadow.frames.get_mut(depth) {
        *free = frame;
        shadow.depth = depth + 1;
        // SAFETY: the thunk passes the place of the return address; the trampoline returns to what stood there.
        unsafe { slot.write(thunk::graph_return()) };
        if frame.part == Part::Recorded {
            emit(true, place, depth, frame.ip);
        }
    } else {
        NR_OVERRUN.fetch_add(1, Relaxed);
    }
}

/// What part a function has in the graph that is called now; `None` if it need not be hooked for that.
#[inline(always)]
fn part_of(shadow: &Shadow, ip: u32) -> Option<Part> {
    match shadow.top().filter(|top| top.part != Part::None) {
        Some(top) if top.part == Part::Muted => return None,
        Some(_) => {}
        None if !super::is_pid_traced() => return None,
        None if HAS_GRAPH_FUNCTIONS.load(Relaxed) => {
            id_of(ip as usize).filter(|id| GRAPH_FUNCTIONS.contains(*id))?;
        }
        None => {}
    }
    if shadow.depth >= MAX_DEPTH.load(Relaxed) as usize {
        return None;
    }
    let is_left_out = |id| GRAPH_NOTRACE.contains(id);
    let is_muted = HAS_GRAPH_NOTRACE.load(Relaxed) && id_of(ip as usize).is_some_and(is_left_out);
    Some(if is_muted {
        Part::Muted
    } else {
        Part::Recorded
    })
}

/// Called by the trampoline when a function returns; `slot` is where its return address lay. Gives that address.
pub(super) extern "C" fn graph_return(slot: usize) -> usize {
    let now = tsc::now();
    if let Some(place) = place_of(slot) {
        // SAFETY: this context's own shadow stack.
        let shadow = unsafe { &mut *shadow(place.index) };
        shadow.drop_dead(&place, slot, true);
        if let Some(top) = shadow.top().filter(|top| top.slot == slot) {
            set_busy(shadow, true);
            shadow.depth -= 1;
            if top.part == Part::Recorded {
                emit(false, &place, shadow.depth, top.ip);
            }
            if top.entered != 0 {
                super::profile::returned(top.ip, now.wrapping_sub(top.entered));
            }
            set_busy(shadow, false);
            return top.ret;
        }
    }
    return_during_switch(slot, now)
}

/// Between the moment when another thread counts as the running one and the jump to it, the stack is still that of the
/// thread before.
#[cold]
fn return_during_switch(slot: usize, now: u64) -> usize {
    for index in 0..MAX_THREADS + MAX_CPUS {
        // SAFETY: where a frame of this stack is found no one else is at work: this is the context that owns it.
        let shadow = unsafe { &mut *shadow(index) };
        let frames = shadow.frames.get(..shadow.depth).unwrap_or_default();
        if let Some(at) = frames.iter().rposition(|frame| frame.slot == slot) {
            let frame = frames[at];
            shadow.depth = at;
            if frame.entered != 0 {
                super::profile::returned(frame.ip, now.wrapping_sub(frame.entered));
            }
            if frame.part == Part::Recorded {
                let place = Place {
                    index,
                    bottom: 0,
                    top: 0,
                };
                emit(false, &place, at, frame.ip);
            }
            return frame.ret;
        }
    }
    panic!("a function returned whose return address is not known");
}

/// The address that the function whose return address lies at `slot` returns to, for backtraces: `found` is what stands
/// there, which may be the trampoline.
pub(crate) fn return_address(slot: usize, found: usize) -> usize {
    if found != thunk::graph_return() {
        return found;
    }
    (0..MAX_THREADS + MAX_CPUS)
        .find_map(|index| {
            // SAFETY: reads what its owner may be changing: a guess then, as a backtrace is.
            let shadow = unsafe { &*shadow(index) };
            let frames = shadow.frames.get(..shadow.depth)?;
            // The lowest of several at one place is that of the function that was called.
            frames
                .iter()
                .find(|frame| frame.slot == slot)
                .map(|frame| frame.ret)
        })
        .unwrap_or(found)
}

#[inline(always)]
fn set_busy(shadow: &mut Shadow, is_busy: bool) {
    // SAFETY: a field of its own. Volatile: what recurs in between has to see it.
    unsafe { (&raw mut shadow.is_busy).write_volatile(is_busy) };
}

#[inline(always)]
fn emit(is_entry: bool, place: &Place, depth: usize, ip: u32) {
    if !super::IS_GRAPH_ON.load(Relaxed) {
        return;
    }
    let id = if is_entry {
        events::funcgraph_entry::Event::id()
    } else {
        events::funcgraph_exit::Event::id()
    };
    let tid = if place.is_irq() {
        percpu::current_tid()
    } else {
        place.index as u8
    };
    let block = super::block_of(ip as usize);
    events::FuncGraph::emit::<KernelSink>(id, depth, place.is_irq(), block, tid);
}

const _: () = assert!(GRAPH_DEPTH <= 127, "a record has 7 bits for the depth");
