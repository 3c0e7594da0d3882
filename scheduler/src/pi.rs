//! Priority inheritance: how important the owner of a contended mutex must be.
//!
//! A thread is as important as the most important of itself and the threads that wait for a
//! mutex it holds. Where such an owner waits for a mutex itself, its owner inherits in turn: a
//! chain. This module only says what to change; the kernel shows its tables through [`PiWorld`]
//! and carries the changes out.
//!
//! The order of things when a thread finds a mutex taken:
//! 1. the kernel puts the thread into the mutex's wait queue;
//! 2. [`Check`]: its wait must not close a cycle;
//! 3. [`Walk::new`] at the owner, then [`Walk::step`] and execute, to the end of the chain.
//!
//! Whenever waiters leave otherwise (timeout, unlock, change of priority), only the third is
//! needed, starting at the thread whose priority may have changed.
//!
//! # Invariants
//! * A step looks at one thread and gives at most one change; between two steps the kernel may
//!   let interrupts in and other threads run, since each step looks anew.
//! * So may it between two portions of a check. Of the threads that close a cycle, the one that
//!   began to wait last finds it: the other waits last at least as long. A cycle that is found
//!   may be none if a thread has ceased to wait since the check began; then it is made again.
//! * A cycle that the waiter is not in is one of others that has yet to be found by them: it is
//!   no reason to refuse the waiter.
//!
//! # Source
//! L. Sha, R. Rajkumar, J. P. Lehoczky: Priority Inheritance Protocols, IEEE Transactions on
//! Computers 39(9), 1990. The walk follows Linux, `Documentation/locking/rt-mutex-design.rst`.

use crate::{Placement, Priority, ThreadId};

/// Most threads a chain may have, the one that begins to wait not counted.
pub const MAX_CHAIN: usize = 16;

/// What inheritance has to know of the kernel's tables.
pub trait PiWorld {
    /// Names a mutex.
    type Mutex: Copy + Eq;

    /// The thread's own priority.
    fn base(&self, tid: ThreadId) -> Priority;

    /// The priority the thread is queued with at present.
    fn effective(&self, tid: ThreadId) -> Priority;

    /// Priority of the most important thread that waits for any mutex `tid` holds.
    fn top_waiter(&self, tid: ThreadId) -> Option<Priority>;

    /// The mutex the thread waits for.
    fn blocked_on(&self, tid: ThreadId) -> Option<Self::Mutex>;

    /// The thread that holds the mutex.
    fn owner_of(&self, mutex: Self::Mutex) -> Option<ThreadId>;
}

/// Why a thread must not wait for a mutex.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PiError {
    /// The mutex is held by the thread itself, or by one that waits for it along the chain.
    Deadlock,
    /// The chain has more than [`MAX_CHAIN`] threads.
    ChainTooLong,
}

/// A thread's priority has to change.
#[must_use = "the chain is followed as if the change had been made"]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Change {
    /// The thread.
    pub tid: ThreadId,
    /// The priority it is queued with.
    pub from: Priority,
    /// The priority it has to be queued with.
    pub to: Priority,
    /// Where among its new equals.
    pub placement: Placement,
}

/// The priority of a thread, given its own and the top waiters of the mutexes it holds.
#[inline]
#[must_use]
pub fn effective_priority(
    base: Priority,
    top_waiters: impl IntoIterator<Item = Priority>,
) -> Priority {
    top_waiters.into_iter().fold(base, Priority::max_important)
}

/// Whether a thread may wait for a mutex: a look along the chain behind it, in portions.
#[derive(Clone, Copy, Debug)]
pub struct Check {
    waiter: ThreadId,
    next: Option<ThreadId>,
    nr_threads: usize,
    /// The first thread beyond [`MAX_CHAIN`].
    beyond: Option<ThreadId>,
}

impl Check {
    /// Whether `waiter` may wait for a mutex of `owner`.
    #[inline]
    #[must_use]
    pub const fn new(waiter: ThreadId, owner: Option<ThreadId>) -> Self {
        Self {
            waiter,
            next: owner,
            nr_threads: 0,
            beyond: None,
        }
    }

