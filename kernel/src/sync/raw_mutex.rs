//! The mutex without its data: ownership, waiting, transitive priority inheritance.
//!
//! The lock word holds the owner's handle; while no one waits, lock and unlock are a compare-and-swap each. The first
//! waiter stands in the object beside the word, sets the contended bit and puts the mutex on the owner's list of contended
//! mutexes, from which inheritance is computed. Unlocking a contended mutex hands it to the most important waiter. A handle
//! comes back only after four million threads with the same id, so the word of a thread that has ended is no one else's.
//!
//! A thread that finds it locked announces its wait, then looks for deadlocks, lends its priority to one owner after the
//! other and waits at last, with interrupts and preemption on in between. Meanwhile it may be given the mutex. Where the
//! owner is ready and the wait has no time-out, lending and waiting are one section ([`pi::lend_and_wait`]). Announcing has one of
//! its own: all three would be more than the 100 instructions that a section may have.
//!
//! Trace points: `mutex_contended` when a thread has to wait, with the owner and the priority it inherits;
//! `prio_change` for each boost and its end; `mutex_acquired` when the waiter has it.

use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use takt_scheduler::ThreadId;
use takt_scheduler::pi::{Check, PiError};

use super::mutex_state::{CONTENDED, FREE};
use super::pi;
use crate::arch::lock_prefix::locked_if_smp;
use crate::arch::proof;
use crate::clock::Instant;
use crate::deferred;
use crate::error::Error;
use crate::preempt;
use crate::probe::{trace, trace_to};
use crate::sched;
use crate::section::{self, Any, Kernel, Scheduled, Section, Thread};
use crate::switch::Handoff;
use crate::thread::tcb::{EXITED, HANDLE, TcbRef, Wait, Woken};
use crate::wait;

pub(crate) use super::mutex_state::RawMutex;

const _: () = assert!(CONTENDED == !HANDLE, "the one bit that no handle has");

/// How many threads of a chain are looked at in one section.
const CHECKED_AT_ONCE: usize = 3;

impl RawMutex {
    /// Whether the calling thread owns it.
    pub(super) fn is_own(&self) -> bool {
        self.word.load(Relaxed) & HANDLE == my_handle()
    }

    #[inline(always)]
    pub(super) fn try_lock(&self) -> bool {
        let taken = locked_if_smp!(
            self.word
                .compare_exchange(FREE, my_handle(), Acquire, Relaxed)
        );
        taken.is_ok()
    }

    #[inline(always)]
    pub(crate) fn lock(&self, deadline: Instant, long: Long) -> Result<(), Error> {
        if self.try_lock() {
            return Ok(());
        }
        self.lock_slow(deadline, long)
    }

    #[inline(never)]
    fn lock_slow(&self, deadline: Instant, long: Long) -> Result<(), Error> {
        if !sched::may_block() {
            return Err(Error::WrongContext);
        }
        if !self.begin_wait()? {
            return Ok(());
        }
        // From here on the thread stands in the queue, and an unlock may give it the mutex.
        if deadline == Instant::NEVER
            && let Some(handoff) = pi::lend_and_wait(self)
        {
            handoff.finish()?;
        } else {
            self.wait_in_steps(deadline, long)?;
        }
        self.end_wait()
    }

    /// Waits as announced: looks for deadlocks, lends its priority along the chain of owners, and waits at last.
    #[inline(never)]
    fn wait_in_steps(&self, deadline: Instant, long: Long) -> Result<(), Error> {
        self.check(long, || false)?;
        self.lend_and_wait_in_steps(deadline)
    }

    #[inline(always)]
    fn lend_and_wait_in_steps(&self, deadline: Instant) -> Result<(), Error> {
        if let Some(owner) = self.owner() {
            // Threads that join the chain from behind may make it longer than was checked, and then those beyond the limit
            // do not inherit: the limit is documented in `config`.
            let _ = pi::walk(owner);
        }
        wait::finish(deadline).result()
    }

    /// Announces a wait; or takes the mutex after all, and says false.
    #[inline(always)]
    fn begin_wait(&self) -> Result<bool, Error> {
        let mut section = section::enter_thread();
        let result = self.begin_wait_in(&mut section);
        section.leave_quietly();
        result
    }

