//! Shadow stacks: the functions that are under way, for the function graph and the profiler.
//!
//! There is one for each thread, and one for each CPU's interrupt stack. Which of them a function belongs to is told by
//! where its return address lies: on the running thread's stack or on the CPU's interrupt stack. On any other stack
//! (exceptions, and the few steps of a switch in which the running thread is the next one already) it belongs to none. So
//! each is used by one context only, and needs no protection but against itself.
//!
//! A function that switches returns to the one that jumps: on a stack that is no longer the running thread's. Its frame is
//! on the shadow stack that was the last one of this CPU to get one, or has to be searched for.
//!
//! The assembly in `graph_thunk` uses them too, where everything is as it mostly is: [`Shadow::at`] has [`SLOW`] wherever
//! it is not.

use core::cell::UnsafeCell;
use core::mem::offset_of;
use core::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering::Relaxed};

use super::entry::{self, block_of};
use crate::arch::percpu;
use crate::clock::Instant;
use crate::compact::counted;
use crate::config::{GRAPH_DEPTH, IRQ_STACK_SIZE, MAX_CPUS, MAX_THREADS};
use crate::thread::tcb::TcbRef;

/// A function that is under way.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct Frame {
    /// Where its return address lies.
    pub(super) slot: usize,
    /// What stood there.
    pub(super) ret: usize,
    /// The function and the thread, as its records have them: the block in bits 0 to 11, the thread's number in bits 12
    /// to 19. Assembly stores these eight bytes as one, as those of a function that is recorded and not timed.
    pub(super) what: u32,
    pub(super) part: Part,
    /// Whether `entered` counts.
    pub(super) is_timed: bool,
    /// When it was entered.
    pub(super) entered: Instant,
}

/// What part a function has in the graph.
#[repr(u8)]
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    /// It is recorded.
    Recorded = 0,
    /// None: it is there for its time only. What it calls may have one.
    None,
    /// It is not recorded, nor what it calls.
    Muted,
}

impl Frame {
    const NONE: Self = Self {
        slot: 0,
        ret: 0,
        what: 0,
        part: Part::Recorded,
        is_timed: false,
        entered: Instant::ZERO,
    };

    #[inline(always)]
    pub(super) fn new(slot: usize, ret: usize, ip: u32, part: Part) -> Self {
        Self {
            slot,
            ret,
            what: block_of(ip as usize) as u32 & 0xfff | u32::from(percpu::current_tid()) << 12,
            part,
            ..Self::NONE
        }
    }

    /// The number of the function's block.
    #[inline(always)]
    pub(super) fn block(&self) -> usize {
        self.what as usize & 0xfff
    }

    /// The thread that it runs on, or that it has interrupted.
    #[inline(always)]
    pub(super) fn tid(&self) -> u8 {
        (self.what >> 12) as u8
    }

    /// Where the function begins: every function begins a block.
    #[inline(always)]
    pub(super) fn ip(&self) -> u32 {
        (entry::image_start() + self.block() * entry::BLOCK) as u32
    }
}

/// In [`Shadow::at`]: not for assembly, since someone is at work here or the function on top is no ordinary one.
const SLOW: u32 = 1 << 31;

/// What a function more under way adds to [`Shadow::at`].
pub(super) const STEP: u32 = size_of::<Frame>() as u32;

/// The functions under way on one stack.
#[repr(C)]
pub(super) struct Shadow {
    /// The first one is none, but the stack itself: its `slot` is the stack's end, above every return address; 0 if
    /// no stack was seen yet.
    pub(super) frames: [Frame; GRAPH_DEPTH + 1],
    /// Where in `frames` the uppermost is, in bytes, and [`SLOW`].
    pub(super) at: u32,
    /// In a record's word: whether this is an interrupt stack's.
    pub(super) irq: u32,
    /// Someone is at work on it: what is entered meanwhile on the same stack is not hooked.
    is_busy: bool,
}

/// Of records of entries and returns: the bit `irq`.
const IRQ: u32 = 1 << 15;

#[repr(transparent)]
pub(super) struct Shadows(UnsafeCell<[Shadow; NR]>);

pub(super) const NR: usize = MAX_THREADS + MAX_CPUS;

// SAFETY: each is used by one thread or by one CPU's interrupts; see the module's text.
unsafe impl Sync for Shadows {}

/// Zeros, so that they lie in `.bss`: the threads' first, then the interrupt stacks'.
pub(super) static SHADOWS: Shadows = Shadows(UnsafeCell::new(
    [const {
        Shadow {
            frames: [Frame::NONE; GRAPH_DEPTH + 1],
            at: 0,
            irq: 0,
            is_busy: false,
        }
    }; NR],
));

