//! Mutex with transitive priority inheritance.
//!
//! The lock word holds the owner's handle; while no one waits, lock and unlock are a compare-and-swap each. The first
//! waiter sets the contended bit and puts the mutex on the owner's list of contended mutexes, from which inheritance is
//! computed. Unlocking a contended mutex hands it to the most important waiter. A handle comes back only after four
//! million threads with the same id, so the word of a thread that has ended is no one else's.
//!
//! Trace points: `mutex_contended` when a thread has to wait, with the owner and the priority it inherits;
//! `prio_change` for each boost and its end; `mutex_acquired` when the waiter has it.

use core::cell::{Cell, UnsafeCell};
use core::ops::{Deref, DerefMut};
use core::sync::atomic::{
    AtomicU32,
    Ordering::{Acquire, Relaxed, Release},
};

use takt_scheduler::ThreadId;
use takt_scheduler::pi::{PiError, Walk, check_chain};

use super::{Waiters, pi};
use crate::arch::percpu;
use crate::error::Error;
use crate::lock::{self, Section};
use crate::sched;
use crate::thread::tcb::{EXITED, HANDLE, Wait, Woken, tcb};
use crate::time::Instant;
use crate::trace::trace;

const FREE: u32 = 0;
const CONTENDED: u32 = 1 << 31;

const _: () = assert!(CONTENDED == !HANDLE, "the one bit that no handle has");

/// The mutex without its data.
pub(crate) struct RawMutex {
    /// 0, or the owner's handle, + `CONTENDED` while someone waits.
    word: AtomicU32,
    waiters: Waiters,
    /// Next in the owner's list of contended mutexes.
    next_held: Cell<*const RawMutex>,
    /// The one before it there, null for the first.
    prev_held: Cell<*const RawMutex>,
}

// SAFETY: the queue and the link change inside a section only.
unsafe impl Sync for RawMutex {}
// SAFETY: not moved while anyone waits, since waiters borrow it.
unsafe impl Send for RawMutex {}

impl RawMutex {
    pub(crate) const fn new() -> Self {
        Self {
            word: AtomicU32::new(FREE),
            waiters: Waiters::new(),
            next_held: Cell::new(core::ptr::null()),
            prev_held: Cell::new(core::ptr::null()),
        }
    }

    pub(crate) fn waiters(&self) -> &Waiters {
        &self.waiters
    }

    pub(crate) fn next_held(&self) -> *const RawMutex {
        self.next_held.get()
    }

    /// The owner; where someone waits, it has not ended.
    pub(crate) fn owner(&self) -> Option<ThreadId> {
        let word = self.word.load(Relaxed);
        (word != FREE).then(|| ThreadId::new(word as u8))
    }

    #[inline(always)]
    fn try_lock(&self) -> bool {
        self.word
            .compare_exchange(FREE, my_handle(), Acquire, Relaxed)
            .is_ok()
    }

    #[inline(always)]
    pub(crate) fn lock(&self, deadline: Instant) -> Result<(), Error> {
        if self.try_lock() {
            return Ok(());
        }
        self.lock_slow(deadline)
    }

    #[inline(never)]
    fn lock_slow(&self, deadline: Instant) -> Result<(), Error> {
        if !sched::may_block() {
            return Err(Error::WrongContext);
        }
        let mut section = lock::enter_thread();
        let result = self.lock_in(&mut section, deadline.cycles(), Long::Refused);
        section.leave();
        result
    }

    /// Locks inside a section.
    pub(crate) fn lock_in(
        &self,
        section: &mut Section,
        deadline: u64,
        long: Long,
    ) -> Result<(), Error> {
        let me = ThreadId::new(percpu::current_tid());
        // Another CPU's fast path may give it back or take it while this one looks.
        let owner = loop {
            let word = self.word.load(Relaxed);
            if word == FREE {
                if self.try_lock() {
                    return Ok(());
                }
                continue;
            }
            let owner = living_owner(word)?;
            match check_chain(&pi::World(section), me, core::ptr::from_ref(self)) {
                Err(PiError::ChainTooLong) if long == Long::Accepted => {}
                Err(error) => return Err(error.into()),
                Ok(_) => {}
            }
            if self.contend(section, word, owner) {
                break owner;
            }
        };
        // SAFETY: the running thread's own block, inside a section.
        let t = unsafe { &mut *tcb(me) };
        t.blocked_on = self;
        trace!(
            mutex_contended,
            u32::from(owner.raw()),
            u32::from(t.prio.rank()),
            self as *const Self as u32
        );
        // The owner must inherit before this thread leaves the CPU, and inheritance looks at the wait queue: so stand
        // in it first.
        let cpu_next = self.enqueue_self(section, t, owner, deadline);
        sched::switch_to(section, cpu_next);
        // SAFETY: as above; anew, since the waker wrote there meanwhile.
        let t = unsafe { &mut *tcb(me) };
        t.blocked_on = core::ptr::null();
        if t.woken == Woken::TimedOut {
            return Err(Error::TimedOut);
        }
        // Not handed over: given up by an owner that has ended.
        if self.word.load(Relaxed) & !CONTENDED != t.handle {
            return Err(Error::OwnerDied);
        }
        trace!(mutex_acquired, self as *const Self as u32);
        Ok(())
    }

