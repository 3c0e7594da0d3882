//! The links of all queues: for each thread, the one after and the one before it.
//!
//! A thread stands in at most one [`PrioQueue`](crate::PrioQueue) of those that share a table, so
//! one serves all run queues of the system and one all wait queues. Two arrays of bytes, not one of
//! pairs, spare the instruction that would double the index.

use crate::ThreadId;

/// The links of the threads `0..N`. `N` is a power of two, at most 256.
///
/// A thread that stands in no queue is a circle of one. A number of `N` or above
/// is taken modulo `N`; it never reaches beyond the tables.
#[derive(Clone, Debug)]
pub struct Links<const N: usize> {
    next: [u8; N],
    prev: [u8; N],
}

impl<const N: usize> Links<N> {
    /// Where the thread after each one is, for assembly: a byte each.
    pub const NEXT: usize = core::mem::offset_of!(Self, next);

    /// A table for `N` threads, none of them queued.
    #[must_use]
    pub const fn new() -> Self {
        const { assert!(N.is_power_of_two() && N <= 256) };
        let mut single = [0; N];
        let mut id = 0;
        while id < N {
            single[id] = id as u8;
            id += 1;
        }
        Self {
            next: single,
            prev: single,
        }
    }

    /// Makes it a table of which no thread is queued, whatever the bytes were before. One thread after the other: so it keeps
    /// to general registers.
    pub fn reset(&mut self) {
        for id in 0..N {
            let id = core::hint::black_box(id);
            self.next[id % N] = id as u8;
            self.prev[id % N] = id as u8;
        }
    }

    /// The thread after `tid`.
    #[inline(always)]
    pub(crate) const fn next(&self, tid: ThreadId) -> ThreadId {
        ThreadId::new(self.next[Self::index(tid)])
    }

    /// The thread before `tid`.
    #[inline(always)]
    pub(crate) const fn prev(&self, tid: ThreadId) -> ThreadId {
        ThreadId::new(self.prev[Self::index(tid)])
    }

    /// Puts `tid` between `next` and the thread before it.
    #[inline(always)]
    pub(crate) const fn link_before(&mut self, next: ThreadId, tid: ThreadId) {
        let prev = self.prev(next);
        self.next[Self::index(tid)] = next.raw();
        self.prev[Self::index(tid)] = prev.raw();
        self.next[Self::index(prev)] = tid.raw();
        self.prev[Self::index(next)] = tid.raw();
    }

    /// Takes `tid` out of its circle and makes it one of its own; `next` is the thread after it.
    #[inline(always)]
    pub(crate) const fn unlink(&mut self, tid: ThreadId, next: ThreadId) {
        let prev = self.prev(tid);
        self.next[Self::index(prev)] = next.raw();
        self.prev[Self::index(next)] = prev.raw();
        self.next[Self::index(tid)] = tid.raw();
        self.prev[Self::index(tid)] = tid.raw();
    }

    #[inline(always)]
    const fn index(tid: ThreadId) -> usize {
        tid.index() & (N - 1)
    }
}

impl<const N: usize> Default for Links<N> {
    fn default() -> Self {
        Self::new()
    }
}
