//! Threads in order of importance, equals first in, first out.
//!
//! A bitmap says which of the levels hold threads; each level is a circular doubly linked list
//! through [`Links`], entered at its head; the tail is the head's `prev`. There is no number that
//! is not a thread's, so only the bitmap says that a level is empty. A thread in no queue is a
//! circle of one already: queueing it where no equals are changes no links.
//!
//! # Invariants
//! * The bit of a level is set iff it holds a thread; its head means something only then, but for the last level, which is
//!   no priority's: its head is who is to run when no thread is queued.
//! * A thread is in at most one queue of those that share [`Links`], at the priority it was pushed
//!   with: `remove` and the others believe their caller in that. A caller that errs gets a wrong
//!   order, never memory unsafety.

use crate::levels::Levels;
use crate::{Links, Priority, ThreadId};

/// A queue of threads by priority; every operation is O(1) but iteration.
///
/// All operations on a queue must be given the same [`Links`].
#[derive(Clone, Debug)]
pub struct PrioQueue {
    /// Those that are not empty.
    levels: Levels,
    /// First thread of each level.
    head: [u8; Levels::NR],
}

impl PrioQueue {
    /// Where the bits of the levels in use are, for assembly, as [`PrioCounts::LEVELS`](crate::PrioCounts::LEVELS).
    pub const LEVELS: usize = core::mem::offset_of!(Self, levels);
    /// Where the first thread of each level is, for assembly: a byte each.
    pub const HEAD: usize = core::mem::offset_of!(Self, head);

