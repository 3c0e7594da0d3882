//! Semaphores that the manifest has tasks share: the kernel's own, by handles.
//!
//! A wait for one goes in steps and has a time-out at all times. What stops a task has that come at once: so whoever dies in a wait leaves
//! the queue by the way of all time-outs. A permit that a task had taken is lost with it: the count is nobody's memory, and outlasts
//! lives as a region does.

use core::sync::atomic::Ordering::Relaxed;

use spin::Once;
use takt_abi::{Error, rights};

use super::ipc::deadline;
use super::object::Task;
use crate::clock::Instant;
use crate::preempt;
use crate::section::Scheduled;
use crate::sync::Semaphore;
use crate::thread::tcb::{TcbRef, Woken};
use crate::timers;
use crate::wait;

/// All of them.
static ALL: Once<&'static [Semaphore]> = Once::new();

/// Has tasks share these semaphores, as many as their manifest has. Once, before a task starts.
///
/// # Context
/// Any but NMI.
pub fn share(semaphores: &'static [Semaphore]) {
    // Nobody comes in between who would wait for the end of this.
    let alone = preempt::irq_save();
    ALL.call_once(|| semaphores);
    drop(alone);
}

impl Task {
    /// The semaphore that a handle names, if the handle allows this.
    fn semaphore(&self, handle: u64, right: u8) -> Result<&'static Semaphore, Error> {
        let number = usize::try_from(handle).unwrap_or(usize::MAX);
        let granted = self.program.semaphores.get(number);
        let granted = granted.ok_or(Error::NoHandle)?;
        match granted.rights & right {
            0 => Err(Error::NoRight),
            _ => {
                let all = ALL.get().copied().unwrap_or_default();
                all.get(usize::from(granted.number)).ok_or(Error::NoHandle)
            }
        }
    }

    /// [`Call::Take`](takt_abi::Call::Take), by the task's thread.
    #[inline(never)]
    pub(super) fn take(&self, handle: u64, nanos: u64) -> Result<(), Error> {
        let semaphore = self.semaphore(handle, rights::TAKE)?;
        if semaphore.try_take().is_ok() {
            return Ok(());
        }
        let deadline = deadline(nanos);
        if deadline <= Instant::now() {
            return Err(Error::TimedOut);
        }
        self.is_taking.store(true, Relaxed);
        // What was to stop it before has not seen that it is about to wait.
        let taken = match self.pending.is_some() {
            true => None,
            false => semaphore.take_as_announced(deadline).ok(),
        };
        self.is_taking.store(false, Relaxed);
        if self.pending.is_some() {
            // What stops it may have armed the time-out of a wait that has none.
            core::hint::cold_path();
            wait::disarm_timeout();
        }
        // A thread of a task may wait.
        taken.ok_or(Error::TimedOut)
    }

    /// [`Call::Give`](takt_abi::Call::Give).
    #[inline(never)]
    pub(super) fn give(&self, handle: u64) -> Result<(), Error> {
        let semaphore = self.semaphore(handle, rights::GIVE)?;
        semaphore.give().map_err(|_| Error::Overflow)
    }

    /// If its thread, which belongs to this CPU, waits for a semaphore and is to be stopped, its time has come. One that has yet to
    /// announce its wait is looked at again by whoever stops it.
    #[cold]
    #[inline(never)]
    pub(super) fn end_take(&self, scheduled: &mut Scheduled, thread: TcbRef, error: Error) {
        // A budget that was lent ends calls alone.
        let waits = self.is_taking.load(Relaxed) && error != Error::BudgetSpent;
        if waits && scheduled.look_at(thread).woken == Woken::Not {
            let id = wait::timeout_id(thread.tid());
            timers::cancel(scheduled, id);
            timers::insert(scheduled, id, Instant::now());
        }
    }
}
