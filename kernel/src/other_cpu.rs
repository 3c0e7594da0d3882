//! What one CPU has another do, where more than one runs.
//!
//! What a CPU schedules, which is its run queue, its timers and the states of its threads, it changes itself, with interrupts
//! off and without a lock; and a thread never leaves its CPU. So whoever wants something of another CPU leaves word and kicks it:
//! * *A wake-up.* The waker notes with the object how the wait has ended, and a bit for the thread ([`wake`]). In the kick's
//!   interrupt the other CPU looks whether that thread's wait is over. So a bit that comes late does no harm.
//! * *A walk along a chain of owners* that has come to a thread of that CPU goes on there ([`walk`]).
//! * *Anything else* is a function that the other CPU calls in the kick's interrupt, while the caller waits ([`call`]).
//!
//! # Invariants
//! Who waits for a call has interrupts off and no lock, and does meanwhile what others want of its own CPU. So two
//! that call each other do not wait for ever.

use core::cell::UnsafeCell;
use core::sync::atomic::{
    AtomicU8, AtomicU32,
    Ordering::{Acquire, Relaxed, Release},
};

use takt_scheduler::ThreadId;

use crate::arch::percpu::CpuRef;
use crate::config::{MAX_CPUS, MAX_THREADS, cpu_index};
use crate::cpus::{self, is_smp};
use crate::section;
use crate::thread::tcb::TcbRef;
use crate::thread_set::ThreadSet;

/// What others want of a CPU.
#[repr(align(64))]
struct Inbox {
    /// Of these threads the waits may be over.
    woken: ThreadSet,
    /// At these threads walks are to go on.
    walks: ThreadSet,
}

/// Behind how many others walks that are to go on have come to each thread: so one that goes around, between CPUs or in one
/// interrupt after the other, comes to an end. Two walks at once are one from there on, which ends as the one that has come less far.
/// The complement, so that 0 is where no walk is to go on, or one that begins.
static NR_VISITED: [AtomicU8; MAX_THREADS] = [const { AtomicU8::new(0) }; MAX_THREADS];

static INBOXES: [Inbox; MAX_CPUS] = [const {
    Inbox {
        woken: ThreadSet::new(),
        walks: ThreadSet::new(),
    }
}; MAX_CPUS];

/// A function, and what it is told.
type Function = (unsafe fn(*mut ()), *mut ());

/// What a CPU that waits has another call.
#[repr(align(64))]
struct Call {
    /// The other CPU's number and 1; 0 once it is done.
    wanted_of: AtomicU32,
    function: UnsafeCell<Function>,
}

// SAFETY: the function is written by the CPU whose place it is while no one is told of it, and used by the one that is.
unsafe impl Sync for Call {}

static CALLS: [Call; MAX_CPUS] = [const {
    Call {
        wanted_of: AtomicU32::new(0),
        function: UnsafeCell::new((run::<fn()>, core::ptr::null_mut())),
    }
}; MAX_CPUS];

impl TcbRef {
    /// Whether another CPU schedules the thread.
    #[inline(always)]
    pub(crate) fn is_elsewhere(self) -> bool {
        is_smp!() && self.cpu() != CpuRef::this()
    }
}

/// Has the thread's CPU look whether its wait is over: behind what another section with a lock has noted, so that this one's lock is
/// free by then. The block may be another thread's meanwhile, which does no harm; so what it says is read once.
#[cold]
#[inline(never)]
pub(crate) fn wake(thread: TcbRef) {
    let cpu = thread.cpu();
    if inbox_of(cpu).woken.insert(thread.tid()) {
        cpus::kick(cpu);
    }
}

/// Has the thread's CPU go on with a walk along a chain of owners, which has come there behind so many others.
#[cold]
#[inline(never)]
pub(crate) fn walk(thread: TcbRef, nr_visited: u8) {
    note_walk(thread.tid(), nr_visited);
    // Read once: the block may become another CPU's thread's.
    let cpu = thread.cpu();
    if inbox_of(cpu).walks.insert(thread.tid()) {
        cpus::kick(cpu);
    }
}

/// A walk begins there once the thread is woken ([`wake`]), which follows: one kick is enough.
#[cfg(feature = "tasks")]
pub(crate) fn walk_when_woken(thread: TcbRef) {
    inbox_of(thread.cpu()).walks.insert(thread.tid());
}