    /// Looks at so many threads more. When it has come to the end, or goes round among others, gives
    /// the number of threads in the chain as far as it counts.
    ///
    /// # Errors
    /// [`PiError::Deadlock`] if the chain comes back to the waiter, [`PiError::ChainTooLong`] if it
    /// ends behind more than [`MAX_CHAIN`] threads.
    pub fn advance<W: PiWorld>(
        &mut self,
        world: &W,
        portion: usize,
    ) -> Result<Option<usize>, PiError> {
        for _ in 0..portion {
            let Some(owner) = self.next else { break };
            if owner == self.waiter {
                return Err(PiError::Deadlock);
            }
            if self.nr_threads >= MAX_CHAIN {
                core::hint::cold_path();
                if self.beyond == Some(owner) {
                    return Ok(Some(MAX_CHAIN));
                }
                // Where `beyond` is one of a cycle, which has one thread more at most.
                if self.nr_threads == 2 * MAX_CHAIN + 1 {
                    return Err(PiError::ChainTooLong);
                }
                self.beyond.get_or_insert(owner);
            }
            self.nr_threads += 1;
            self.next = owner_of_blocker(world, owner);
        }
        match self.next {
            Some(_) => Ok(None),
            None if self.nr_threads > MAX_CHAIN => Err(PiError::ChainTooLong),
            None => Ok(Some(self.nr_threads)),
        }
    }
}

/// The thread that holds what `tid` waits for.
#[inline]
fn owner_of_blocker<W: PiWorld>(world: &W, tid: ThreadId) -> Option<ThreadId> {
    world.owner_of(world.blocked_on(tid)?)
}

/// A walk along a chain of owners, from one whose waiters have changed.
#[derive(Clone, Copy, Debug)]
pub struct Walk {
    next: Option<ThreadId>,
    nr_visited: usize,
}

impl Walk {
    /// A walk that begins at the thread whose effective priority may have changed.
    #[inline]
    #[must_use]
    pub const fn new(tid: ThreadId) -> Self {
        Self::behind(0, tid)
    }

    /// One that has come to `tid` behind so many others.
    #[inline]
    #[must_use]
    pub const fn behind(nr_visited: usize, tid: ThreadId) -> Self {
        Self {
            next: Some(tid),
            nr_visited,
        }
    }

    /// How many threads it has looked at.
    #[inline]
    #[must_use]
    pub const fn nr_visited(&self) -> usize {
        self.nr_visited
    }

    /// The thread the next step looks at; `None` at the end of the walk.
    #[inline]
    #[must_use]
    pub const fn pending(&self) -> Option<ThreadId> {
        self.next
    }

    /// Allows another [`MAX_CHAIN`] threads, after the kernel has let interrupts in.
    #[inline]
    pub const fn renew(&mut self) {
        self.nr_visited = 0;
    }

    /// Looks at the next thread: what to change, or `None` if its priority is right. The walk goes
    /// to the end of the chain ([`pending`](Self::pending) says whether there is more), also behind
    /// a thread whose priority is right: another walk may have changed that one and have been
    /// interrupted before its next step.
    ///
    /// The change must be executed before the next step.
    ///
    /// # Errors
    /// [`PiError::ChainTooLong`] if there is more to do after [`MAX_CHAIN`] threads. The changes
    /// made so far are right; to make the others, let interrupts in, [`renew`](Self::renew) and
    /// go on. It can happen though a [`Check`] was made for each wait, because a chain may also
    /// grow at the end that was already checked.
    #[inline]
    pub fn step<W: PiWorld>(&mut self, world: &W) -> Result<Option<Change>, PiError> {
        let Some(tid) = self.next else {
            return Ok(None);
        };
        let from = world.effective(tid);
        let to = effective_priority(world.base(tid), world.top_waiter(tid));
        let blocked_on = world.blocked_on(tid);
        if self.nr_visited == MAX_CHAIN && (from != to || blocked_on.is_some()) {
            return Err(PiError::ChainTooLong);
        }
        self.nr_visited += 1;
        self.next = blocked_on.and_then(|mutex| world.owner_of(mutex));
        if from == to {
            return Ok(None);
        }
        Ok(Some(Change {
            tid,
            from,
            to,
            placement: if to.is_more_important_than(from) {
                Placement::Tail
            } else {
                Placement::Head
            },
        }))
    }
}
