//! What a section lends, by two types: [`Scheduled`] is what this CPU schedules, [`Kernel`] that and what its lock protects.
//!
//! A borrow of either ends with the section, so nobody keeps a reference to what others change afterwards. Here alone the kernel's
//! data is reached by raw pointers.

use core::marker::PhantomData;
use core::ops::{Deref, DerefMut};

use takt_scheduler::{Links, RunQueue, ThreadId, WaitQueue};

use crate::arch::percpu::CpuRef;
use crate::config::MAX_THREADS;
use crate::cpu_sched::CpuSched;
use crate::sync::mutex_state::RawMutex;
use crate::thread::tcb::{Tcb, TcbRef};
use crate::waiters::Waiters;

/// The links of all wait queues. Those of the run queues are the CPUs'.
struct WaitLinks(Links<MAX_THREADS>);

// SAFETY: reached through a section's `Kernel` only, which has a queue: the links of its threads change with the lock of that.
unsafe impl Sync for WaitLinks {}

static WAIT_LINKS: WaitLinks = WaitLinks(Links::new());

/// What a section lends: each reference to it ends with the borrow it was given by.
///
/// # Invariants
/// Whoever has one is inside a section, and nothing that another one lent is in use. Sections of one CPU nest where a
/// timer's function is called, which [`Scheduled::nest`] takes care of.
pub(crate) trait Lent {
    /// Whether such a section has a lock.
    const IS_LOCKED: bool;

    /// For a section that begins, or goes on as another kind.
    fn new(begun: Begun) -> Self;
}

/// Only a section lends.
pub(crate) struct Begun(());

impl Begun {
    /// For a section.
    #[inline(always)]
    pub(super) const fn new() -> Self {
        Self(())
    }
}

/// What this CPU schedules: its run queue, its timers, and the states of its threads.
pub(crate) struct Scheduled {
    /// Not made elsewhere, and not sent to another CPU.
    _private: PhantomData<*const ()>,
}

/// What the section's lock protects as well: an object with its queues, and of a thread that waits there what it waits with and how
/// that ends; or, of all threads, who they are, what they hold and inherit, who waits for their mutex, their message and their end.
/// The rest of other CPUs' threads is to look at, and may be about to change.
pub(crate) struct Kernel {
    scheduled: Scheduled,
}

impl Lent for Scheduled {
    const IS_LOCKED: bool = false;

    #[inline(always)]
    fn new(_: Begun) -> Self {
        Self {
            _private: PhantomData,
        }
    }
}

impl Lent for Kernel {
    const IS_LOCKED: bool = true;

    #[inline(always)]
    fn new(begun: Begun) -> Self {
        Self {
            scheduled: Scheduled::new(begun),
        }
    }
}

impl Deref for Kernel {
    type Target = Scheduled;

    #[inline(always)]
    fn deref(&self) -> &Scheduled {
        &self.scheduled
    }
}

impl DerefMut for Kernel {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut Scheduled {
        &mut self.scheduled
    }
}

impl Scheduled {
    /// A thread's control block.
    #[inline(always)]
    pub(crate) fn thread(&mut self, thread: TcbRef) -> &mut Tcb {
        // SAFETY: a block of the static table. By the invariant no other reference to it is in use.
        unsafe { &mut *thread.as_ptr() }
    }

    /// A thread's control block, to look at.
    #[inline(always)]
    pub(crate) fn look_at(&self, thread: TcbRef) -> &Tcb {
        // SAFETY: a block of the static table. By the invariant nobody changes it while this borrow of the section lasts.
        unsafe { &*thread.as_ptr() }
    }

    /// Two threads' control blocks.
    ///
    /// # Panics
    /// In debug builds, if it is the same one.
    #[inline(always)]
    pub(crate) fn two_threads(&mut self, one: TcbRef, other: TcbRef) -> (&mut Tcb, &mut Tcb) {
        debug_assert!(one != other, "two references to one control block");
        // SAFETY: blocks of the static table, and two of them. By the invariant no other reference to either is in use.
        let one = unsafe { &mut *one.as_ptr() };
        // SAFETY: the other one of the two.
        let other = unsafe { &mut *other.as_ptr() };
        (one, other)
    }

