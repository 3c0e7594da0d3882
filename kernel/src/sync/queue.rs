//! Bounded message queue.
//!
//! A message goes straight from sender to receiver when one waits; otherwise it rests in the queue's ring. Messages
//! are moved inside a kernel section, so they are small: [`Queue::MAX_MESSAGE`] bytes at most, checked at compile time.

use core::cell::UnsafeCell;
use core::mem::MaybeUninit;

use crate::error::Error;
use crate::sched;
use crate::section::{self, Any, Kernel, Section, Waiters};
use crate::thread::tcb::{TcbRef, Wait};
use crate::time::Instant;
use crate::wait;

/// A queue of up to `N` messages.
///
/// ```ignore
#[doc = include_str!("examples/queue.rs")]
/// ```
pub struct Queue<T, const N: usize> {
    ring: UnsafeCell<Ring<T, N>>,
    senders: Waiters,
    receivers: Waiters,
}

struct Ring<T, const N: usize> {
    slots: [MaybeUninit<T>; N],
    head: usize,
    len: usize,
}

// SAFETY: the ring changes inside a section only, and messages go from thread to thread.
unsafe impl<T: Send, const N: usize> Sync for Queue<T, N> {}

impl<T, const N: usize> Default for Queue<T, N> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T, const N: usize> Ring<T, N> {
    #[inline(always)]
    fn push(&mut self, message: T) {
        debug_assert!(self.len < N);
        let mut at = self.head + self.len;
        if at >= N {
            at -= N;
        }
        if let Some(slot) = self.slots.get_mut(at) {
            slot.write(message);
            self.len += 1;
        }
    }

    #[inline(always)]
    fn pop(&mut self) -> Option<T> {
        if self.len == 0 {
            return None;
        }
        let slot = self.slots.get(self.head)?;
        // SAFETY: the `len` slots from `head` on hold messages; this one leaves them.
        let message = unsafe { slot.assume_init_read() };
        self.head += 1;
        if self.head == N {
            self.head = 0;
        }
        self.len -= 1;
        Some(message)
    }
}

impl<T, const N: usize> Queue<T, N> {
    /// Largest message in bytes: moving it bounds the time with interrupts off.
    pub const MAX_MESSAGE: usize = 128;

    /// An empty queue.
    #[must_use]
    pub const fn new() -> Self {
        const { assert!(N > 0, "a queue holds at least one message") };
        const {
            assert!(
                size_of::<T>() <= Self::MAX_MESSAGE,
                "send a reference to larger messages"
            )
        };
        let ring = Ring {
            slots: [const { MaybeUninit::uninit() }; N],
            head: 0,
            len: 0,
        };
        Self {
            ring: UnsafeCell::new(ring),
            senders: Waiters::new(),
            receivers: Waiters::new(),
        }
    }

    #[inline(always)]
    fn ring<'k>(&'k self, _: &'k mut Kernel) -> &'k mut Ring<T, N> {
        // SAFETY: reached by a section only, which is borrowed as long as the reference lives.
        unsafe { &mut *self.ring.get() }
    }

    /// Messages that wait to be received.
    pub fn len(&self) -> usize {
        let mut section = section::enter();
        let len = self.ring(&mut section).len;
        section.leave_quietly();
        len
    }

    /// Whether no message waits.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Sends, waiting for room as long as it takes.
    ///
    /// # Errors
    /// The message comes back with [`Error::WrongContext`].
    #[inline]
    pub fn send(&self, message: T) -> Result<(), (T, Error)> {
        self.send_until(message, Instant::NEVER)
    }

    /// Sends if there is room.
    ///
    /// # Errors
    /// The message comes back with [`Error::WouldBlock`].
    ///
    /// # Context
    /// Threads and interrupt handlers.
    #[inline]
    pub fn try_send(&self, message: T) -> Result<(), (T, Error)> {
        let mut section = section::enter();
        let result = match self.give(&mut section, message) {
            None => Ok(()),
            Some(message) => Err((message, Error::WouldBlock)),
        };
        section.leave();
        result
    }

