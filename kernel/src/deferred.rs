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
//! * An object stands in its lock's list iff its [`Work`] says so, and only while it has something to do, for which threads wait
//!   that borrow it: so it cannot go away or be moved while that lock is held.
//! * A list with objects has its bit in [`LEFT`].
//! * While there is something to do, the timer of some CPU is armed or runs, or a thread that cannot be preempted is arming it.

use core::cell::Cell;
#[cfg(feature = "tasks")]
use core::sync::atomic::AtomicU64;
use core::sync::atomic::{AtomicU32, Ordering::Relaxed};

use takt_scheduler::ThreadId;

use crate::arch::apic;
use crate::arch::lock_prefix::locked_if_smp;
use crate::arch::percpu::{self, CpuRef};
use crate::clock::Instant;
use crate::cpus::is_smp;
use crate::lock::{self, NR_LOCKS};
use crate::other_cpu;
use crate::section::{self, Any, Kernel, Kind, Scheduled, Section};
use crate::switch;
use crate::thread_set::ThreadSet;
use crate::timers;
use crate::waiters::Waiters;

/// An object's place in the list, and what is done with it.
pub(crate) struct Work {
    is_queued: Cell<bool>,
    next: Cell<*const Work>,
    prev: Cell<*const Work>,
    /// Whose it is, while it is in the list.
    object: Cell<*const ()>,
    step: unsafe fn(*const (), Section<Any>),
}

// SAFETY: the cells are used with the object's lock held, which one CPU has at a time.
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

    /// Leaves what there is to do with `object`, which it is part of and whose first queue this is, to the timer. In a section of
    /// the object.
    #[cold]
    #[inline(never)]
    pub(crate) fn queue<K: Kind, T>(&self, section: Section<K>, first: &Waiters, object: &T) {
        self.list(&section, first, object);
        arm(section.narrow());
    }

    /// The same for a thread that has disabled preemption, so that nobody else comes in front: this guard of it ends as in
    /// [`walk_on_and_enable`].
    #[cold]
    #[inline(never)]
    pub(crate) fn queue_and_enable<T, G>(
        &self,
        section: Section<Any>,
        first: &Waiters,
        object: &T,
        guard: G,
    ) {
        self.list(&section, first, object);
        section.leave_quietly();
        arm_and_enable(guard);
    }

    #[inline(always)]
    fn list<T>(&self, kernel: &Kernel, first: &Waiters, object: &T) {
        self.object.set(core::ptr::from_ref(object).cast());
        if !self.is_queued.replace(true) {
            let list = list_of(first);
            let last = list.last.replace(self);
            self.prev.set(last);
            self.next.set(core::ptr::null());
            match listed(kernel, last) {
                Some(last) => last.next.set(self),
                None => {
                    list.first.set(self);
                    locked_if_smp!(LEFT.fetch_or(list.bit, Relaxed));
                }
            }
        }
    }

    /// Takes it off the list, if it is there: all is done. In a section of the object.
    #[inline(always)]
    pub(crate) fn done(&self, kernel: &mut Kernel, first: &Waiters) {
        if self.is_queued() {
            self.unqueue(kernel, first);
        }
    }

    #[cold]
    #[inline(never)]
    fn unqueue(&self, kernel: &mut Kernel, first: &Waiters) {
        let list = list_of(first);
        self.is_queued.set(false);
        let (prev, next) = (self.prev.get(), self.next.get());
        match listed(kernel, prev) {
            Some(prev) => prev.next.set(next),
            None => list.first.set(next),
        }
        match listed(kernel, next) {
            Some(next) => next.prev.set(prev),
            None => list.last.set(prev),
        }
        if list.first.get().is_null() {
            locked_if_smp!(LEFT.fetch_and(!list.bit, Relaxed));
        }
    }
}

/// Who is at this place of the list, if someone is.
#[inline(always)]
fn listed<'w>(_: &Kernel, place: *const Work) -> Option<&'w Work> {
    // SAFETY: whoever is in the list is alive, and leaves it inside a section before it ends.
    unsafe { place.as_ref() }
}

/// Of the objects of one lock those with something to do.
#[repr(align(32))]
struct List {
    first: Cell<*const Work>,
    last: Cell<*const Work>,
    /// Which bit of [`LEFT`] is its.
    bit: u32,
}

