//! [`Thread`], a thread's handle: starting, suspending, resuming, priorities.
//!
//! A handle is the thread's id and how often its control block was used before, so that the handle of a thread that was joined names
//! no later one. What changes another CPU's thread is done by that CPU (`other_cpu`).

use core::num::NonZeroU32;

use takt_scheduler::{Priority, ThreadId};

#[cfg(feature = "round-robin")]
use super::table::watch_quanta;
use super::table::{Times, times_of};
use super::tcb::{CREATED, EXITED, RELEASED, SUSPENDED, Tcb, TcbRef};
use crate::arch::percpu::CpuRef;
#[cfg(feature = "round-robin")]
use crate::clock::Nanos;
#[cfg(feature = "round-robin")]
use crate::config::{MIN_RR_QUANTUM, RR_QUANTUM};
use crate::cpus::is_smp;
use crate::error::Error;
use crate::other_cpu;
use crate::sched;
use crate::section::{self, Any, Kernel, Section};
use crate::switch::{self, Handoff};
use crate::sync::pi;

/// How a thread shares the CPU with others of its priority.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Policy {
    /// Runs until it waits or yields (`SCHED_FIFO`).
    Fifo,
    #[cfg(feature = "round-robin")]
    /// Gives way after so long (`SCHED_RR`), [`MIN_RR_QUANTUM`] at least; [`Nanos::ZERO`] stands for [`RR_QUANTUM`].
    RoundRobin(Nanos),
}

/// A thread. The handle outlives the thread; calls then fail with [`Error::NoSuchThread`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Thread {
    /// As in its control block. The next of a block follows by [`tcb::IN_USE`], so that it is never 0.
    pub(super) handle: NonZeroU32,
}

/// The calling thread.
#[must_use]
pub fn current() -> Thread {
    Thread::of_handle(TcbRef::current().handle())
}

#[inline(never)]
fn begin_suspend_myself() -> Handoff {
    let me = TcbRef::current();
    if !sched::may_block_as(me) {
        return Handoff::wrong_context();
    }
    let mut section = section::own_thread();
    let cpu = CpuRef::this();
    sched::unready(&mut section, cpu, me, SUSPENDED);
    switch::blocked(section, cpu, me)
}

impl Thread {
    /// Its number, as traces show it.
    #[must_use]
    pub fn id(&self) -> u8 {
        self.handle.get() as u8
    }

    /// The handle as a number, which is never 0.
    #[inline(always)]
    pub(crate) fn handle(self) -> u32 {
        self.handle.get()
    }

    /// The thread of that number; one that does not exist if there is none.
    #[inline(always)]
    pub(crate) fn of_handle(handle: u32) -> Self {
        Self {
            // No thread has that one: bit 31 is none of a handle's.
            handle: NonZeroU32::new(handle).unwrap_or(NonZeroU32::MAX),
        }
    }

    #[inline(always)]
    pub(super) fn tid(&self) -> ThreadId {
        ThreadId::new(self.id())
    }

    #[cfg(feature = "round-robin")]
    /// Gives it a quantum; before it is started.
    pub(super) fn make_round_robin(self, quantum: Nanos) {
        let mut section = section::enter();
        if let Ok(t) = self.block(&mut section) {
            t.round_robin = 1;
            t.quantum = match quantum {
                Nanos::ZERO => RR_QUANTUM,
                quantum => quantum.max(MIN_RR_QUANTUM),
            }
            .to_cycles();
        }
        section.leave_quietly();
        watch_quanta(self.place().cpu(), true);
    }

    /// Where its control block is.
    #[inline(always)]
    pub(super) fn place(self) -> TcbRef {
        TcbRef::of(self.tid())
    }