    /// Sends, waiting for room until `deadline` at most.
    ///
    /// # Errors
    /// The message comes back with [`Error::TimedOut`] or [`Error::WrongContext`].
    #[inline]
    pub fn send_until(&self, message: T, deadline: Instant) -> Result<(), (T, Error)> {
        let mut section = section::enter();
        let result = match self.give(&mut section, message) {
            None => Ok(()),
            Some(message) if sched::may_block() => {
                return self.send_blocking(section, message, deadline);
            }
            Some(message) => Err((message, Error::WrongContext)),
        };
        section.leave();
        result
    }

    /// Hands the message to a receiver or puts it into the ring; gives it back if neither is possible.
    #[inline(always)]
    fn give(&self, kernel: &mut Kernel, message: T) -> Option<T> {
        if let Some(tid) = self.receivers.pop(kernel) {
            let receiver = TcbRef::of(tid);
            let slot = kernel.look_at(receiver).exchange as *mut MaybeUninit<T>;
            // SAFETY: a waiting receiver leaves the address of its own slot, which lives while it waits.
            unsafe { slot.write(MaybeUninit::new(message)) };
            wait::wake_taken(kernel, receiver);
            return None;
        }
        let ring = self.ring(kernel);
        if ring.len == N {
            return Some(message);
        }
        ring.push(message);
        None
    }

    #[inline(never)]
    fn send_blocking(
        &self,
        mut section: Section<Any>,
        message: T,
        deadline: Instant,
    ) -> Result<(), (T, Error)> {
        let slot = MaybeUninit::new(message);
        section.thread(TcbRef::current()).exchange = (&raw const slot) as usize;
        let queue = Some(&self.senders);
        wait::wait_until(section, Wait::Queue, queue, deadline.cycles())
            .result()
            // SAFETY: no receiver took it.
            .map_err(|error| (unsafe { slot.assume_init() }, error))
    }

    /// Receives, waiting for a message as long as it takes.
    ///
    /// # Errors
    /// [`Error::WrongContext`].
    #[inline]
    pub fn receive(&self) -> Result<T, Error> {
        self.receive_until(Instant::NEVER)
    }

    /// Receives if a message waits.
    ///
    /// # Errors
    /// [`Error::WouldBlock`].
    ///
    /// # Context
    /// Threads and interrupt handlers.
    #[inline]
    pub fn try_receive(&self) -> Result<T, Error> {
        let mut section = section::enter();
        let message = self.take(&mut section);
        section.leave();
        message.ok_or(Error::WouldBlock)
    }

    /// Receives, waiting for a message until `deadline` at most.
    ///
    /// # Errors
    /// [`Error::TimedOut`], [`Error::WrongContext`].
    #[inline]
    pub fn receive_until(&self, deadline: Instant) -> Result<T, Error> {
        let mut section = section::enter();
        let result = match self.take(&mut section) {
            Some(message) => Ok(message),
            None if sched::may_block() => return self.receive_blocking(section, deadline),
            None => Err(Error::WrongContext),
        };
        section.leave();
        result
    }

    /// Takes a message out of the ring and lets a waiting sender fill the gap.
    #[inline(always)]
    fn take(&self, kernel: &mut Kernel) -> Option<T> {
        let message = self.ring(kernel).pop()?;
        if let Some(tid) = self.senders.pop(kernel) {
            let sender = TcbRef::of(tid);
            let next = kernel.look_at(sender).exchange as *const T;
            // SAFETY: a waiting sender leaves the address of its message, which lives while it waits and is then void.
            let next = unsafe { next.read() };
            self.ring(kernel).push(next);
            wait::wake_taken(kernel, sender);
        }
        Some(message)
    }

    #[inline(never)]
    fn receive_blocking(&self, mut section: Section<Any>, deadline: Instant) -> Result<T, Error> {
        let mut slot = MaybeUninit::<T>::uninit();
        section.thread(TcbRef::current()).exchange = (&raw mut slot) as usize;
        let queue = Some(&self.receivers);
        wait::wait_until(section, Wait::Queue, queue, deadline.cycles())
            .result()
            // SAFETY: the sender that woke this thread wrote the message first.
            .map(|()| unsafe { slot.assume_init_read() })
    }
}
