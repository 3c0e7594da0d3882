//! Parking: a thread waits until it is notified.
//!
//! A thread has one notification, which is kept while it does not wait for it (`Tcb::token`). It is the quickest way to wake a thread
//! from an interrupt handler: there is no object, and no queue.

use core::sync::atomic::Ordering::Relaxed;

use takt_scheduler::ThreadId;

use super::handle::Thread;
use super::tcb::{TcbRef, WAITING, Wait, Woken};
use crate::clock::Instant;
use crate::error::Error;
use crate::other_cpu;
use crate::sched;
use crate::section::{self, Scheduled};
use crate::switch::Handoff;
use crate::wait;

/// Waits until someone calls [`Thread::unpark`] for the calling thread; returns at once if that happened since the
/// last time.
///
/// # Errors
/// [`Error::WrongContext`] in an interrupt handler or with preemption disabled; [`Error::TimedOut`].
#[inline]
pub fn park(deadline: Instant) -> Result<(), Error> {
    if deadline != Instant::NEVER {
        return park_until(deadline);
    }
    begin_park().finish()?;
    // A further one that came before this thread ran is what this returns for, too.
    TcbRef::current().forget_token();
    Ok(())
}

/// The first half of [`park`] without an end.
#[inline(never)]
pub(crate) fn begin_park() -> Handoff {
    if !sched::may_block() {
        return Handoff::wrong_context();
    }
    let mut section = section::own_thread();
    let me = section.thread(TcbRef::current());
    if me.token.load(Relaxed) {
        me.forget_token();
        return Handoff::stay(section, Ok(()));
    }
    wait::block_alone(section, Wait::Park)
}

/// [`park`] in steps.
#[inline(never)]
fn park_until(deadline: Instant) -> Result<(), Error> {
    if !sched::may_block() {
        return Err(Error::WrongContext);
    }
    let woken = wait::wait_alone_until(section::own_thread(), Wait::Park, deadline);
    let mut section = section::own_thread();
    let me = section.thread(TcbRef::current());
    // A notification that came after the time-out, before this thread ran, counts.
    let is_notified = me.token.load(Relaxed) || woken == Woken::Object;
    me.forget_token();
    section.leave_quietly();
    if is_notified {
        Ok(())
    } else {
        Err(Error::TimedOut)
    }
}

/// [`Thread::unpark`] of the thread with this handle, inside a section. A thread of this CPU that waits does not end meanwhile.
#[inline(always)]
pub(crate) fn unpark(scheduled: &mut Scheduled, handle: u32) -> Result<(), Error> {
    let thread = TcbRef::of(ThreadId::new(handle as u8));
    if thread.handle() != handle {
        return Err(Error::NoSuchThread);
    }
    if scheduled.look_at(thread).is_parked() && !thread.is_elsewhere() {
        sched::wake_waiting(scheduled, thread, Woken::Object);
        return Ok(());
    }
    notify(scheduled, thread, handle)
}

/// A notification for a thread that is not just parked, or is another CPU's.
#[cold]
#[inline(never)]
fn notify(scheduled: &mut Scheduled, thread: TcbRef, handle: u32) -> Result<(), Error> {
    if thread.is_elsewhere() {
        return notify_elsewhere(scheduled, thread, handle);
    }
    scheduled.with_chains(|kernel| {
        let t = kernel.thread(thread);
        if t.handle != handle {
            return Err(Error::NoSuchThread);
        }
        if t.state & WAITING != 0 && t.wait == Wait::Park {
            // Suspended as well.
            sched::wake(kernel, thread, Woken::Object);
        } else {
            t.token.store(true, Relaxed);
        }
        Ok(())
    })
}

/// The same for another CPU's, which is told behind the lock.
#[cold]
#[inline(never)]
fn notify_elsewhere(scheduled: &mut Scheduled, thread: TcbRef, handle: u32) -> Result<(), Error> {
    scheduled.with_chains(|kernel| {
        let t = kernel.thread(thread);
        if t.handle != handle {
            return Err(Error::NoSuchThread);
        }
        t.token.store(true, Relaxed);
        Ok(())
    })?;
    other_cpu::wake(thread);
    Ok(())
}

impl Thread {
    /// Wakes it from [`park`], or lets its next [`park`] return at once.
    ///
    /// # Errors
    /// [`Error::NoSuchThread`].
    ///
    /// # Context
    /// Threads and interrupt handlers.
    #[inline(always)]
    pub fn unpark(&self) -> Result<(), Error> {
        let mut section = section::own();
        let result = unpark(&mut section, self.handle());
        section.leave();
        result
    }
}
