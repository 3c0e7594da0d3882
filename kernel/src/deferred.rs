//! What several wake-ups at once leave to a later interrupt.
//!
//! Setting flags, notifying all and lending priorities along a chain are many short sections. Where interrupts are off
//! around them, in a handler above all, whoever does that asks after each section whether something else is due
//! ([`must_give_way`]), and leaves the rest to a timer of the kernel's own, which has expired already: it comes as soon as
//! interrupts are on, behind the devices and the timers that were due before. So what is done at once keeps no other
//! interrupt waiting for more than one of its sections, however much it is.
//!
//! That is one operation's own work. A handler that finds what another has left of the same object, or a thread's search
//! under way, first does all of that.
//!
//! # Invariants
//! * An object stands in the list iff its [`Work`] says so, and only while it has something to do, for which threads wait
//!   that borrow it: so it cannot go away or be moved.
//! * While there is something to do, the timer of some CPU is armed or runs.

use core::cell::Cell;

use takt_scheduler::{ThreadId, TimerId};

use crate::arch::percpu::CpuRef;
use crate::arch::{apic, tsc};
use crate::config::{MAX_THREADS, MAX_TIMERS};
use crate::section::{self, Any, Kernel, Kind, Section};
use crate::thread_set::ThreadSet;
use crate::timers;

/// Each CPU's timer for it, behind those of software timers.
pub(crate) const TIMER: TimerId = TimerId::new((MAX_THREADS + MAX_TIMERS) as u16);

/// An object's place in the list, and what is done with it.
pub(crate) struct Work {
    is_queued: Cell<bool>,
    next: Cell<*const Work>,
    prev: Cell<*const Work>,
    /// Whose it is, while it is in the list.
    object: Cell<*const ()>,
    step: unsafe fn(*const (), Section<Any>),
}

// SAFETY: the cells are used with the kernel lock held, which one CPU has at a time.
unsafe impl Sync for Work {}
// SAFETY: not moved while it is in the list.
unsafe impl Send for Work {}

impl Work {
    /// Nothing to do. `step`, which is told the object, does a step of it in the section that it is given and ends that,
    /// and takes it off the list with the last. Behind that section the object may be gone.
    pub(crate) const fn new(step: unsafe fn(*const (), Section<Any>)) -> Self {
        Self {
            is_queued: Cell::new(false),
            next: Cell::new(core::ptr::null()),
            prev: Cell::new(core::ptr::null()),
            object: Cell::new(core::ptr::null()),
            step,
        }
    }

    /// Whether it is in the list.
    #[inline(always)]
    pub(crate) fn is_queued(&self) -> bool {
        self.is_queued.get()
    }

    /// Leaves what there is to do with `object`, which it is part of, to the timer.
    #[cold]
    #[inline(never)]
    pub(crate) fn queue<K: Kind, T>(&self, section: Section<K>, object: &T) {
        self.object.set(core::ptr::from_ref(object).cast());
        if !self.is_queued.replace(true) {
            let last = LIST.last.replace(self);
            self.prev.set(last);
            self.next.set(core::ptr::null());
            match listed(&section, last) {
                Some(last) => last.next.set(self),
                None => LIST.first.set(self),
            }
        }
        arm(section);
    }

    /// Takes it off the list, if it is there: all is done.
    #[inline(always)]
    pub(crate) fn done(&self, kernel: &mut Kernel) {
        if self.is_queued() {
            self.unqueue(kernel);
        }
    }

    #[cold]
    #[inline(never)]
    fn unqueue(&self, kernel: &mut Kernel) {
        self.is_queued.set(false);
        let (prev, next) = (self.prev.get(), self.next.get());
        match listed(kernel, prev) {
            Some(prev) => prev.next.set(next),
            None => LIST.first.set(next),
        }
        match listed(kernel, next) {
            Some(next) => next.prev.set(prev),
            None => LIST.last.set(prev),
        }
    }
}

/// Who is at this place of the list, if someone is.
#[inline(always)]
fn listed<'w>(_: &Kernel, place: *const Work) -> Option<&'w Work> {
    // SAFETY: whoever is in the list is alive, and leaves it inside a section before it ends.
    unsafe { place.as_ref() }
}

struct List {
    first: Cell<*const Work>,
    last: Cell<*const Work>,
}

// SAFETY: both ends are used with the kernel lock held, which one CPU has at a time.
unsafe impl Sync for List {}

static LIST: List = List {
    first: Cell::new(core::ptr::null()),
    last: Cell::new(core::ptr::null()),
};

/// At these threads walks along chains of owners are to go on.
static WALKS: ThreadSet = ThreadSet::new();

/// Leaves the rest of a walk, from this thread on, to the timer.
#[cold]
#[inline(never)]
pub(crate) fn walk_on(tid: ThreadId) {
    let section = section::enter();
    WALKS.insert(tid);
    arm(section);
}

/// Whether an interrupt is pending, or a timer due.
///
/// # Context
/// Interrupts off.
#[inline(never)]
pub(crate) fn must_give_way() -> bool {
    apic::is_any_pending() || timers::next_deadline().cycles() <= tsc::now()
}

/// Has the timer come, unless it does so already; ends the section.
fn arm<K: Kind>(mut section: Section<K>) {
    let cpu = CpuRef::this();
    if section.cpu(cpu).timers.is_armed(TIMER) {
        return section.leave_quietly();
    }
    timers::insert_and_leave(section.narrow(), TIMER, tsc::now());
}

/// Does some of it: of the first object in the list, and of one walk. Neither keeps the other waiting.
///
/// # Context
/// A timer's function.
pub(crate) fn run(walk: impl FnOnce(ThreadId)) {
    let mut first: *const Work = core::ptr::null();
    loop {
        let section = section::enter();
        let place = LIST.first.get();
        let work = listed(&section, place).filter(|_| first.is_null() || first == place);
        let Some(work) = work else {
            section.leave_quietly();
            break;
        };
        first = place;
        // SAFETY: in the list's section the object is alive, and the function is its own.
        unsafe { (work.step)(work.object.get(), section) };
        if must_give_way() {
            break;
        }
    }
    if let Some(tid) = WALKS.take() {
        walk(tid);
    }
    let section = section::enter();
    let is_more = !LIST.first.get().is_null() || !WALKS.is_empty();
    if is_more {
        arm(section);
    } else {
        section.leave_quietly();
    }
}