    fn enqueue_self(
        &self,
        section: &mut Section,
        t: &mut crate::thread::tcb::Tcb,
        owner: ThreadId,
        deadline: u64,
    ) -> takt_scheduler::Next {
        sched::begin_wait(section, t, Wait::Queue, self.waiters.as_ptr(), deadline);
        // A chain too long was refused by `check_chain`; threads that join from behind may make it longer, and then
        // those beyond the limit do not inherit: the limit is documented in `config`.
        let _ = pi::walk(section, Walk::new(owner));
        // SAFETY: this CPU's own, inside a section.
        unsafe { sched::of_cpu(percpu::this()) }.rq.pick_next()
    }

    /// Sets the contended bit and puts the mutex on its owner's list; says whether it still had this word.
    fn contend(&self, section: &Section, word: u32, owner: ThreadId) -> bool {
        if word & CONTENDED == 0 {
            let contended = word | CONTENDED;
            if self
                .word
                .compare_exchange(word, contended, Relaxed, Relaxed)
                .is_err()
            {
                return false;
            }
            self.hold(section, owner);
        }
        true
    }

    /// The running thread, which owns it and is about to end, lets a waiter go, which will see that it is not the owner.
    pub(crate) fn let_go(&self, section: &mut Section) {
        let me = ThreadId::new(percpu::current_tid());
        // SAFETY: inside a section, where this is the only reference.
        let waiters = unsafe { &mut *self.waiters.as_ptr() };
        let waiter = waiters.pop(section.links());
        if waiters.is_empty() {
            self.release(section, me);
            self.word.fetch_and(!CONTENDED, Relaxed);
        }
        // Before the waiter runs; it cannot fail where a boost ends.
        let _ = pi::walk(section, Walk::new(me));
        if let Some((waiter, _)) = waiter {
            // SAFETY: inside a section.
            unsafe { (*tcb(waiter)).blocked_on = core::ptr::null() };
            sched::wake_taken(section, waiter);
        }
    }

    /// Puts it on its owner's list.
    fn hold(&self, _section: &Section, owner: ThreadId) {
        // SAFETY: inside a section.
        let t = unsafe { &mut *tcb(owner) };
        // SAFETY: the list holds contended mutexes, which their waiters borrow.
        if let Some(first) = unsafe { t.held.as_ref() } {
            first.prev_held.set(self);
        }
        self.prev_held.set(core::ptr::null());
        self.next_held.set(t.held);
        t.held = self;
    }

    /// Takes it off its owner's list, on which it is, since it is contended.
    fn release(&self, _section: &Section, owner: ThreadId) {
        let (prev, next) = (self.prev_held.get(), self.next_held.get());
        // SAFETY: the list holds contended mutexes, which their waiters borrow.
        match unsafe { prev.as_ref() } {
            Some(prev) => prev.next_held.set(next),
            // SAFETY: inside a section.
            None => unsafe { (*tcb(owner)).held = next },
        }
        // SAFETY: as above.
        if let Some(next) = unsafe { next.as_ref() } {
            next.prev_held.set(prev);
        }
    }

    /// A waiter's time-out came and took it out of the queue: its boost ends.
    pub(crate) fn waiter_left(&self, section: &mut Section) {
        let Some(owner) = self.owner() else { return };
        if self.waiters.get(section).is_empty() && self.word.load(Relaxed) & CONTENDED != 0 {
            self.release(section, owner);
            self.word.fetch_and(!CONTENDED, Relaxed);
        }
        let _ = pi::walk(section, Walk::new(owner));
    }

    #[inline(always)]
    pub(crate) fn unlock(&self) -> Result<(), Error> {
        if self
            .word
            .compare_exchange(my_handle(), FREE, Release, Relaxed)
            .is_ok()
        {
            return Ok(());
        }
        self.unlock_slow()
    }

    #[inline(never)]
    fn unlock_slow(&self) -> Result<(), Error> {
        let mut section = lock::enter();
        let result = self.unlock_in(&mut section);
        section.leave();
        result
    }

