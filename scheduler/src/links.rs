//! The links of all queues: for each thread, the one after and the one before it.
//!
//! A thread stands in at most one [`PrioQueue`](crate::PrioQueue) of those that share a table, so
//! one serves the run queue of a CPU and one all wait queues.

use core::cell::Cell;

use crate::ThreadId;

/// The links of the threads `0..N`, and with each a word that the table's owner keeps there. `N` is a power of two, at most 256.
///
/// A thread that stands in no queue is a circle of one. A number of `N` or above
/// is taken modulo `N`; it never reaches beyond the table. A cache line has eight threads, or 32 without words.
///
/// Each link is a cell, since those who change one queue's leave those of others alone, which others may change at the same time.
#[derive(Clone, Debug)]
#[repr(align(64))]
pub struct Links<const N: usize, W = ()>([Link<W>; N]);

/// Two bytes, or eight with a word of four: so one instruction finds that of a number. Whoever goes from one thread to the next
/// finds the next one's word beside the links, and mostly in the same cache line.
#[derive(Clone, Debug)]
#[repr(C)]
struct Link<W> {
    word: W,
    next: Cell<u8>,
    prev: Cell<u8>,
}

impl<const N: usize, W: Copy> Links<N, W> {
    /// Where the thread after the first one is, for assembly: a byte.
    pub const NEXT: usize = core::mem::offset_of!(Link<W>, next);
    /// How far each one's is behind the one's before it.
    pub const STRIDE: usize = size_of::<Link<W>>();

    /// Makes it a table of which no thread is queued, with these words, whatever the bytes were before. One thread after the other:
    /// so it keeps to general registers.
    pub fn reset(&mut self, word: impl Fn(ThreadId) -> W) {
        for id in 0..N {
            let id = core::hint::black_box(id);
            self.0[id % N] = Link::alone(id as u8, word(ThreadId::new(id as u8)));
        }
    }

    /// The word of a thread, which [`reset`](Self::reset) gave it.
    #[inline(always)]
    #[must_use]
    pub const fn word(&self, tid: ThreadId) -> W {
        self.of(tid).word
    }

    /// The thread after `tid`.
    #[inline(always)]
    pub(crate) const fn next(&self, tid: ThreadId) -> ThreadId {
        ThreadId::new(self.of(tid).next.get())
    }

    /// The thread before `tid`.
    #[inline(always)]
    pub(crate) const fn prev(&self, tid: ThreadId) -> ThreadId {
        ThreadId::new(self.of(tid).prev.get())
    }

    /// Puts `tid` between `next` and the thread before it.
    #[inline(always)]
    pub(crate) const fn link_before(&self, next: ThreadId, tid: ThreadId) {
        let prev = self.prev(next);
        self.of(tid).next.replace(next.raw());
        self.of(tid).prev.replace(prev.raw());
        self.of(prev).next.replace(tid.raw());
        self.of(next).prev.replace(tid.raw());
    }

    /// Takes `tid` out of its circle and makes it one of its own; `next` is the thread after it.
    #[inline(always)]
    pub(crate) const fn unlink(&self, tid: ThreadId, next: ThreadId) {
        let prev = self.prev(tid);
        self.of(prev).next.replace(next.raw());
        self.of(next).prev.replace(prev.raw());
        self.of(tid).next.replace(tid.raw());
        self.of(tid).prev.replace(tid.raw());
    }

    #[inline(always)]
    const fn of(&self, tid: ThreadId) -> &Link<W> {
        &self.0[tid.index() & (N - 1)]
    }
}

impl<W> Link<W> {
    /// That of a thread which stands in no queue.
    const fn alone(id: u8, word: W) -> Self {
        Self {
            word,
            next: Cell::new(id),
            prev: Cell::new(id),
        }
    }
}

impl<const N: usize> Links<N> {
    /// A table for `N` threads, none of them queued.
    #[must_use]
    pub const fn new() -> Self {
        const { assert!(N.is_power_of_two() && N <= 256) };
        let mut links = [const { Link::alone(0, ()) }; N];
        let mut id = 0;
        while id < N {
            links[id] = Link::alone(id as u8, ());
            id += 1;
        }
        Self(links)
    }
}

impl<const N: usize> Default for Links<N> {
    fn default() -> Self {
        Self::new()
    }
}
