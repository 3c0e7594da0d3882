//! Messages in the making, and the order in which they come into the log.
//!
//! Whoever logs takes a buffer, fills it and publishes it, which puts it into a queue; the queue is then emptied into the
//! log in short steps. None of that waits: a buffer is taken by one atomic exchange, and only one step is under way at a time,
//! but who finds one under way leaves the rest to it. Each step is whole when it ends, so whoever comes next goes on where
//! the last one stopped: a thread that is preempted between two steps holds nobody up.
//!
//! # Invariants
//! * A buffer's bit in `taken` is set from when it is taken until it is in the log or given up. While it is not published
//!   only who took it touches it; afterwards only steps read it.
//! * A number is given to each published buffer; the queue has it at that number modulo the queue's length. There are as
//!   many places as buffers, so a place is empty when its number is given.
//! * `copy` belongs to who has set `copying`.
//! * Who clears `copying` looks at the queue behind it, and who publishes tries to set it behind it. So one of the two sees
//!   the other, and nothing that is published stays behind.

use core::sync::atomic::compiler_fence;

use super::atomic::{
    AtomicBool, AtomicU8, AtomicU32, Cell,
    Ordering::{AcqRel, Acquire, Relaxed, Release},
};

/// Up to 32 buffers of messages. All zeros is one without messages.
pub(crate) struct Messages<const N: usize, const SIZE: usize> {
    taken: AtomicU32,
    buffers: [Cell<Text<SIZE>>; N],
    /// Numbers of published buffers, from 1 on; 0 is none.
    queue: [AtomicU8; N],
    /// The number that the next published one gets.
    next: AtomicU32,
    copying: AtomicBool,
    copy: Cell<Copy>,
}

/// Bytes of a message.
struct Text<const SIZE: usize> {
    bytes: [u8; SIZE],
    /// More than `SIZE` if there was no room for all.
    len: usize,
}

/// How far the queue is emptied.
struct Copy {
    head: u32,
    /// There is known to be room for the first one.
    has_room: bool,
    /// Bytes of it that are in the log.
    done: usize,
}

// SAFETY: see the invariants.
unsafe impl<const N: usize, const SIZE: usize> Sync for Messages<N, SIZE> {}

/// Where messages come into. What each does is short.
pub(crate) trait Log {
    /// Whether there is room for so many bytes.
    fn has_room(&self, len: usize) -> bool;
    /// Puts some of these bytes, which are one at least, in behind `done` bytes of the same message; says how many.
    fn put(&mut self, done: usize, bytes: &[u8]) -> usize;
    /// A message of so many bytes is complete: readers may see it.
    fn end(&mut self, len: usize);
}

/// What came of a step.
#[derive(Clone, core::marker::Copy, PartialEq, Eq, Debug)]
pub(crate) enum Step {
    /// There may be more to do.
    More,
    /// Nothing is left, or another one goes on with it.
    Done,
    /// The log is full.
    Full,
}

impl<const N: usize, const SIZE: usize> Messages<N, SIZE> {
    /// One without messages, where memory is not just zeroed.
    #[cfg(test)]
    pub(crate) fn new() -> Self {
        let text = || Text {
            bytes: [0; SIZE],
            len: 0,
        };
        Self {
            taken: AtomicU32::new(0),
            buffers: core::array::from_fn(|_| Cell::new(text())),
            queue: core::array::from_fn(|_| AtomicU8::new(0)),
            next: AtomicU32::new(0),
            copying: AtomicBool::new(false),
            copy: Cell::new(Copy {
                head: 0,
                has_room: false,
                done: 0,
            }),
        }
    }

    /// Takes an empty buffer.
    pub(crate) fn take(&self) -> Option<usize> {
        loop {
            let taken = self.taken.load(Relaxed);
            let free = (!taken).trailing_zeros();
            if free as usize >= N {
                return None;
            }
            if self.taken.fetch_or(1 << free, AcqRel) & 1 << free == 0 {
                // SAFETY: it was just taken.
                self.buffers[free as usize].with_mut(|text| unsafe { (*text).len = 0 });
                return Some(free as usize);
            }
        }
    }

    /// Puts bytes into a buffer.
    ///
    /// # Safety
    /// The caller took it, and has neither published it nor given it up.
    pub(crate) unsafe fn push(&self, buffer: usize, bytes: &[u8]) {
        self.buffers[buffer].with_mut(|text| {
            // SAFETY: the caller's duty.
            let text = unsafe { &mut *text };
            let end = text.len.saturating_add(bytes.len());
            if let Some(room) = text.bytes.get_mut(text.len..end) {
                room.copy_from_slice(bytes);
            }
            text.len = end;
        });
    }