    /// Unlocks inside a section; the most important waiter owns it then.
    pub(crate) fn unlock_in(&self, section: &mut Section) -> Result<(), Error> {
        let me = ThreadId::new(percpu::current_tid());
        let mine = my_handle();
        let word = self.word.load(Relaxed);
        if word != mine | CONTENDED {
            if word != mine {
                return Err(Error::NotOwner);
            }
            self.word.store(FREE, Release);
            return Ok(());
        }
        self.release(section, me);
        // SAFETY: inside a section, where this is the only reference.
        let waiters = unsafe { &mut *self.waiters.as_ptr() };
        let Some((next, _)) = waiters.pop(section.links()) else {
            // The last waiter's time-out came and it has not run since.
            self.word.store(FREE, Release);
            return pi::walk(section, Walk::new(me));
        };
        let contended = if waiters.is_empty() { 0 } else { CONTENDED };
        // SAFETY: inside a section.
        let handle = unsafe { (*tcb(next)).handle };
        self.word.store(handle | contended, Relaxed);
        if contended != 0 {
            self.hold(section, next);
        }
        // SAFETY: inside a section.
        unsafe { (*tcb(next)).blocked_on = core::ptr::null() };
        // The new owner was the most important waiter, so it has nothing to inherit; this thread loses its boost.
        pi::walk(section, Walk::new(me))?;
        sched::wake_taken(section, next);
        Ok(())
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
fn my_handle() -> u32 {
    // SAFETY: the running thread's own block.
    unsafe { (*percpu::current()).handle }
}

/// The owner that the word of a locked mutex names, unless it has ended. Inside a section.
fn living_owner(word: u32) -> Result<ThreadId, Error> {
    let owner = ThreadId::new(word as u8);
    // SAFETY: inside a section.
    let t = unsafe { &*tcb(owner) };
    if t.handle != word & HANDLE || t.state & EXITED != 0 {
        return Err(Error::OwnerDied);
    }
    Ok(owner)
}

/// A mutex around data, for threads.
///
/// A thread that ends with a mutex locked (its guard was forgotten, or it called
/// [`exit`](crate::thread::exit)) leaves it locked for good: all who wait for it or try to lock it later get
/// [`Error::OwnerDied`].
pub struct Mutex<T> {
    raw: RawMutex,
    data: UnsafeCell<T>,
}

// SAFETY: the data are reached through the guard only, by one thread at a time.
unsafe impl<T: Send> Sync for Mutex<T> {}

/// The right to use a mutex's data; given back when dropped.
#[must_use = "the mutex is unlocked when the guard is dropped"]
pub struct MutexGuard<'a, T> {
    mutex: &'a Mutex<T>,
    /// Not `Send`: the owner is a thread.
    _not_send: core::marker::PhantomData<*const ()>,
}

impl<T> Mutex<T> {
    /// A free mutex.
    pub const fn new(data: T) -> Self {
        Self {
            raw: RawMutex::new(),
            data: UnsafeCell::new(data),
        }
    }

    /// Locks it, waiting as long as it takes; the owner inherits the caller's priority meanwhile.
    ///
    /// # Errors
    /// [`Error::Deadlock`] if the caller owns it or waiting would close a circle, [`Error::ChainTooLong`],
    /// [`Error::OwnerDied`], [`Error::WrongContext`].
    #[inline]
    pub fn lock(&self) -> Result<MutexGuard<'_, T>, Error> {
        self.lock_until(Instant::NEVER)
    }

    /// Locks it, waiting until `deadline` at most.
    ///
    /// # Errors
    /// As [`Mutex::lock`], and [`Error::TimedOut`].
    #[inline]
    pub fn lock_until(&self, deadline: Instant) -> Result<MutexGuard<'_, T>, Error> {
        self.raw.lock(deadline)?;
        Ok(self.guard())
    }

    /// Locks it if it is free.
    ///
    /// # Errors
    /// [`Error::WouldBlock`].
    #[inline]
    pub fn try_lock(&self) -> Result<MutexGuard<'_, T>, Error> {
        if self.raw.try_lock() {
            Ok(self.guard())
        } else {
            Err(Error::WouldBlock)
        }
    }

    #[inline(always)]
    fn guard(&self) -> MutexGuard<'_, T> {
        MutexGuard {
            mutex: self,
            _not_send: core::marker::PhantomData,
        }
    }
}

impl<'a, T> MutexGuard<'a, T> {
    pub(crate) fn raw(&self) -> &'a RawMutex {
        &self.mutex.raw
    }
}

impl<T> Deref for MutexGuard<'_, T> {
    type Target = T;

    #[inline(always)]
    fn deref(&self) -> &T {
        // SAFETY: the guard is the right to it.
        unsafe { &*self.mutex.data.get() }
    }
}

impl<T> DerefMut for MutexGuard<'_, T> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: the guard is the right to it.
        unsafe { &mut *self.mutex.data.get() }
    }
}

impl<T> Drop for MutexGuard<'_, T> {
    #[inline(always)]
    fn drop(&mut self) {
        // The guard exists, so this thread owns the mutex and unlocking cannot fail.
        let result = self.mutex.raw.unlock();
        debug_assert!(result.is_ok());
    }
}