    #[inline(always)]
    fn begin_wait_in(&self, kernel: &mut Kernel) -> Result<bool, Error> {
        let me = TcbRef::current();
        // Another CPU's fast path may give it back or take it while this one looks.
        let owner = loop {
            let word = self.word.load(Relaxed);
            if word == FREE {
                if self.try_lock() {
                    return Ok(false);
                }
                proof::not_alone!("nobody else takes or gives a mutex meanwhile");
                continue;
            }
            let owner = living_owner(kernel, word)?;
            if owner == me.tid() {
                return Err(Error::Deadlock);
            }
            if word & CONTENDED != 0 {
                break owner;
            }
            if self.contend(kernel, word, owner) {
                self.begin_to_wait(kernel, me, owner);
                wait::announce_first(kernel, me, &self.waiters, Wait::Mutex);
                self.note_first(kernel, owner, me);
                return Ok(true);
            }
            proof::not_alone!("nobody else takes or gives a mutex meanwhile");
        };
        self.begin_to_wait(kernel, me, owner);
        wait::announce(kernel, me, &self.waiters, Wait::Mutex);
        self.note_further(kernel, owner, me);
        Ok(true)
    }

    #[inline(always)]
    fn begin_to_wait(&self, kernel: &mut Kernel, me: TcbRef, owner: ThreadId) {
        let t = kernel.thread(me);
        t.blocked_on = self;
        trace!(
            mutex_contended,
            u32::from(owner.raw()),
            u32::from(t.prio.rank()),
            self as *const Self as u32
        );
    }

    /// Looks for a circle that the announced wait closes; takes the wait back if there is one. A wait that is over
    /// meanwhile closes none, and neither does one of which `is_older` says that the owner began to wait after it: asked inside a
    /// section.
    #[inline(never)]
    pub(super) fn check(&self, long: Long, is_older: impl Fn() -> bool) -> Result<(), Error> {
        let me = TcbRef::current().tid();
        let mut nr_ended = pi::nr_ended();
        let mut check = Check::new(me, self.owner());
        loop {
            let section = section::enter_thread();
            let woken = section.look_at(TcbRef::of(me)).woken;
            let mut is_done = true;
            if woken == Woken::Not {
                is_done = match check.advance(&pi::World::of(&section), CHECKED_AT_ONCE) {
                    Ok(depth) => depth.is_some(),
                    // Some thread of the chain may have gone on since, so that what was seen was not at one time: it is looked
                    // at anew, once for each wait that another has ended meanwhile at most.
                    Err(PiError::Deadlock) if nr_ended != pi::nr_ended() => {
                        nr_ended = pi::nr_ended();
                        check = Check::new(me, self.owner());
                        false
                    }
                    Err(PiError::ChainTooLong) if long == Long::Accepted => true,
                    // Not at one time either: it may have gone round among others, of which one has found that.
                    Err(PiError::ChainTooLong) if nr_ended != pi::nr_ended() => true,
                    Err(PiError::Deadlock) if is_older() => true,
                    Err(error) => {
                        section.leave_quietly();
                        return match self.take_back() {
                            true => Err(error.into()),
                            false => Ok(()),
                        };
                    }
                };
            }
            section.leave_quietly();
            if is_done {
                return Ok(());
            }
            proof::bounded!("steps of a search for a circle of owners");
        }
    }

    /// The running thread will not wait as announced; unless its wait is over already.
    ///
    /// What others lent through this wait ends with a walk, but not by this thread, which may not run for long: only until
    /// that is left to an interrupt, in a section of its own.
    #[cold]
    #[inline(never)]
    fn take_back(&self) -> bool {
        let guard = preempt::disable();
        let mut section = section::enter_thread();
        let me = TcbRef::current();
        let t = section.thread(me);
        let waits = t.woken == Woken::Not;
        let mut owner = None;
        if waits {
            t.woken = Woken::Object;
            wait::leave_queue(&mut section, me);
            owner = self.waiter_gone(&mut section, me);
        }
        section.leave_quietly();
        if let Some(owner) = owner {
            deferred::walk_on_and_enable(owner, guard);
        }
        waits
    }