    /// Whether a buffer had room for all that was pushed.
    ///
    /// # Safety
    /// As [`push`](Self::push).
    pub(crate) unsafe fn is_whole(&self, buffer: usize) -> bool {
        // SAFETY: the caller's duty.
        self.buffers[buffer].with(|text| unsafe { (*text).len } <= SIZE)
    }

    /// Gives a buffer back.
    ///
    /// # Safety
    /// As [`push`](Self::push).
    pub(crate) unsafe fn give_up(&self, buffer: usize) {
        self.taken.fetch_and(!(1 << buffer), Release);
    }

    /// Publishes a buffer. [`step`](Self::step) is to follow until it is done.
    ///
    /// # Context
    /// Between the two accesses, those who publish afterwards wait for this one: interrupts are off.
    ///
    /// # Safety
    /// As [`push`](Self::push), and it is whole.
    pub(crate) unsafe fn publish(&self, buffer: usize) {
        self.queue[self.number()].store(buffer as u8 + 1, Release);
    }

    /// The place of the next number, which a message is to follow into.
    #[inline(always)]
    pub(crate) fn number(&self) -> usize {
        // Behind the emptying of the place, which who had the number before has seen.
        self.next.fetch_add(1, AcqRel) as usize % N
    }

    /// Puts some bytes of what was published first into the log.
    ///
    /// # Context
    /// Any. With interrupts off it is short for those that would come meanwhile.
    pub(crate) fn step(&self, log: &mut impl Log) -> Step {
        if self.copying.swap(true, AcqRel) {
            return Step::Done;
        }
        let (step, head) = self.copy.with_mut(|copy| {
            // SAFETY: `copying` was just set.
            let copy = unsafe { &mut *copy };
            (self.continue_with(copy, log), copy.head)
        });
        self.copying.swap(false, AcqRel);
        if step == Step::Done && self.is_queued(head) {
            return Step::More;
        }
        step
    }

    fn is_queued(&self, number: u32) -> bool {
        self.queue[number as usize % N].load(Acquire) != 0
    }

    /// One of: looking for room, some bytes, the end.
    fn continue_with(&self, copy: &mut Copy, log: &mut impl Log) -> Step {
        let place = &self.queue[copy.head as usize % N];
        let Some(buffer) = usize::from(place.load(Acquire)).checked_sub(1) else {
            return Step::Done;
        };
        self.buffers[buffer % N].with(|text| {
            // SAFETY: it is published.
            let text = unsafe { &*text };
            // SAFETY: what is published is whole, and no more of it is in the log than there is.
            let rest = unsafe { text.bytes.get_unchecked(copy.done..text.len) };
            if !copy.has_room {
                copy.has_room = log.has_room(text.len);
                if !copy.has_room {
                    return Step::Full;
                }
            } else if !rest.is_empty() {
                copy.done += log.put(copy.done, rest);
            } else {
                // First of all, for one that takes over: a message may be lost then, and none comes twice.
                copy.has_room = false;
                copy.done = 0;
                // The number of bytes is of the first message always, wherever a CPU was halted.
                compiler_fence(Release);
                copy.head = copy.head.wrapping_add(1);
                place.store(0, Relaxed);
                log.end(text.len);
                self.taken.fetch_and(!(1 << buffer), Release);
            }
            Step::More
        })
    }

    /// Has a step that does not end within `patience` looks be over: whoever was at it does not run any more. So with places that were
    /// taken for messages which do not come.
    ///
    /// # Safety
    /// So it is.
    pub(crate) unsafe fn take_over(&self, patience: u32) {
        if (0..patience).all(|_| self.copying.load(Acquire)) {
            self.copying.store(false, Release);
        }
        let next = self.next.load(Acquire);
        self.copy.with_mut(|copy| {
            // SAFETY: the only one who runs.
            let head = unsafe { (*copy).head };
            let mut to = head;
            for from in 0..next.wrapping_sub(head) {
                let place = &self.queue[head.wrapping_add(from) as usize % N];
                let message = place.swap(0, Relaxed);
                if message != 0 {
                    self.queue[to as usize % N].store(message, Relaxed);
                    to = to.wrapping_add(1);
                }
            }
            self.next.store(to, Release);
        });
    }
}