/// Functions that were entered and never returned.
pub(super) static NR_MISSED_RETURNS: AtomicU64 = AtomicU64::new(0);

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
    pub(super) fn has(&self, slot: usize) -> bool {
        (self.bottom..self.top).contains(&slot)
    }
}

/// The stack of this CPU's threads or interrupts that an address lies on.
#[inline(never)]
pub(super) fn place_of(slot: usize) -> Option<Place> {
    let top = percpu::this().irq_stack_top.load(Relaxed);
    let place = Place {
        index: MAX_THREADS + percpu::cpu(),
        bottom: top.wrapping_sub(IRQ_STACK_SIZE),
        top,
    };
    if place.has(slot) {
        return Some(place);
    }
    let thread = TcbRef::current();
    let place = Place {
        index: thread.tid().index(),
        bottom: thread.stack_bottom(),
        top: thread.stack_top(),
    };
    place.has(slot).then_some(place)
}

/// The shadow stack of that number.
#[inline(always)]
pub(super) fn shadow(index: usize) -> *mut Shadow {
    SHADOWS.0.get().cast::<Shadow>().wrapping_add(index)
}

/// All of them, by number.
pub(super) fn all() -> impl Iterator<Item = (usize, *mut Shadow)> {
    counted(NR).map(|index| (index, shadow(index)))
}

/// Says that a function was put on the shadow stack of that number, of all on this CPU the last.
#[inline(always)]
pub(super) fn note_last(index: usize) {
    // Whoever comes in between writes another as well.
    let last = (index * size_of::<Shadow>()) as u32;
    percpu::this().function_shadow.store(last, Relaxed);
}

/// The one that was noted so; perhaps none.
#[inline(always)]
pub(super) fn last() -> *mut Shadow {
    let last = percpu::this().function_shadow.load(Relaxed);
    shadow(last as usize / size_of::<Shadow>())
}

/// The end of the stack that a shadow stack is of, or 0: all of a shadow stack that others than its owner write.
#[inline(always)]
fn end_of<'a>(shadow: *mut Shadow) -> &'a AtomicUsize {
    // SAFETY: its first word, the first frame's `slot`, of a static.
    unsafe { &*shadow.cast::<AtomicUsize>() }
}

/// How many functions are under way on another's shadow stack: a guess, where its owner changes that.
#[inline(always)]
fn depth_of(shadow: *mut Shadow) -> usize {
    let at = shadow.wrapping_byte_add(offset_of!(Shadow, at));
    // SAFETY: a word of a static.
    let at = unsafe { &*at.cast::<AtomicU32>() };
    ((at.load(Relaxed) & !SLOW) / STEP) as usize
}

/// Where the return addresses of the functions that are under way on another's shadow stack lie, and what stood there: the outermost
/// first, and a guess likewise.
#[inline(always)]
fn returns_of(shadow: *mut Shadow) -> impl Iterator<Item = (usize, usize)> {
    let word = move |at: usize| {
        let word = shadow.wrapping_byte_add(at).cast::<AtomicUsize>();
        // SAFETY: a word of a frame of a static.
        unsafe { &*word }.load(Relaxed)
    };
    (1..=depth_of(shadow).min(GRAPH_DEPTH)).map(move |at| {
        let frame = offset_of!(Shadow, frames) + at * size_of::<Frame>();
        (
            word(frame + offset_of!(Frame, slot)),
            word(frame + offset_of!(Frame, ret)),
        )
    })
}

/// Whether a shadow stack is any stack's: in what is no one's, nothing is under way.
#[inline(always)]
pub(super) fn is_anyones(shadow: *mut Shadow) -> bool {
    end_of(shadow).load(Relaxed) != 0
}

/// Whoever was on this stack before, under another number, has left it for good: a stack has one shadow stack, so that
/// return addresses can be searched for.
///
/// The number may have a new thread, which makes the shadow stack its own at this moment. So only the end is taken away, from
/// who still has that of this stack.
#[cold]
#[inline(never)]
fn forget_others(place: &Place) {
    for (index, other) in all() {
        let end = end_of(other);
        if index != place.index && end.compare_exchange(place.top, 0, Relaxed, Relaxed).is_ok() {
            NR_MISSED_RETURNS.fetch_add(depth_of(other) as u64, Relaxed);
        }
    }
}

impl Shadow {
    /// How many functions are under way.
    #[inline(always)]
    pub(super) fn depth(&self) -> usize {
        ((self.at & !SLOW) / STEP) as usize
    }

