//! A mutex that its owner keeps for good: those who wait for it lend the owner their priority until it has served them.
//!
//! So tasks' messages have all of what mutexes have: inheritance along the chain, circles that are found, time-outs. It is on its
//! owner's list and has the contended bit from [`keep`](RawMutex::keep) to [`give_up`](RawMutex::give_up), whether anyone waits or
//! not. Who waits is never given it: the owner takes each waiter out itself when it has been served.

use core::sync::atomic::Ordering::Relaxed;

use takt_scheduler::WaitQueue;

use super::mutex_state::{CONTENDED, FREE};
use super::pi;
use super::raw_mutex::{Long, RawMutex, my_handle};
use crate::budget;
use crate::error::Error;
use crate::sched;
use crate::section::{self, Any, Kernel, Section};
use crate::switch::Handoff;
use crate::thread::tcb::{TcbRef, Wait};
use crate::wait;

/// Where the only waiter is, for assembly (see [`WaitQueue::SOLE`]); the waiters are what begins with the mutex.
pub(crate) const SOLE: usize = core::mem::offset_of!(RawMutex, waiters) + WaitQueue::SOLE;
/// Where the priority is that the owner inherits through it: two bytes, [`SOME`] and the rank; zeros say that there is none.
pub(crate) const TOP: usize = core::mem::offset_of!(RawMutex, top);
/// The first byte of an `Option` that has something.
pub(crate) const SOME: u8 = {
    let some = Some(takt_scheduler::Priority::MIN);
    // SAFETY: two bytes, both of which are initialised in that one.
    let [tag, rank]: [u8; 2] = unsafe { core::mem::transmute(some) };
    assert!(rank == takt_scheduler::Priority::MIN.rank());
    tag
};
const _: () = assert!(core::mem::offset_of!(RawMutex, waiters) == 0 && SOME == 1);

impl RawMutex {
    /// The calling thread owns it from now on; it was free.
    pub(crate) fn keep(&self) {
        let mut section = section::enter_thread();
        self.word.store(my_handle() | CONTENDED, Relaxed);
        self.is_kept.set(true);
        self.hold(&mut section, TcbRef::current().tid());
        section.leave_quietly();
    }

    /// The calling thread, which keeps it, no longer does. No one waits.
    pub(crate) fn give_up(&self) {
        let mut section = section::enter_thread();
        self.release(&mut section, TcbRef::current());
        self.is_kept.set(false);
        self.word.store(FREE, Relaxed);
        section.leave_quietly();
    }

    /// The running thread announces that it waits to be served.
    pub(crate) fn announce(&self, kernel: &mut Kernel) {
        let me = TcbRef::current();
        kernel.thread(me).blocked_on = self;
        wait::announce(kernel, me, &self.waiters, Wait::Mutex);
        self.note_owners_top(kernel);
    }

    /// The running thread, which has announced its wait, looks whether it closes a circle; then it waits no longer. Else it lends
    /// its priority to the owner and to those that it waits for. A circle that there is once `is_taken` says so the owner closes.
    pub(crate) fn check_and_lend(&self, is_taken: impl Fn() -> bool) -> Result<(), Error> {
        self.check(Long::Refused, is_taken)?;
        if let Some(owner) = self.owner() {
            // Those beyond the limit of a chain do not inherit (`config`).
            let _ = pi::walk(owner);
        }
        Ok(())
    }

    /// Who of those that wait is the most important.
    pub(crate) fn first(&self, kernel: &mut Kernel) -> Option<TcbRef> {
        let (queue, _) = kernel.waiting(&self.waiters);
        queue.top().map(|(tid, _)| TcbRef::of(tid))
    }

    /// Whether a thread waits for it.
    pub(crate) fn is_waited_for_by(&self, kernel: &Kernel, t: TcbRef) -> bool {
        core::ptr::eq(kernel.look_at(t).blocked_on, self)
    }

    /// The running thread, whose it is, has served `t`, which waits: that goes on, and the owner is as important as those that
    /// are left make it. Where others are left, or it owns more, a section for each step, as in `unlock`.
    pub(crate) fn serve(&self, mut section: Section<Any>, t: TcbRef) -> Handoff {
        let is_watched = budget::is_watched(&mut section);
        let handoff = self.serve_and_give_way(section, t);
        if is_watched && !handoff.is_switch() {
            core::hint::cold_path();
            // It goes on, and who waited may have lent it a budget and no priority.
            budget::waiters_changed(TcbRef::current());
        }
        handoff
    }

    #[inline(always)]
    fn serve_and_give_way(&self, mut section: Section<Any>, t: TcbRef) -> Handoff {
        wait::leave_queue(&mut section, t);
        section.thread(t).blocked_on = core::ptr::null();
        pi::wait_ended();
        let me = TcbRef::current();
        let is_only = self.prev_held.get().is_null() && self.next_held.get().is_null();
        if is_only && self.waiters.is_empty(&mut section) {
            if let Some(noted) = self.top.take() {
                section.thread(me).inherits.remove_only(noted);
            }
            return pi::give_way(section, me, t);
        }
        sched::wake_taken(section, t).leave();
        let mut section = section::enter();
        self.note_owners_top(&mut section);
        section.leave_quietly();
        pi::end_inheritance(me);
        Handoff::done(Ok(()))
    }

    fn note_owners_top(&self, kernel: &mut Kernel) {
        if let Some(owner) = self.owner() {
            self.note_top(kernel, owner);
        }
    }
}
