//! Faults that the kernel has in store for a task: its next instruction in ring 3 raises it, wherever the task is now.
//!
//! So a task is stopped where it can be, with nothing of the kernel's under way, by the way of all faults.

use core::sync::atomic::Ordering::Relaxed;

use takt_abi::{Error, FaultKind, WORDS};
use takt_scheduler::ThreadId;

use super::fault::Pending;
use super::frame::Frame;
use super::object::{GONE, Port, Task};
use crate::arch::{jump_label, percpu, switch};
use crate::deferred;
use crate::sched;
use crate::section::Scheduled;
use crate::thread::tcb::{TcbRef, Wait, Woken};
use crate::timers;
use crate::wait;

impl Task {
    /// The next instruction of the task's thread in ring 3, which belongs to this CPU, raises this fault, unless one is in store
    /// already. In a section, or in an interrupt's handler.
    pub(super) fn stop_at_next(&self, thread: TcbRef, kind: FaultKind) {
        if self.pending.is_some() {
            return;
        }
        let rip = if Self::is_in_ring_3(thread) {
            // SAFETY: a trap frame lies before the block, and nobody else uses it now.
            let trap = unsafe { &mut *thread.frame().cast_mut() };
            core::mem::replace(&mut trap.rip, Pending::PLACE)
        } else {
            // In a call, or in its end: then nobody looks at it.
            Frame::of(thread).rip.swap(Pending::PLACE, Relaxed)
        };
        self.have_in_store(kind, rip);
    }

    /// Whether this thread, which belongs to this CPU, was interrupted in ring 3. In an interrupt's handler, or in a section.
    pub(super) fn is_in_ring_3(thread: TcbRef) -> bool {
        // SAFETY: a trap frame lies before the block, and nobody changes it now.
        let cs = unsafe { (*thread.frame()).cs };
        // In a call of the running thread the trap frame is that of an interrupt which is over.
        let is_interrupted = match thread == TcbRef::current() {
            true => percpu::preempt_byte() & percpu::HARDIRQ != 0,
            false => switch::is_preempted(thread),
        };
        is_interrupted && cs & 3 != 0
    }

    /// Its thread, which goes on at [`Pending::PLACE`] and would have at `rip`, is to have this fault, unless one is in store already.
    pub(super) fn have_in_store(&self, kind: FaultKind, rip: u64) {
        if self.pending.is_some() {
            return;
        }
        self.pending.set(kind, rip);
        // The short way of a fault would not know what it is.
        jump_label::listens(true);
    }

    /// The fault that there was in store for it, if any.
    pub(super) fn take_pending(&self) -> Option<(FaultKind, u64)> {
        let pending = self.pending.take();
        if pending.is_some() {
            jump_label::listens(false);
        }
        pending
    }

    /// Its thread, which belongs to this CPU, waits no longer, if it waits for what tasks wait for: its call gives this error.
    pub(super) fn end_wait(&self, scheduled: &mut Scheduled, error: Error) {
        if let Some(owner) = self.end_wait_only(scheduled, error) {
            scheduled.nest(|| deferred::walk_on(owner));
        }
    }

    /// Its thread, which belongs to this CPU, waits no longer, if it waits for what tasks wait for: its call gives this error. Gives who
    /// had to answer that, from whom on a walk takes back what the thread has lent.
    pub(super) fn end_wait_only(
        &self,
        scheduled: &mut Scheduled,
        error: Error,
    ) -> Option<ThreadId> {
        let thread = self.port.thread();
        let owner = scheduled.with_chains(|kernel| {
            let mutex = kernel.mutex_of(thread);
            let t = kernel.thread(thread);
            // A budget that was lent ends calls alone.
            // What the kernel, or the application for it, waits for in a task's thread is none of the task's.
            let is_no_call = matches!(t.wait, Wait::Sleep | Wait::Park | Wait::Message)
                && error != Error::BudgetSpent;
            let is_tasks = mutex.map_or(is_no_call, |it| it.is_kept());
            // Its time may have come, and it has yet to learn of that. Of one that is parked this says nothing yet.
            let waits = t.woken == Woken::Not || t.is_parked();
            if !waits || !is_tasks {
                return None;
            }
            t.woken = Woken::Object;
            // Other waits leave these registers as they were.
            let is_message = t.wait == Wait::Message || mutex.is_some();
            wait::leave_queue(kernel, thread);
            let frame = Frame::of(thread);
            if is_message {
                frame.set_message(&[0; WORDS]);
            }
            frame.give(Err(error));
            let Some(mutex) = mutex else {
                return Some(None);
            };
            // SAFETY: only ports are kept, and one begins with what is waited for.
            let port = unsafe { &*core::ptr::from_ref(mutex).cast::<Port>() };
            // Else it has yet to be received.
            if port.caller.load(Relaxed) == thread.as_ptr() as usize {
                port.caller.store(GONE, Relaxed);
            }
            Some(mutex.waiter_gone(kernel, thread))
        });
        let Some(owner) = owner else {
            self.end_take(scheduled, thread, error);
            return None;
        };
        // Who sleeps does not do that.
        timers::cancel(scheduled, wait::timeout_id(thread.tid()));
        sched::wake(scheduled, thread, Woken::Object);
        owner
    }
}