/// Calls `act` on a CPU: here at once, and on another in an interrupt, for which this waits.
///
/// # Context
/// Threads and interrupt handlers; not inside a section with a lock.
#[inline(always)]
pub(crate) fn call<R>(cpu: impl FnOnce() -> CpuRef, act: impl FnOnce() -> R) -> R {
    if is_smp!() {
        core::hint::cold_path();
        let cpu = cpu();
        // The last CPU does it itself: the other one has halted.
        if cpu != CpuRef::this() && !cpus::is_over() {
            return call_there(cpu, act);
        }
    }
    act()
}

#[cold]
fn call_there<R>(cpu: CpuRef, act: impl FnOnce() -> R) -> R {
    let (mut act, mut result) = (Some(act), None);
    let mut function = || result = act.take().map(|act| act());
    let section = section::own();
    let this = CpuRef::this();
    let place = &CALLS[cpu_index(this.number() as usize)];
    // SAFETY: this CPU's place, of which no one is told: a CPU waits for one call at a time.
    unsafe { *place.function.get() = erased(&mut function) };
    place.wanted_of.store(cpu.number() + 1, Release);
    cpus::kick(cpu);
    while place.wanted_of.load(Acquire) != 0 {
        serve_while_waiting(this);
    }
    section.leave();
    match result {
        Some(result) => result,
        None => unreachable!("the other CPU has called it"),
    }
}

/// A closure as a function and what it is told.
fn erased<F: FnMut()>(function: &mut F) -> Function {
    (run::<F>, core::ptr::from_mut(function).cast())
}

/// # Safety
/// It is told where such a closure is, which nobody else uses meanwhile.
unsafe fn run<F: FnMut()>(function: *mut ()) {
    // SAFETY: the caller's duty.
    let function = unsafe { &mut *function.cast::<F>() };
    function();
}

/// A round of a wait with interrupts off: does what other CPUs want of this one meanwhile.
#[cold]
#[inline(never)]
pub(crate) fn serve_while_waiting(this: CpuRef) {
    // The other CPU may do so already.
    cpus::stand_still_while_waiting();
    serve(this);
    core::hint::spin_loop();
}

/// Calls what other CPUs want called on this one.
///
/// # Context
/// The kick's interrupt, or who waits with interrupts off; with nothing that a section lends in use.
pub(crate) fn serve(this: CpuRef) {
    for place in &CALLS {
        if place.wanted_of.load(Acquire) == this.number() + 1 {
            // SAFETY: this CPU was told of it, and its owner waits.
            let (function, told) = unsafe { *place.function.get() };
            // SAFETY: the closure is there until the owner goes on, and it is called by this CPU.
            unsafe { function(told) };
            place.wanted_of.store(0, Release);
        }
    }
}

/// Calls `act` for each thread of this CPU whose wait another has ended, or may have.
pub(crate) fn for_each_woken(this: CpuRef, mut act: impl FnMut(TcbRef)) {
    inbox_of(this).woken.take_all(|tid| act(TcbRef::of(tid)));
}

/// Calls `act` for each thread at which a walk is to go on here, with behind how many others it has come.
pub(crate) fn for_each_walk(this: CpuRef, mut act: impl FnMut(ThreadId, u8)) {
    inbox_of(this)
        .walks
        .take_all(|tid| act(tid, take_nr_visited(tid)));
}

/// Behind how many others a walk that goes on now has come to a thread.
pub(crate) fn take_nr_visited(tid: ThreadId) -> u8 {
    let place = nr_visited_of(tid);
    let noted = place.load(Relaxed);
    place.store(0, Relaxed);
    if noted == 0 { 0 } else { !noted }
}

/// A walk is to go on at a thread, behind so many others.
pub(crate) fn note_walk(tid: ThreadId, nr_visited: u8) {
    let place = nr_visited_of(tid);
    if !nr_visited > place.load(Relaxed) {
        place.store(!nr_visited, Relaxed);
    }
}

/// See [`NR_VISITED`].
fn nr_visited_of(tid: ThreadId) -> &'static AtomicU8 {
    &NR_VISITED[tid.index() % MAX_THREADS]
}

fn inbox_of(cpu: CpuRef) -> &'static Inbox {
    &INBOXES[cpu_index(cpu.number() as usize)]
}