    /// The wait was ended by the owner.
    fn end_wait(&self) -> Result<(), Error> {
        // Not handed over: given up by an owner that has ended.
        if self.word.load(Relaxed) & !CONTENDED != my_handle() {
            return Err(Error::OwnerDied);
        }
        trace_to!(IrqsOnSink, mutex_acquired, self as *const Self as u32);
        Ok(())
    }

    /// `t` was taken out of the queue by its time-out, or gave up. Gives the owner: what it and those behind it in the chain
    /// inherited through `t` ends with a walk that begins there.
    pub(crate) fn waiter_gone(&self, kernel: &mut Kernel, t: TcbRef) -> Option<ThreadId> {
        kernel.thread(t).blocked_on = core::ptr::null();
        let owner = self.owner();
        self.waiter_left(kernel);
        owner
    }

    /// Sets the contended bit, which is not set, and puts the mutex on its owner's list; says whether it still had this word.
    fn contend(&self, kernel: &mut Kernel, word: u32, owner: ThreadId) -> bool {
        let marked =
            locked_if_smp!(
                self.word
                    .compare_exchange(word, word | CONTENDED, Relaxed, Relaxed)
            );
        if marked.is_ok() {
            self.hold(kernel, owner);
        }
        marked.is_ok()
    }

    /// The running thread, which owns it and is about to end, lets a waiter go, which will see that it is not the owner.
    pub(crate) fn let_go(&self, mut section: Section<Thread>) -> Section<Thread, Scheduled> {
        let waiter = self.waiters.pop(&mut section);
        self.waiter_left(&mut section);
        let Some(waiter) = waiter.map(TcbRef::of) else {
            return section.narrow();
        };
        section.thread(waiter).blocked_on = core::ptr::null();
        sched::wake_taken(section, waiter)
    }

    /// A waiter was taken out of the queue, which does not become the owner.
    fn waiter_left(&self, kernel: &mut Kernel) {
        pi::wait_ended();
        let Some(owner) = self.owner() else { return };
        if self.note_top(kernel, owner).is_none() && !self.is_kept() {
            self.release(kernel, TcbRef::of(owner));
            locked_if_smp!(self.word.fetch_and(!CONTENDED, Relaxed));
        }
    }

    /// Puts it on its owner's list.
    pub(super) fn hold(&self, kernel: &mut Kernel, owner: ThreadId) {
        let owner = TcbRef::of(owner);
        if let Some(first) = kernel.held_by(owner) {
            first.prev_held.set(self);
        }
        let held = &mut kernel.thread(owner).held;
        self.prev_held.set(core::ptr::null());
        self.next_held.set(*held);
        *held = self;
    }

    /// Takes it off its owner's list, on which it is, since it is contended.
    pub(super) fn release(&self, kernel: &mut Kernel, owner: TcbRef) {
        let (prev, next) = (self.prev_held.get(), self.next_held.get());
        match kernel.waited_for(prev) {
            Some(prev) => prev.next_held.set(next),
            None => kernel.thread(owner).held = next,
        }
        if let Some(next) = kernel.waited_for(next) {
            next.prev_held.set(prev);
        }
    }

    #[inline(always)]
    pub(crate) fn unlock(&self) -> Result<(), Error> {
        let freed = locked_if_smp!(
            self.word
                .compare_exchange(my_handle(), FREE, Release, Relaxed)
        );
        if freed.is_ok() {
            return Ok(());
        }
        self.unlock_slow()
    }

    #[inline(never)]
    fn unlock_slow(&self) -> Result<(), Error> {
        self.begin_unlock().finish()
    }