    /// A queue without threads.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            levels: Levels::new(),
            head: [0; Levels::NR],
        }
    }

    /// Whether no thread is queued.
    #[cfg_attr(feature = "fast-paths", inline(always))]
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.levels.is_empty()
    }

    /// Whether a thread of this priority is queued.
    #[cfg_attr(feature = "fast-paths", inline(always))]
    #[must_use]
    pub const fn has_level(&self, prio: Priority) -> bool {
        self.levels.has(prio)
    }

    /// Queues a thread behind its equals.
    #[cfg_attr(feature = "fast-paths", inline(always))]
    pub const fn push_back<const N: usize, W: Copy>(
        &mut self,
        links: &Links<N, W>,
        tid: ThreadId,
        prio: Priority,
    ) {
        if self.levels.insert(prio) {
            self.set_head(prio, tid);
        } else {
            links.link_before(self.head(prio), tid);
        }
    }

    /// Queues a thread before its equals.
    #[cfg_attr(feature = "fast-paths", inline(always))]
    pub const fn push_front<const N: usize, W: Copy>(
        &mut self,
        links: &Links<N, W>,
        tid: ThreadId,
        prio: Priority,
    ) {
        if !self.levels.insert(prio) {
            links.link_before(self.head(prio), tid);
        }
        self.set_head(prio, tid);
    }

    /// Takes a queued thread out, wherever it stands; says whether no other of its priority is left. `prio` is what it was
    /// pushed with.
    #[cfg_attr(feature = "fast-paths", inline(always))]
    pub const fn remove<const N: usize, W: Copy>(
        &mut self,
        links: &Links<N, W>,
        tid: ThreadId,
        prio: Priority,
    ) -> bool {
        let next = links.next(tid);
        let is_last = next.raw() == tid.raw();
        if is_last {
            self.levels.remove(prio);
        } else {
            links.unlink(tid, next);
            if self.is_head(tid, prio) {
                self.set_head(prio, next);
            }
        }
        is_last
    }

    /// The most important thread; of equals, the first.
    #[cfg_attr(feature = "fast-paths", inline(always))]
    #[must_use]
    pub const fn top(&self) -> Option<(ThreadId, Priority)> {
        self.first_of(self.levels.first())
    }

    /// The priority of the most important thread.
    #[cfg_attr(feature = "fast-paths", inline(always))]
    #[must_use]
    pub const fn top_priority(&self) -> Option<Priority> {
        self.levels.first_priority()
    }

    /// Takes the most important thread out; of equals, the first.
    #[cfg_attr(feature = "fast-paths", inline(always))]
    pub const fn pop<const N: usize, W: Copy>(
        &mut self,
        links: &Links<N, W>,
    ) -> Option<(ThreadId, Priority)> {
        let Some((tid, prio)) = self.top() else {
            return None;
        };
        let next = links.next(tid);
        if next.raw() == tid.raw() {
            self.levels.remove(prio);
        } else {
            links.unlink(tid, next);
            self.set_head(prio, next);
        }
        Some((tid, prio))
    }

    /// Sends the first thread of a level behind its equals. Harmless if the level is empty.
    #[cfg_attr(feature = "fast-paths", inline(always))]
    pub const fn rotate<const N: usize, W: Copy>(&mut self, links: &Links<N, W>, prio: Priority) {
        self.set_head(prio, links.next(self.head(prio)));
    }

    /// The reverse of [`rotate`](Self::rotate): the last thread of the level becomes its first.
    #[cfg_attr(feature = "fast-paths", inline(always))]
    pub(crate) const fn rotate_back<const N: usize, W: Copy>(
        &mut self,
        links: &Links<N, W>,
        prio: Priority,
    ) {
        self.set_head(prio, links.prev(self.head(prio)));
    }

    /// Whether a level holds more than one thread.
    #[cfg_attr(feature = "fast-paths", inline(always))]
    #[must_use]
    pub const fn has_peer<const N: usize, W: Copy>(
        &self,
        links: &Links<N, W>,
        prio: Priority,
    ) -> bool {
        let head = self.head(prio);
        self.has_level(prio) && links.next(head).raw() != head.raw()
    }

    /// Whether a queued thread is the first of its level.
    #[cfg_attr(feature = "fast-paths", inline(always))]
    #[must_use]
    pub const fn is_head(&self, tid: ThreadId, prio: Priority) -> bool {
        self.head(prio).raw() == tid.raw()
    }

    /// The thread after a queued one in order of importance.
    ///
    /// To take threads out while going through the queue, ask for the next one before removing.
    #[cfg_attr(feature = "fast-paths", inline(always))]
    #[must_use]
    pub const fn next_after<const N: usize, W: Copy>(
        &self,
        links: &Links<N, W>,
        tid: ThreadId,
        prio: Priority,
    ) -> Option<(ThreadId, Priority)> {
        let next = links.next(tid);
        if !self.is_head(next, prio) {
            return Some((next, prio));
        }
        self.first_of(self.levels.below(prio).first())
    }

    /// All threads in order of importance, equals in the order of the queue.
    #[cfg_attr(feature = "fast-paths", inline(always))]
    #[must_use]
    pub const fn iter<'a, const N: usize, W: Copy>(
        &'a self,
        links: &'a Links<N, W>,
    ) -> Iter<'a, N, W> {
        Iter {
            queue: self,
            links,
            next: self.top(),
        }
    }

    /// First thread of a level, if there is such a level.
    #[cfg_attr(feature = "fast-paths", inline(always))]
    const fn first_of(&self, level: Option<usize>) -> Option<(ThreadId, Priority)> {
        match level {
            // From `level` itself, not by way of the priority, which would narrow it to a byte.
            Some(level) => Some((
                ThreadId::new(self.head[level & (Levels::NR - 1)]),
                Priority::from_level(level as u8),
            )),
            None => None,
        }
    }

    /// A queue without threads, which gives `last` as the first one of its last level while it has none.
    pub(crate) const fn with_last(last: ThreadId) -> Self {
        let mut queue = Self::new();
        queue.head[Self::LAST] = last.raw();
        queue
    }

    /// The level of who was given to [`with_last`](Self::with_last): behind that of every priority.
    pub(crate) const LAST: usize = Levels::NR - 1;

    /// The most important thread and its level, or the last one.
    #[cfg_attr(feature = "fast-paths", inline(always))]
    pub(crate) const fn top_or_last(&self) -> (ThreadId, usize) {
        let level = self.levels.first_or(Self::LAST);
        (ThreadId::new(self.head[level & (Levels::NR - 1)]), level)
    }

    /// First thread of a level that is not empty.
    #[cfg_attr(feature = "fast-paths", inline(always))]
    const fn head(&self, prio: Priority) -> ThreadId {
        ThreadId::new(self.head[Levels::index(prio)])
    }

    /// Makes a queued thread the first of its level: those before it come behind.
    #[cfg_attr(feature = "fast-paths", inline(always))]
    pub(crate) const fn set_head(&mut self, prio: Priority, tid: ThreadId) {
        self.head[Levels::index(prio)] = tid.raw();
    }
}

impl Default for PrioQueue {
    fn default() -> Self {
        Self::new()
    }
}

/// Iterator over a [`PrioQueue`] in order of importance.
#[derive(Clone, Debug)]
pub struct Iter<'a, const N: usize, W: Copy> {
    queue: &'a PrioQueue,
    links: &'a Links<N, W>,
    next: Option<(ThreadId, Priority)>,
}

impl<const N: usize, W: Copy> Iterator for Iter<'_, N, W> {
    type Item = (ThreadId, Priority);

    #[cfg_attr(feature = "fast-paths", inline(always))]
    fn next(&mut self) -> Option<Self::Item> {
        let (tid, prio) = self.next?;
        self.next = self.queue.next_after(self.links, tid, prio);
        Some((tid, prio))
    }
}