// SAFETY: both ends are used with that lock held, which one CPU has at a time.
unsafe impl Sync for List {}

impl List {
    /// Of none of the objects of the lock of that number.
    const fn new(number: usize) -> Self {
        Self {
            first: Cell::new(core::ptr::null()),
            last: Cell::new(core::ptr::null()),
            bit: 1 << number,
        }
    }
}

static LISTS: [List; NR_LOCKS] = {
    let mut lists = [const { List::new(0) }; NR_LOCKS];
    let mut number = 1;
    while number < NR_LOCKS {
        lists[number] = List::new(number);
        number += 1;
    }
    lists
};

/// That of the lock of an object, by its first queue.
#[inline(always)]
fn list_of(first: &Waiters) -> &'static List {
    &LISTS[lock::number(first)]
}

/// A bit for each lock whose list has objects.
static LEFT: AtomicU32 = AtomicU32::new(0);
const _: () = assert!(NR_LOCKS <= u32::BITS as usize);

/// From which list on the next one with objects is looked for, wrapping: so that each has its turn.
static TURN: AtomicU32 = AtomicU32::new(0);

/// At these threads walks along chains of owners are to go on.
static WALKS: ThreadSet = ThreadSet::new();

/// Leaves a walk that begins at this thread. It has come behind no other, whatever one of another CPU has that goes on here.
#[inline(always)]
fn begin_walk(tid: ThreadId) {
    if is_smp!() {
        other_cpu::note_walk(tid, 0);
    }
    WALKS.insert(tid);
}

/// Leaves a walk, from this thread on, to the timer.
#[cfg(feature = "tasks")]
#[cold]
#[inline(never)]
pub(crate) fn walk_on(tid: ThreadId) {
    begin_walk(tid);
    arm(section::own());
}

/// Leaves the rest of a walk, from this thread on, to which it has come behind so many others, to the timer.
#[cold]
#[inline(never)]
pub(crate) fn walk_behind(tid: ThreadId, nr_visited: u8) {
    other_cpu::note_walk(tid, nr_visited);
    WALKS.insert(tid);
    arm(section::own());
}

/// Leaves a walk to it for a thread that has disabled preemption, so that nobody else comes in front ([`arm_and_enable`]).
#[cold]
#[inline(never)]
pub(crate) fn walk_on_and_enable<G>(tid: ThreadId, guard: G) {
    begin_walk(tid);
    arm_and_enable(guard);
}

/// Has the timer come for a thread that has disabled preemption: this guard of it ends inside the section in which the timer is
/// armed, or behind that where its place has to be looked for.
///
/// A switch may have become due before that, and the timer's interrupt comes only some instructions later: another CPU may have suspended
/// the thread, and then it must not go on.
fn arm_and_enable<G>(guard: G) {
    let mut section = section::own();
    let now = Instant::now();
    let timers = &section.cpu(CpuRef::this()).timers;
    if !timers.has_room_in_front(now) {
        core::hint::cold_path();
        // Others come in between.
        arm(section);
        section = section::own();
    }
    drop(guard);
    timers::arm_deferred(section, now);
    if percpu::resched_now() {
        switch::preempt();
    }
}

/// Whether an interrupt is pending, or a timer due.
///
/// # Context
/// Interrupts off.
#[inline(never)]
pub(crate) fn must_give_way() -> bool {
    apic::is_any_pending() || timers::next_deadline() <= Instant::now()
}

/// Has the timer come, unless it does so already; ends the section.
fn arm<K: Kind>(section: Section<K, Scheduled>) {
    timers::arm_deferred(section, Instant::now());
}

/// [`arm`] in the timer's interrupt.
#[cfg(feature = "tasks")]
fn arm_at_expiry(scheduled: &mut Scheduled) {
    if !scheduled
        .cpu(CpuRef::this())
        .timers
        .is_armed(timers::DEFERRED)
    {
        timers::insert_at_expiry(scheduled, timers::DEFERRED, Instant::now());
    }
}

/// A bit for each task whose supervisor has yet to be told of a budget.
#[cfg(feature = "tasks")]
static TO_TELL: AtomicU64 = AtomicU64::new(0);
#[cfg(feature = "tasks")]
const _: () = assert!(crate::config::MAX_TASKS <= u64::BITS as usize);