    /// What this CPU schedules.
    #[inline(always)]
    pub(crate) fn cpu(&mut self, cpu: CpuRef) -> &mut CpuSched {
        debug_assert!(cpu == CpuRef::this(), "what another CPU schedules");
        // SAFETY: the block of a CPU. By the invariant no other reference to its `sched` is in use.
        unsafe { &mut *cpu.sched.get() }
    }

    /// The control block of the thread that runs on a CPU.
    #[inline(always)]
    pub(crate) fn running_on(&mut self, cpu: CpuRef) -> &mut Tcb {
        let running = self.cpu(cpu).rq.current();
        self.thread(TcbRef::of(running))
    }

    /// A CPU's run queue and its links.
    #[inline(always)]
    pub(crate) fn ready(&mut self, cpu: CpuRef) -> (&mut RunQueue, &Links<MAX_THREADS, u32>) {
        let sched = self.cpu(cpu);
        (&mut sched.rq, &sched.links)
    }
}

impl Kernel {
    /// The threads that wait in a queue, and the links of all wait queues.
    #[inline(always)]
    pub(crate) fn waiting<'k>(
        &'k mut self,
        waiters: &'k Waiters,
    ) -> (&'k mut WaitQueue, &'k Links<MAX_THREADS>) {
        // SAFETY: reached by a section only; by the invariant no other reference to the queue is in use.
        let queue = unsafe { &mut *waiters.0.get() };
        (queue, &WAIT_LINKS.0)
    }

    /// The queue that a thread stands in, if it waits in one, and the links of all wait queues.
    #[inline(always)]
    pub(crate) fn waits_in(
        &mut self,
        thread: TcbRef,
    ) -> Option<(&mut WaitQueue, &Links<MAX_THREADS>)> {
        let waiters = self.look_at(thread).wait_queue;
        // SAFETY: a thread that stands in a queue borrows the object until it does no longer, and then this is null.
        let waiters = unsafe { waiters.as_ref() }?;
        Some(self.waiting(waiters))
    }

    /// The mutex, if there is one, that a thread waits for, or that is on a list of those that a thread holds: what a control block
    /// or another mutex of the list says.
    #[inline(always)]
    pub(crate) fn waited_for<'m>(&self, mutex: *const RawMutex) -> Option<&'m RawMutex> {
        // SAFETY: a thread that waits for a mutex borrows it until it does no longer. Then the block's pointer is null, and with the
        // last one the mutex is off the list; both inside a section. Whoever asks uses it in this section only.
        unsafe { mutex.as_ref() }
    }

    /// The mutex that a thread waits for.
    #[inline(always)]
    pub(crate) fn mutex_of<'m>(&self, thread: TcbRef) -> Option<&'m RawMutex> {
        self.waited_for(self.look_at(thread).blocked_on)
    }

    /// The first of the contended mutexes that a thread holds.
    #[inline(always)]
    pub(crate) fn held_by<'m>(&self, thread: TcbRef) -> Option<&'m RawMutex> {
        self.waited_for(self.look_at(thread).held)
    }
}

impl Waiters {
    /// Whether no one waits.
    #[inline(always)]
    pub(crate) fn is_empty(&self, kernel: &mut Kernel) -> bool {
        kernel.waiting(self).0.is_empty()
    }

    /// Takes the most important waiter out, of equals the first.
    #[inline(always)]
    pub(crate) fn pop(&self, kernel: &mut Kernel) -> Option<ThreadId> {
        let (queue, links) = kernel.waiting(self);
        queue.pop(links).map(|(tid, _)| tid)
    }

    /// Takes the waiter out if there is only one.
    #[inline(always)]
    pub(crate) fn pop_only(&self, kernel: &mut Kernel) -> Option<ThreadId> {
        kernel.waiting(self).0.pop_only().map(|(tid, _)| tid)
    }
}