    /// Its control block, if it still exists.
    #[inline(always)]
    pub(super) fn block(self, kernel: &mut Kernel) -> Result<&mut Tcb, Error> {
        let thread = self.place();
        if thread.handle() == self.handle() {
            Ok(kernel.thread(thread))
        } else {
            Err(Error::NoSuchThread)
        }
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

    /// Does on its CPU what may make a switch due.
    #[inline(always)]
    fn there(self, act: impl FnOnce(Self) -> Handoff) -> Handoff {
        if let Some(cpu) = self.elsewhere() {
            core::hint::cold_path();
            return Handoff::done(other_cpu::call(|| cpu, || act(self).finish()));
        }
        act(self)
    }

    /// Its CPU, if that is another, while it exists.
    #[inline(always)]
    fn elsewhere(self) -> Option<CpuRef> {
        let thread = self.place();
        (is_smp!() && thread.handle_now() == self.handle() && thread.is_elsewhere())
            .then(|| thread.cpu())
    }

    /// Suspends it until [`Thread::resume`]; waits that are under way go on meanwhile.
    ///
    /// # Errors
    /// [`Error::NoSuchThread`], [`Error::InvalidState`] if it has ended or is an idle thread, [`Error::WrongContext`] if
    /// it is the calling thread with preemption or interrupts disabled.
    ///
    /// # Context
    /// Threads and interrupt handlers. Where the thread is another CPU's, this waits with interrupts off until that CPU has
    /// taken an interrupt: so not with a lock of the application's that is taken with interrupts off there.
    #[inline(always)]
    pub fn suspend(&self) -> Result<(), Error> {
        // The running thread's own handle does not change.
        if TcbRef::current().handle() != self.handle() {
            return self.suspend_other();
        }
        begin_suspend_myself().finish()
    }

    #[inline(never)]
    fn suspend_other(self) -> Result<(), Error> {
        if let Some(cpu) = self.elsewhere() {
            core::hint::cold_path();
            return other_cpu::call(|| cpu, || self.suspend_here());
        }
        self.suspend_here()
    }

    #[inline(always)]
    fn suspend_here(self) -> Result<(), Error> {
        let mut section = section::enter();
        let result = self.block(&mut section).and_then(|t| {
            if t.state & EXITED != 0 || t.is_idle() {
                return Err(Error::InvalidState);
            }
            Ok(())
        });
        if result.is_ok() {
            sched::suspend_other(&mut section, self.place());
        }
        section.leave_quietly();
        result
    }

    /// Takes away one reason for which the thread does not run, which is mostly the only one.
    #[inline(always)]
    fn release(self, reason: u8) -> Handoff {
        if is_smp!() {
            core::hint::cold_path();
            return self.release_among_others(reason);
        }
        self.release_here(reason)
    }

    #[inline(never)]
    fn release_among_others(self, reason: u8) -> Handoff {
        if self.elsewhere().is_some() && self.release_there(reason) {
            return Handoff::done(Ok(()));
        }
        self.there(|it| it.release_here(reason))
    }

    /// Has the thread's CPU make it ready, if this is the only reason.
    #[cold]
    #[inline(never)]
    fn release_there(self, reason: u8) -> bool {
        let mut section = section::enter();
        let thread = self.place();
        let is_only = thread.handle() == self.handle() && thread.state_now() == reason;
        if is_only {
            section.thread(thread).state = RELEASED;
        }
        let section = section.narrow();
        if is_only {
            other_cpu::wake(thread);
        }
        section.leave_quietly();
        is_only
    }

    #[inline(always)]
    fn release_here(self, reason: u8) -> Handoff {
        let thread = self.place();
        let mut section = section::enter();
        if thread.handle() != self.handle() || thread.state() != reason {
            return self.release_of_several(section, reason);
        }
        section.thread(thread).state = 0;
        switch::woken(section.narrow(), thread)
    }

    #[cold]
    #[inline(never)]
    fn release_of_several(self, mut section: Section<Any>, reason: u8) -> Handoff {
        let t = match self.block(&mut section) {
            Ok(t) => t,
            Err(error) => return Handoff::stay(section, Err(error)),
        };
        if t.state & reason == 0 {
            return Handoff::stay(section, Err(Error::InvalidState));
        }
        // Another one is left, or it would be the only one.
        t.state &= !reason;
        Handoff::stay(section, Ok(()))
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

    /// Changes its own priority; what it inherits through mutexes it holds is kept.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] if the priority is above 99; [`Error::NoSuchThread`]; [`Error::InvalidState`] for an
    /// idle thread; [`Error::ChainTooLong`] if it waits for a mutex at the end of a longer chain than
    /// [`MAX_PI_CHAIN`](crate::config::MAX_PI_CHAIN): the priority is changed, but does not travel beyond.
    ///
    /// # Context
    /// Threads and interrupt handlers. Where interrupts are off, what is left to a later interrupt gives no error; neither does
    /// what another CPU's threads of the chain inherit. Waits as [`suspend`](Self::suspend) does.
    pub fn set_priority(&self, priority: u8) -> Result<(), Error> {
        let priority = Priority::new(priority).ok_or(Error::InvalidArgument)?;
        if let Some(cpu) = self.elsewhere() {
            core::hint::cold_path();
            return other_cpu::call(|| cpu, || self.set_priority_here(priority));
        }
        self.set_priority_here(priority)
    }

    #[inline(always)]
    fn set_priority_here(self, priority: Priority) -> Result<(), Error> {
        let mut section = section::enter();
        let changed = self.block(&mut section).and_then(|t| {
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

    /// How long it has run, in cycles, and how often it was switched to: `None` while that is not counted
    /// ([`count_times`](super::count_times)).
    ///
    /// # Errors
    /// [`Error::NoSuchThread`].
    ///
    /// # Context
    /// Threads. Waits for the thread's CPU to take an interrupt.
    pub fn times(&self) -> Result<Option<Times>, Error> {
        self.read(|_| ())?;
        Ok(times_of(self.place()))
    }

    fn read<R>(self, get: impl FnOnce(&Tcb) -> R) -> Result<R, Error> {
        let mut section = section::enter();
        let result = self.block(&mut section).map(|t| get(t));
        section.leave_quietly();
        result
    }
}
