//! Threads: create, start, exit, join, suspend, resume, priorities.
//!
//! ```text
//!            create          start             switch
//!   (free) ─────────> created ─────> ready <──────────> running ──> exited ──join──> (free)
//!                                      ^                   │
//!                                      └──── waiting <─────┘        suspend/resume: orthogonal to waiting
//! ```

pub(crate) mod tcb;

mod create;
mod exit;
mod stack;
mod table;

use takt_scheduler::{Priority, ThreadId};

use crate::arch::percpu;
use crate::config::RR_QUANTUM_NS;
use crate::error::Error;
use crate::handoff::{self, Handoff};
use crate::lock::{self, Section};
use crate::sched;
use crate::sync::pi;
use crate::time::{self, Instant};
use crate::wait;

pub use create::Builder;
pub(crate) use create::adopt_idle;
pub use exit::exit;
pub use stack::{Registration, Stack, for_each_stack};
pub(crate) use table::name_by_guard;
pub use table::{Info, Times, for_each};

use create::give_id_back;
use table::times_of;
use tcb::{CREATED, EXITED, SUSPENDED, Tcb, WAITING, Wait, Woken, tcb};

/// How a thread shares the CPU with others of its priority.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Policy {
    /// Runs until it waits or yields (`SCHED_FIFO`).
    Fifo,
    /// Gives way after this many nanoseconds (`SCHED_RR`); 0 stands for [`RR_QUANTUM_NS`].
    RoundRobin(u64),
}

/// A thread. The handle outlives the thread; calls then fail with [`Error::NoSuchThread`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Thread {
    /// As in its control block.
    handle: u32,
}

/// First Rust code of a thread.
pub(crate) extern "C" fn thread_main(entry: *const (), argument: usize) -> ! {
    // SAFETY: `create` put a `fn(usize)` there.
    let entry = unsafe { core::mem::transmute::<*const (), fn(usize)>(entry) };
    crate::trace::section_ends();
    // SAFETY: a new thread begins with interrupts off and holds nothing.
    unsafe { crate::arch::interrupts::enable() };
    entry(argument);
    exit(0)
}

/// The calling thread.
#[must_use]
pub fn current() -> Thread {
    // SAFETY: the running thread's own block.
    let t = unsafe { &*percpu::current() };
    Thread { handle: t.handle }
}

/// Waits until someone calls [`Thread::unpark`] for the calling thread; returns at once if that happened since the
/// last time.
///
/// # Errors
/// [`Error::WrongContext`] in an interrupt handler or with preemption disabled; [`Error::TimedOut`].
#[inline]
pub fn park(deadline: Instant) -> Result<(), Error> {
    if !sched::may_block() {
        return Err(Error::WrongContext);
    }
    if deadline != Instant::NEVER {
        return park_until(deadline);
    }
    let mut section = lock::enter_thread();
    // SAFETY: the running thread's own block, inside a section.
    let t = unsafe { &mut *percpu::current() };
    if !t.token {
        wait::block(&mut section, Wait::Park, core::ptr::null_mut());
    }
    t.token = false;
    section.leave_quietly();
    Ok(())
}

/// [`park`] in steps.
#[inline(never)]
fn park_until(deadline: Instant) -> Result<(), Error> {
    let section = lock::enter_thread();
    let nothing = core::ptr::null_mut();
    let woken = wait::wait_until(section, Wait::Park, nothing, deadline.cycles());
    let section = lock::enter_thread();
    // SAFETY: the running thread's own block, inside a section.
    let t = unsafe { &mut *percpu::current() };
    // A notification that came after the time-out, before this thread ran, counts.
    let is_notified = core::mem::replace(&mut t.token, false) || woken == Woken::Object;
    section.leave_quietly();
    if is_notified {
        Ok(())
    } else {
        Err(Error::TimedOut)
    }
}

impl Thread {
    /// Its number, as traces show it.
    #[must_use]
    pub fn id(&self) -> u8 {
        self.handle as u8
    }

    /// The handle as a number, which is never 0.
    #[cfg(feature = "latency-tracers")]
    pub(crate) fn handle(self) -> u32 {
        self.handle
    }

    /// The thread of that number; one that does not exist if there is none.
    #[cfg(feature = "latency-tracers")]
    pub(crate) fn of_handle(handle: u32) -> Self {
        Self { handle }
    }

    #[inline(always)]
    fn tid(&self) -> ThreadId {
        ThreadId::new(self.id())
    }