/// Leaves it to the timer to tell the supervisor of the task of this number of its budget. In the timer's interrupt.
#[cfg(feature = "tasks")]
pub(crate) fn tell(scheduled: &mut Scheduled, number: usize) {
    locked_if_smp!(TO_TELL.fetch_or(1 << number, Relaxed));
    arm_at_expiry(scheduled);
}

/// Leaves it to the timer to arm that of the next period of the task of this number. In the timer's interrupt.
#[cfg(feature = "tasks")]
pub(crate) fn refill(scheduled: &mut Scheduled, number: usize) {
    scheduled.cpu(CpuRef::this()).to_refill |= 1 << number;
    arm_at_expiry(scheduled);
}

/// Leaves a walk, from this thread on, to the timer. In the timer's interrupt.
#[cfg(feature = "tasks")]
pub(crate) fn walk_at_expiry(scheduled: &mut Scheduled, tid: ThreadId) {
    begin_walk(tid);
    arm_at_expiry(scheduled);
}

/// What is left to others than an object.
pub(crate) enum Left {
    /// A walk along a chain of owners, from this thread on, to which it has come behind so many others.
    Walk(ThreadId, u8),
    /// A word to the supervisor of the task of this number.
    #[cfg(feature = "tasks")]
    Tell(usize),
    /// The timer of the next period of the task of this number.
    #[cfg(feature = "tasks")]
    Refill(usize),
}

/// Takes one of them out, walks last: those are the longest, and the last one arms no timer.
#[inline(always)]
fn take() -> Option<Left> {
    #[cfg(feature = "tasks")]
    if let Some(of_budget) = take_of_budget() {
        return Some(of_budget);
    }
    let tid = WALKS.take()?;
    Some(Left::Walk(tid, other_cpu::take_nr_visited(tid)))
}

#[cfg(feature = "tasks")]
#[inline(always)]
fn take_of_budget() -> Option<Left> {
    let mut section = section::own();
    let to_refill = &mut section.cpu(CpuRef::this()).to_refill;
    let refill = to_refill.checked_ilog2();
    if let Some(number) = refill {
        *to_refill &= !(1 << number);
    }
    section.leave_quietly();
    if let Some(number) = refill {
        return Some(Left::Refill(number as usize));
    }
    let number = TO_TELL.load(Relaxed).checked_ilog2()?;
    locked_if_smp!(TO_TELL.fetch_and(!(1 << number), Relaxed));
    Some(Left::Tell(number as usize))
}

/// Whether there is more of them.
#[cfg(feature = "tasks")]
#[inline(always)]
fn is_any_left(scheduled: &mut Scheduled) -> bool {
    scheduled.cpu(CpuRef::this()).to_refill | TO_TELL.load(Relaxed) != 0 || !WALKS.is_empty()
}

/// Does some of it: of the first object of a list, and one walk or one word. Neither keeps the other waiting.
///
/// # Context
/// A timer's function.
pub(crate) fn run(act: impl FnOnce(Left)) {
    let turn = TURN.load(Relaxed);
    let left = LEFT.load(Relaxed).rotate_right(turn);
    if left != 0 {
        let number = (turn + left.trailing_zeros()) % u32::BITS;
        TURN.store(number + 1, Relaxed);
        do_some(number as usize & (NR_LOCKS - 1));
    }
    if let Some(left) = take() {
        act(left);
    }
    // Who leaves something from here on arms the timer.
    #[cfg(not(feature = "tasks"))]
    if LEFT.load(Relaxed) != 0 || !WALKS.is_empty() {
        arm(section::own());
    }
    #[cfg(feature = "tasks")]
    {
        let mut section = section::own();
        if LEFT.load(Relaxed) != 0 || is_any_left(&mut section) {
            arm_at_expiry(&mut section);
        }
        section.leave_quietly();
    }
}

/// Does some of what is left of the first object in the list of the lock of that number.
fn do_some(number: usize) {
    let mut first: *const Work = core::ptr::null();
    loop {
        let section = section::own().lock(|| lock::of_number(number));
        let place = LISTS[number].first.get();
        let work = listed(&section, place).filter(|_| first.is_null() || first == place);
        let Some(work) = work else {
            return section.leave_quietly();
        };
        first = place;
        // SAFETY: in the list's section the object is alive, and the function is its own.
        unsafe { (work.step)(work.object.get(), section) };
        if must_give_way() {
            return;
        }
    }
}
