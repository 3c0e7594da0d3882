//! Threads of tasks that timerlat measures: what Linux's file `osnoise/per_cpu/cpuN/timerlat_fd` is for.
//!
//! A tracer or a workload offers it while it runs ([`offer`], [`withdraw`]). A task's thread becomes the owner of its CPU's;
//! each of its waits first tells when it has come back from user space, and then waits for the next activation. Whoever owns it
//! when it is withdrawn is stopped, wherever it is.
//!
//! Source: Linux, `Documentation/trace/timerlat-tracer.rst`, "User-space interface".

use core::sync::atomic::{
    AtomicBool, AtomicPtr, AtomicU32,
    Ordering::{Acquire, Relaxed, Release},
};

use spin::Once;
use takt_abi::{Error, FaultKind};
use takt_scheduler::ThreadId;

use super::frame::Frame;
use super::object::Task;
use crate::arch::percpu;
use crate::budget;
use crate::clock::Instant;
use crate::config::{MAX_CPUS, cpu_index};
use crate::error;
use crate::other_cpu;
use crate::preempt;
use crate::section;
use crate::soft_timer::{Expiry, Timer};
use crate::switch::Handoff;
use crate::thread::tcb::TcbRef;
use crate::thread::{self, Thread};

/// Who measures. Each function is told the CPU; all but `expired` run in the thread that is measured, in the kernel. What stops a task ends
/// a sleep there as one of the task's: they do not wait.
pub struct Source {
    /// It becomes the one that is measured.
    ///
    /// # Errors
    /// Why it does not.
    pub opened: fn(usize) -> Result<(), Error>,
    /// In the timer's interrupt, as [`Timer::waking`] has it.
    pub expired: fn(usize, Expiry),
    /// It has come back from user space at that time, if it has been there since it was woken; the second is when it says itself
    /// that it ran. Gives the time of the next activation, or none if there is to be no more: then it is stopped.
    pub next: fn(usize, Option<Instant>, Instant) -> Option<Instant>,
    /// It was woken for the activation at the first time, and runs at the second. Without it, it goes on in user space at once.
    pub woken: Option<fn(usize, Instant, Instant)>,
    /// It is not measured any more.
    pub closed: fn(usize),
}

/// Of a CPU.
struct Place {
    /// The handle of the thread that owns it, or 0.
    owner: AtomicU32,
    /// In which session it was opened.
    session: AtomicU32,
    /// Whether the owner was woken for an activation and has not come back.
    is_away: AtomicBool,
    timer: Once<Timer>,
}

static PLACES: [Place; MAX_CPUS] = [const {
    Place {
        owner: AtomicU32::new(0),
        session: AtomicU32::new(0),
        is_away: AtomicBool::new(false),
        timer: Once::new(),
    }
}; MAX_CPUS];

static SOURCE: AtomicPtr<Source> = AtomicPtr::new(core::ptr::null_mut());
/// Counts the times that it was withdrawn.
static SESSION: AtomicU32 = AtomicU32::new(0);

/// Has threads of tasks measured by this one from now on.
///
/// # Errors
/// [`InvalidState`](error::Error::InvalidState) if another one measures them.
///
/// # Context
/// Threads, one at a time.
pub fn offer(source: &'static Source) -> Result<(), error::Error> {
    let ours = core::ptr::from_ref(source).cast_mut();
    match SOURCE.compare_exchange(core::ptr::null_mut(), ours, Release, Relaxed) {
        Ok(_) => Ok(()),
        Err(_) => Err(error::Error::InvalidState),
    }
}

/// This one measures no thread any more, if it did. Those that were measured are stopped, which may be later than this
/// returns.
///
/// # Context
/// Threads, one at a time.
pub fn withdraw(source: &'static Source) {
    let ours = core::ptr::from_ref(source).cast_mut();
    if SOURCE
        .compare_exchange(ours, core::ptr::null_mut(), Release, Relaxed)
        .is_err()
    {
        return;
    }
    SESSION.fetch_add(1, Release);
    for place in &PLACES {
        // There may be none, or it has ended. One that is about to wait does not.
        let _ = Thread::of_handle(place.owner.load(Relaxed)).unpark();
        stop_owner(place);
    }
}

/// Whoever owns it is stopped by a fault in ring 3, and waits no longer until then.
#[cold]
#[inline(never)]
fn stop_owner(place: &'static Place) {
    let owner = place.owner.load(Relaxed);
    if owner == 0 {
        return;
    }
    let thread = TcbRef::of(ThreadId::new(owner as u8));
    other_cpu::call(
        || thread.cpu(),
        || {
            let mut section = section::own();
            // It gives that up when it ends.
            let is_owner = place.owner.load(Relaxed) == owner;
            if let Some(task) = budget::task_of(section.look_at(thread)).filter(|_| is_owner) {
                task.stop_at_next(thread, FaultKind::Killed);
                task.have_stop(&mut section);
            }
            section.leave();
        },
    );
}