    /// Gives it a quantum; before it is started.
    fn make_round_robin(self, ns: u64) {
        let section = lock::enter();
        if let Ok(t) = self.block(&section) {
            t.round_robin = 1;
            t.quantum = time::nanos_to_cycles(if ns == 0 { RR_QUANTUM_NS } else { ns });
            // SAFETY: inside a section.
            unsafe { sched::of_cpu(t.percpu) }.nr_round_robin += 1;
        }
        section.leave_quietly();
    }

    /// Its control block, if it still exists.
    #[inline(always)]
    fn block<'a>(&self, _section: &Section) -> Result<&'a mut Tcb, Error> {
        // SAFETY: inside a section.
        let t = unsafe { &mut *tcb(self.tid()) };
        if t.handle != self.handle {
            return Err(Error::NoSuchThread);
        }
        Ok(t)
    }

    /// Lets a created thread run.
    ///
    /// # Errors
    /// [`Error::InvalidState`] if it was started before; [`Error::NoSuchThread`].
    ///
    /// # Context
    /// Threads and interrupt handlers.
    #[inline(always)]
    pub fn start(&self) -> Result<(), Error> {
        self.begin_start().finish()
    }

    #[inline(never)]
    fn begin_start(self) -> Handoff {
        self.release(CREATED)
    }

    /// Suspends it until [`Thread::resume`]; waits that are under way go on meanwhile.
    ///
    /// # Errors
    /// [`Error::NoSuchThread`], [`Error::InvalidState`] if it has ended or is an idle thread, [`Error::WrongContext`] if
    /// it is the calling thread with preemption or interrupts disabled.
    ///
    /// # Context
    /// Threads and interrupt handlers.
    #[inline(always)]
    pub fn suspend(&self) -> Result<(), Error> {
        self.begin_suspend().finish()
    }

    #[inline(never)]
    fn begin_suspend(self) -> Handoff {
        let mut section = lock::enter();
        let t = match self.block(&section) {
            Ok(t) => t,
            Err(error) => return Handoff::stay(section, Err(error)),
        };
        if !core::ptr::eq(percpu::current(), t) {
            return Self::end_with_other_suspended(section, t);
        }
        if !sched::may_block_as(t) {
            return Handoff::stay(section, Err(Error::WrongContext));
        }
        let cpu = t.percpu;
        let next = sched::suspend_current(&mut section, t);
        handoff::end_with_switch_to(section, cpu, t, tcb(next))
    }

    #[inline(never)]
    fn end_with_other_suspended(mut section: Section, t: &mut Tcb) -> Handoff {
        if t.state & EXITED != 0 || t.is_idle() {
            return Handoff::stay(section, Err(Error::InvalidState));
        }
        sched::suspend_other(&mut section, t);
        Handoff::stay(section, Ok(()))
    }

    /// Takes away one reason for which the thread does not run.
    #[inline(always)]
    fn release(self, reason: u8) -> Handoff {
        let section = lock::enter();
        let t = match self.block(&section) {
            Ok(t) => t,
            Err(error) => return Handoff::stay(section, Err(error)),
        };
        if t.state & reason == 0 {
            return Handoff::stay(section, Err(Error::InvalidState));
        }
        t.state &= !reason;
        if t.state != 0 {
            return Handoff::stay(section, Ok(()));
        }
        handoff::end_with_wakeup(section, t)
    }

    /// Lets a suspended thread go on.
    ///
    /// # Errors
    /// [`Error::NoSuchThread`], [`Error::InvalidState`] if it is not suspended.
    ///
    /// # Context
    /// Threads and interrupt handlers.
    #[inline(always)]
    pub fn resume(&self) -> Result<(), Error> {
        self.begin_resume().finish()
    }

    #[inline(never)]
    fn begin_resume(self) -> Handoff {
        self.release(SUSPENDED)
    }

    /// Wakes it from [`park`], or lets its next [`park`] return at once.
    ///
    /// # Errors
    /// [`Error::NoSuchThread`].
    ///
    /// # Context
    /// Threads and interrupt handlers.
    #[inline(always)]
    pub fn unpark(&self) -> Result<(), Error> {
        let mut section = lock::enter();
        let result = self.unpark_in(&mut section);
        section.leave();
        result
    }

