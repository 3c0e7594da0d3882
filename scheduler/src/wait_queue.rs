//! A [`PrioQueue`] for those who wait for an object, of whom there is mostly one.
//!
//! # Invariants
//! * `sole` says which of three states the queue is in: empty, one thread, or those in `many`.
//! * `many` is empty in the first two, and not in the third.

use crate::{Links, PrioQueue, Priority, ThreadId};

/// Threads by priority, equals first in, first out. The only one there is costs one store to queue and one to take out.
///
/// A thread of number 0 is never queued: the boot CPU's idle thread, which cannot wait. All operations on a queue must be
/// given the same [`Links`].
#[derive(Clone, Debug)]
pub struct WaitQueue {
    sole: Sole,
    /// A thread was moved since that was forgotten.
    was_moved: bool,
    many: PrioQueue,
}

/// The only thread, and its rank in the upper byte; or no thread, and which of the other states it is. One word, so that a
/// state is told by one comparison.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Sole(u16);

impl Sole {
    const EMPTY: Self = Self(0);
    const MANY: Self = Self(1 << 8);

    #[cfg_attr(feature = "fast-paths", inline(always))]
    const fn new(tid: ThreadId, prio: Priority) -> Self {
        Self(tid.raw() as u16 | (prio.rank() as u16) << 8)
    }

    #[cfg_attr(feature = "fast-paths", inline(always))]
    const fn thread(self) -> Option<(ThreadId, Priority)> {
        let [tid, rank] = self.0.to_le_bytes();
        if tid == 0 {
            None
        } else {
            Some((ThreadId::new(tid), Priority::from_level(rank)))
        }
    }

    #[cfg_attr(feature = "fast-paths", inline(always))]
    const fn is(self, other: Self) -> bool {
        self.0 == other.0
    }
}

impl WaitQueue {
    /// Where it says which thread is the only one, for assembly: two bytes, its number and its rank; zeros say that there is
    /// none.
    pub const SOLE: usize = core::mem::offset_of!(Self, sole);

    /// A queue without threads.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            sole: Sole::EMPTY,
            was_moved: false,
            many: PrioQueue::new(),
        }
    }

    /// Whether no thread is queued.
    #[cfg_attr(feature = "fast-paths", inline(always))]
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.sole.is(Sole::EMPTY)
    }

    /// Queues a thread behind its equals.
    #[cfg_attr(feature = "fast-paths", inline(always))]
    pub const fn push_back<const N: usize>(
        &mut self,
        links: &Links<N>,
        tid: ThreadId,
        prio: Priority,
    ) {
        debug_assert!(tid.raw() != 0, "the idle thread cannot wait");
        if self.is_empty() {
            self.push_first(tid, prio);
        } else {
            self.push_further(links, tid, prio);
        }
    }

    /// Queues a thread where there is no other.
    #[inline(always)]
    pub const fn push_first(&mut self, tid: ThreadId, prio: Priority) {
        debug_assert!(self.is_empty(), "others wait");
        self.sole = Sole::new(tid, prio);
    }

    #[inline(never)]
    const fn push_further<const N: usize>(
        &mut self,
        links: &Links<N>,
        tid: ThreadId,
        prio: Priority,
    ) {
        if let Some((first, its)) = self.sole.thread() {
            self.many.push_back(links, first, its);
            self.sole = Sole::MANY;
        }
        self.many.push_back(links, tid, prio);
    }

    /// Takes a queued thread out, wherever it stands. `prio` is what it was pushed with.
    #[cfg_attr(feature = "fast-paths", inline(always))]
    pub const fn remove<const N: usize>(
        &mut self,
        links: &Links<N>,
        tid: ThreadId,
        prio: Priority,
    ) {
        if self.sole.is(Sole::MANY) {
            if self.many.remove(links, tid, prio) {
                self.note_end();
            }
        } else {
            self.sole = Sole::EMPTY;
        }
    }

    /// Moves a queued thread behind those of another priority. `from` is what it was pushed with.
    #[cfg_attr(feature = "fast-paths", inline(always))]
    pub const fn requeue<const N: usize>(
        &mut self,
        links: &Links<N>,
        tid: ThreadId,
        from: Priority,
        to: Priority,
    ) {
        self.was_moved = true;
        self.remove(links, tid, from);
        self.push_back(links, tid, to);
    }

    /// Whether a thread was [moved](Self::requeue) since that was [forgotten](Self::forget_moves): one further on may now stand
    /// before.
    #[cfg_attr(feature = "fast-paths", inline(always))]
    #[must_use]
    pub const fn was_moved(&self) -> bool {
        self.was_moved
    }

    /// Forgets that threads were moved: whoever goes through the queue begins.
    #[cfg_attr(feature = "fast-paths", inline(always))]
    pub const fn forget_moves(&mut self) {
        self.was_moved = false;
    }

    /// Threads may have been moved.
    pub const fn note_moves(&mut self) {
        self.was_moved = true;
    }

    #[cfg_attr(feature = "fast-paths", inline(always))]
    const fn note_end(&mut self) {
        if self.many.is_empty() {
            self.sole = Sole::EMPTY;
        }
    }

    /// The most important thread; of equals, the first.
    #[cfg_attr(feature = "fast-paths", inline(always))]
    #[must_use]
    pub const fn top(&self) -> Option<(ThreadId, Priority)> {
        match self.sole.thread() {
            Some(sole) => Some(sole),
            None => self.many.top(),
        }
    }

    /// The priority of the most important thread.
    #[cfg_attr(feature = "fast-paths", inline(always))]
    #[must_use]
    pub const fn top_priority(&self) -> Option<Priority> {
        match self.sole.thread() {
            Some((_, prio)) => Some(prio),
            None => self.many.top_priority(),
        }
    }

    /// Takes the most important thread out; of equals, the first.
    #[cfg_attr(feature = "fast-paths", inline(always))]
    pub const fn pop<const N: usize>(&mut self, links: &Links<N>) -> Option<(ThreadId, Priority)> {
        match self.sole.thread() {
            Some(sole) => {
                self.sole = Sole::EMPTY;
                Some(sole)
            }
            None if self.is_empty() => None,
            None => self.pop_of_many(links),
        }
    }

    #[cfg_attr(feature = "fast-paths", inline(always))]
    const fn pop_of_many<const N: usize>(
        &mut self,
        links: &Links<N>,
    ) -> Option<(ThreadId, Priority)> {
        let first = self.many.pop(links);
        self.note_end();
        first
    }

    /// Takes the thread out if it is the only one.
    #[cfg_attr(feature = "fast-paths", inline(always))]
    pub const fn pop_only(&mut self) -> Option<(ThreadId, Priority)> {
        let sole = self.sole.thread();
        if sole.is_some() {
            self.sole = Sole::EMPTY;
        }
        sole
    }

    /// The thread after a queued one in order of importance.
    #[cfg_attr(feature = "fast-paths", inline(always))]
    #[must_use]
    pub const fn next_after<const N: usize>(
        &self,
        links: &Links<N>,
        tid: ThreadId,
        prio: Priority,
    ) -> Option<(ThreadId, Priority)> {
        if self.sole.is(Sole::MANY) {
            self.many.next_after(links, tid, prio)
        } else {
            None
        }
    }
}

impl Default for WaitQueue {
    fn default() -> Self {
        Self::new()
    }
}