/// Who measures, if anybody does.
fn source() -> Option<&'static Source> {
    // SAFETY: null, or what was offered, which is static.
    unsafe { SOURCE.load(Acquire).as_ref() }
}

/// The place of the running thread's CPU, to which it belongs for its life.
fn own() -> (usize, &'static Place) {
    let cpu = percpu::cpu();
    (cpu, &PLACES[cpu_index(cpu)])
}

impl Place {
    fn is_owned_by_me(&self) -> bool {
        self.owner.load(Relaxed) == thread::current().handle()
    }

    /// Whether it was withdrawn since it was opened.
    fn is_over(&self) -> bool {
        self.session.load(Relaxed) != SESSION.load(Acquire)
    }
}

/// [`Call::TimerlatOpen`](takt_abi::Call::TimerlatOpen).
pub(super) fn open(asked: u64) -> Result<(), Error> {
    let (cpu, place) = own();
    // Before the source: if that is withdrawn meanwhile, the session is over.
    let session = SESSION.load(Acquire);
    let source = source().ok_or(Error::InvalidArgument)?;
    let me = thread::current();
    if asked != cpu as u64 {
        return Err(Error::NotPermitted);
    }
    // Nobody finds an owner with another one's session.
    let alone = preempt::disable();
    let taken = place
        .owner
        .compare_exchange(0, me.handle(), Acquire, Relaxed);
    if taken.is_ok() {
        place.session.store(session, Relaxed);
        place.is_away.store(false, Relaxed);
    }
    drop(alone);
    if taken.is_err() {
        // It was on its way to wait for something else when it was to be stopped.
        if place.is_over() && !place.is_owned_by_me() {
            stop_owner(place);
        }
        return Err(Error::Busy);
    }
    // Whoever withdraws it looks for owners behind that, and has found none.
    if place.is_over() {
        place.owner.store(0, Release);
        return Err(Error::InvalidArgument);
    }
    prepare(source, cpu, place).inspect_err(|_| place.owner.store(0, Release))
}

fn prepare(source: &Source, cpu: usize, place: &Place) -> Result<(), Error> {
    let me = thread::current();
    let timer = place
        .timer
        .try_call_once(|| Timer::waking(me, source.expired, cpu))
        .map_err(|_| Error::OutOfResources)?;
    timer.pass_to(me, source.expired);
    (source.opened)(cpu)
}

/// [`Call::TimerlatWait`](takt_abi::Call::TimerlatWait): into the frame goes when the activation was due, in TSC cycles. Gives the
/// switch that there is to be; none if the task is to be stopped.
#[inline(always)]
pub(super) fn wait(task: &Task, ran_at: Instant, frame: &Frame) -> Result<Option<Handoff>, Error> {
    let (cpu, place) = own();
    if !place.is_owned_by_me() {
        return Err(Error::NoHandle);
    }
    let (Some(source), Some(timer)) = (source(), place.timer.get()) else {
        return Ok(None);
    };
    let is_back = place.is_away.swap(true, Relaxed);
    let back = is_back.then(Instant::now);
    if place.is_over() {
        return Ok(None);
    }
    let Some(due) = (source.next)(cpu, back, ran_at) else {
        return Ok(None);
    };
    frame.give(Ok(due.cycles()));
    timer.arm(due);
    let Some(woken) = source.woken else {
        return Ok(Some(thread::begin_park()));
    };
    let now = loop {
        // Without an end: it cannot time out.
        let _ = thread::park(Instant::NEVER);
        let now = Instant::now();
        if place.is_over() {
            timer.cancel();
            return Ok(None);
        }
        if task.pending.is_some() {
            timer.cancel();
            return Ok(Some(Handoff::done(Ok(()))));
        }
        // Whoever wakes it earlier means nothing by it.
        if now >= due {
            break now;
        }
    };
    woken(cpu, due, now);
    Ok(Some(Handoff::done(Ok(()))))
}

/// [`Call::TimerlatClose`](takt_abi::Call::TimerlatClose).
pub(super) fn close() -> Result<(), Error> {
    if !own().1.is_owned_by_me() {
        return Err(Error::NoHandle);
    }
    release();
    Ok(())
}

/// The running thread ends, or wants to be measured no more.
pub(super) fn release() {
    let (cpu, place) = own();
    if !place.is_owned_by_me() {
        return;
    }
    if let Some(source) = source().filter(|_| !place.is_over()) {
        (source.closed)(cpu);
    }
    // One that was stopped in its wait leaves an activation and a notification behind, which are not its next life's.
    if let Some(timer) = place.timer.get() {
        timer.cancel();
    }
    TcbRef::current().forget_token();
    place.owner.store(0, Release);
}