    #[inline(always)]
    pub(crate) fn unpark_in(&self, section: &mut Section) -> Result<(), Error> {
        let t = self.block(section)?;
        if t.state & WAITING != 0 && t.wait == Wait::Park {
            sched::wake(section, t, Woken::Object);
        } else {
            t.token = true;
        }
        Ok(())
    }

    /// Waits for its end and gives its exit code; the handle is void afterwards.
    ///
    /// # Errors
    /// [`Error::TimedOut`], [`Error::NoSuchThread`], [`Error::Deadlock`] for the calling thread itself,
    /// [`Error::InvalidState`] if another thread waits for it already, [`Error::WrongContext`].
    #[inline(never)]
    pub fn join(&self, deadline: Instant) -> Result<usize, Error> {
        if !sched::may_block() {
            return Err(Error::WrongContext);
        }
        let mut section = lock::enter_thread();
        let is_announced = self.begin_join(&mut section);
        section.leave_quietly();
        let mut woken = Woken::Object;
        if is_announced? {
            woken = wait::finish(deadline.cycles());
        }
        let mut section = lock::enter_thread();
        // Its stack and its block are free when this returns.
        while self
            .block(&section)
            .is_ok_and(|t| exit::is_leaving(&section, t))
        {
            section.leave_quietly();
            core::hint::spin_loop();
            section = lock::enter_thread();
        }
        let result = self.end_join(&mut section, woken);
        section.leave_quietly();
        result
    }

    /// Announces the wait for its end, unless it has ended already.
    fn begin_join(&self, section: &mut Section) -> Result<bool, Error> {
        let t = self.block(section)?;
        if core::ptr::eq(percpu::current(), t) {
            return Err(Error::Deadlock);
        }
        if t.state & EXITED != 0 {
            return Ok(false);
        }
        if t.joiner.is_some() {
            return Err(Error::InvalidState);
        }
        t.joiner = Some(current().tid());
        wait::announce(section, Wait::Join, core::ptr::null_mut());
        Ok(true)
    }

    fn end_join(&self, section: &mut Section, woken: Woken) -> Result<usize, Error> {
        // Meanwhile another thread may have joined it first, and its block be someone else's.
        let t = self.block(section)?;
        if woken == Woken::TimedOut {
            if t.joiner == Some(current().tid()) {
                t.joiner = None;
            }
            return Err(Error::TimedOut);
        }
        // SAFETY: inside a section.
        unsafe { sched::of_cpu(t.percpu) }.nr_round_robin -= u32::from(t.round_robin);
        t.clear();
        t.next_use();
        give_id_back(section, self.tid());
        Ok(t.exit_code)
    }

    /// Changes its own priority; what it inherits through mutexes it holds is kept.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] if the priority is above 99; [`Error::NoSuchThread`]; [`Error::InvalidState`] for an
    /// idle thread; [`Error::ChainTooLong`] if it waits for a mutex at the end of a longer chain than
    /// [`MAX_PI_CHAIN`](crate::config::MAX_PI_CHAIN): the priority is changed, but does not travel beyond.
    ///
    /// # Context
    /// Threads and interrupt handlers. Where interrupts are off, what is left to a later interrupt gives no error.
    pub fn set_priority(&self, priority: u8) -> Result<(), Error> {
        let priority = Priority::new(priority).ok_or(Error::InvalidArgument)?;
        let section = lock::enter();
        let changed = self.block(&section).and_then(|t| {
            if t.is_idle() {
                return Err(Error::InvalidState);
            }
            t.base = priority;
            Ok(())
        });
        section.leave_quietly();
        changed?;
        pi::walk(self.tid())
    }

    /// Its effective priority.
    ///
    /// # Errors
    /// [`Error::NoSuchThread`].
    pub fn priority(&self) -> Result<u8, Error> {
        self.read(|t| t.prio.raw())
    }

    /// Its name.
    ///
    /// # Errors
    /// [`Error::NoSuchThread`].
    pub fn name(&self) -> Result<&'static str, Error> {
        self.read(|t| t.name_or_none())
    }

    /// How long it has run, in cycles, and how often it was switched to.
    ///
    /// # Errors
    /// [`Error::NoSuchThread`].
    pub fn times(&self) -> Result<Times, Error> {
        self.read(|t| {
            // SAFETY: inside a section.
            unsafe { times_of(t) }
        })
    }

    fn read<R>(&self, get: impl FnOnce(&Tcb) -> R) -> Result<R, Error> {
        let section = lock::enter();
        let result = self.block(&section).map(|t| get(t));
        section.leave_quietly();
        result
    }
}