    #[inline(always)]
    fn begin_unlock(&self) -> Handoff {
        let mut section = section::enter();
        let me = TcbRef::current();
        if self.word.load(Relaxed) != me.handle() | CONTENDED {
            return self.unlock_uncontended(section);
        }
        if !self.prev_held.get().is_null() || !self.next_held.get().is_null() {
            return self.unlock_in_steps(section);
        }
        let Some(heir) = self.waiters.pop_only(&mut section).map(TcbRef::of) else {
            return self.unlock_in_steps(section);
        };
        self.word.store(heir.handle(), Relaxed);
        let t = section.thread(me);
        t.held = core::ptr::null();
        // Not the waiter's priority, which may have changed since it was noted.
        if let Some(noted) = self.top.take() {
            t.inherits.remove_only(noted);
        }
        section.thread(heir).blocked_on = core::ptr::null();
        pi::wait_ended();
        pi::give_way(section, me, heir)
    }

    /// [`begin_unlock`](Self::begin_unlock) where several wait, or the running thread has further contended mutexes: a section
    /// for each step. Until the last one it is as important as it was, so that nobody keeps it from the next step who is less
    /// important than those who wait.
    #[inline(never)]
    fn unlock_in_steps(&self, mut section: Section<Any>) -> Handoff {
        let me = TcbRef::current();
        let noted = self.top.take();
        self.release(&mut section, me);
        let Some(heir) = self.hand_over(&mut section) else {
            return Handoff::stay(section, Ok(()));
        };
        sched::wake_taken(section, heir).leave();
        self.lend_to_owner();
        if let Some(noted) = noted {
            let mut section = section::enter();
            // A handler may have forgotten it meanwhile, which unlocked what it took for the only mutex that others wait for.
            section.thread(me).inherits.remove_if_any(noted);
            section.leave_quietly();
        }
        pi::end_inheritance(me);
        Handoff::done(Ok(()))
    }

    /// The owner, who was given it with others waiting, inherits from those.
    #[inline(never)]
    fn lend_to_owner(&self) {
        let mut section = section::enter();
        let mut lends = None;
        if let Some(owner) = self.owner() {
            self.note_top(&mut section, owner);
            // It was the most important of them, unless its priority has changed meanwhile.
            let prio = section.look_at(TcbRef::of(owner)).prio;
            lends = self
                .top
                .get()
                .filter(|top| top.is_more_important_than(prio))
                .map(|_| owner);
        }
        section.leave_quietly();
        if let Some(owner) = lends {
            core::hint::cold_path();
            // Those beyond the limit of a chain do not inherit (`config`).
            let _ = pi::walk(owner);
        }
    }

    /// The last waiter's time-out came in between, or the caller does not own it.
    #[cold]
    #[inline(never)]
    fn unlock_uncontended(&self, section: Section<Any>) -> Handoff {
        if self.word.load(Relaxed) != my_handle() {
            return Handoff::stay(section, Err(Error::NotOwner));
        }
        self.word.store(FREE, Release);
        Handoff::stay(section, Ok(()))
    }

    /// Makes the most important waiter the owner, and takes it out of the queue. It is on no one's list. What the new owner
    /// inherits from others who wait is yet to be noted.
    #[inline(always)]
    fn hand_over(&self, kernel: &mut Kernel) -> Option<TcbRef> {
        let Some(next) = self.waiters.pop(kernel) else {
            // A contended mutex has a waiter.
            debug_assert!(false, "the contended bit ends with the last waiter");
            return None;
        };
        let heir = TcbRef::of(next);
        let mut word = heir.handle();
        if !self.waiters.is_empty(kernel) {
            word |= CONTENDED;
            self.hold(kernel, next);
        }
        self.word.store(word, Relaxed);
        kernel.thread(heir).blocked_on = core::ptr::null();
        pi::wait_ended();
        Some(heir)
    }
}

/// What becomes of a chain of owners that is too long for inheritance.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Long {
    /// The mutex is not locked.
    Refused,
    /// Those at its end inherit nothing.
    Accepted,
}

/// The running thread's handle.
#[inline(always)]
pub(super) fn my_handle() -> u32 {
    TcbRef::current().handle()
}

/// The owner that the word of a locked mutex names, unless it has ended.
fn living_owner(kernel: &Kernel, word: u32) -> Result<ThreadId, Error> {
    let owner = ThreadId::new(word as u8);
    let t = kernel.look_at(TcbRef::of(owner));
    if t.handle != word & HANDLE || t.state & EXITED != 0 {
        return Err(Error::OwnerDied);
    }
    Ok(owner)
}