    /// The functions under way, the outermost first.
    #[inline(always)]
    pub(super) fn frames(&self) -> &[Frame] {
        self.frames.get(1..=self.depth()).unwrap_or_default()
    }

    /// The innermost one.
    #[inline(never)]
    pub(super) fn top(&self) -> Option<&Frame> {
        self.frames().last()
    }

    /// The one that was above the innermost one.
    #[inline(always)]
    pub(super) fn popped(&self) -> &Frame {
        self.frames.get(self.depth() + 1).unwrap_or(&self.frames[0])
    }

    /// Puts another one on top; `None` if there is no room.
    #[inline(always)]
    pub(super) fn push(&mut self, frame: Frame) -> Option<&mut Frame> {
        let depth = self.depth() + 1;
        *self.frames.get_mut(depth)? = frame;
        self.set_depth(depth);
        self.frames.get_mut(depth)
    }

    /// Drops all but the first so many.
    #[inline(never)]
    pub(super) fn set_depth(&mut self, depth: usize) {
        let is_ordinary =
            |frame: &Frame| depth == 0 || frame.part == Part::Recorded && !frame.is_timed;
        let is_fast = !self.is_busy && self.frames.get(depth).is_some_and(is_ordinary);
        let slow = if is_fast { 0 } else { SLOW };
        let at = (depth as u32 * STEP) | slow;
        // SAFETY: a field of its own. Volatile: backtraces read it at any moment, and so does assembly.
        unsafe { (&raw mut self.at).write_volatile(at) };
    }

    #[inline(always)]
    pub(super) fn is_busy(&self) -> bool {
        self.is_busy
    }

    /// Someone is at work on it, or no longer.
    #[inline(never)]
    pub(super) fn set_busy(&mut self, is_busy: bool) {
        // SAFETY: a field of its own. Volatile: what recurs in between has to see it.
        unsafe { (&raw mut self.is_busy).write_volatile(is_busy) };
        self.set_depth(self.depth());
    }

    /// Whether its functions are those of this stack: threads' numbers are used again.
    #[inline(always)]
    pub(super) fn is_of(&self, place: &Place) -> bool {
        self.frames[0].slot == place.top
    }

    /// Makes it this stack's. What is under way on another one never returned.
    #[cold]
    #[inline(never)]
    pub(super) fn adopt(&mut self, place: &Place) {
        // It was counted by who has taken the end away.
        if end_of(self).swap(0, Relaxed) != 0 {
            NR_MISSED_RETURNS.fetch_add(self.depth() as u64, Relaxed);
        }
        self.set_depth(0);
        end_of(self).store(place.top, Relaxed);
        self.irq = if place.index >= MAX_THREADS { IRQ } else { 0 };
        forget_others(place);
    }

    /// Whether it is an interrupt stack's.
    #[inline(always)]
    pub(super) fn is_irq(&self) -> bool {
        self.irq != 0
    }

    /// Drops what never returned: nothing whose return address lies below `slot` can still be under way, and at `slot`
    /// only a function whose last act was to jump here, so that the return address is the trampoline's.
    #[inline(never)]
    pub(super) fn drop_dead(&mut self, slot: usize, is_hooked: bool) {
        while let Some(top) = self.top() {
            if top.slot > slot || (top.slot == slot && is_hooked) {
                return;
            }
            self.set_depth(self.depth() - 1);
            NR_MISSED_RETURNS.fetch_add(1, Relaxed);
        }
    }
}

unsafe extern "C" {
    fn takt_graph_return();
    fn takt_graph_return_timed();
}

/// Where functions return to that the function graph has hooked. What is timed has a trampoline of its own, which takes
/// the same time whatever the stack: it leaves everything to `graph_return`.
#[inline(always)]
pub(super) fn trampoline(is_timed: bool) -> usize {
    let trampoline = if is_timed {
        takt_graph_return_timed
    } else {
        takt_graph_return
    };
    trampoline as *const () as usize
}

/// Whether a return address is that of a trampoline.
#[inline(always)]
pub(super) fn is_trampoline(address: usize) -> bool {
    address == trampoline(false) || address == trampoline(true)
}

/// The address that the function whose return address lies at `slot` returns to, for backtraces: `found` is what stands
/// there, which may be the trampoline.
#[inline(never)]
pub(crate) fn return_address(slot: usize, found: usize) -> usize {
    if !is_trampoline(found) {
        return found;
    }
    all()
        .filter(|(_, shadow)| is_anyones(*shadow))
        .find_map(|(_, shadow)| {
            // The lowest of several at one place is that of the function that was called.
            returns_of(shadow).find(|(at, _)| *at == slot)
        })
        .map_or(found, |(_, ret)| ret)
}
