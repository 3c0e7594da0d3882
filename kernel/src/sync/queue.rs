//! Bounded message queue.
//!
//! A message goes straight from sender to receiver when one waits; otherwise it rests in the queue's ring. Messages
//! are moved inside a kernel section, so they are small: [`Queue::MAX_MESSAGE`] bytes at most, checked at compile time.

use core::cell::UnsafeCell;
use core::mem::MaybeUninit;

use heapless::Deque;

use crate::clock::Instant;
use crate::error::Error;
use crate::section::{self, Any, Kernel, Section, Waiters};
use crate::switch::{self, Apart, Handoff};
use crate::thread::tcb::TcbRef;
use crate::wait;

/// A queue of up to `N` messages.
///
/// ```ignore
#[doc = include_str!("examples/queue.rs")]
/// ```
#[repr(C)]
pub struct Queue<T, const N: usize> {
    ring: UnsafeCell<Deque<T, N>>,
    receivers: Waiters,
    /// Behind the others, which [`wait::wait_in`] is told.
    senders: Waiters,
}

// SAFETY: `Queue::ring` wants a section with the object's lock, which one CPU at a time has. Messages go from thread to thread.
unsafe impl<T: Send, const N: usize> Sync for Queue<T, N> {}

impl<T, const N: usize> Default for Queue<T, N> {
    fn default() -> Self {
        Self::new()
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
        Self {
            ring: UnsafeCell::new(Deque::new()),
            receivers: Waiters::new(),
            senders: Waiters::new(),
        }
    }

    #[inline(always)]
    fn ring<'k>(&'k self, _: &'k mut Kernel) -> &'k mut Deque<T, N> {
        // SAFETY: reached by a section only, which is borrowed as long as the reference lives.
        unsafe { &mut *self.ring.get() }
    }

    /// Messages that wait to be received.
    pub fn len(&self) -> usize {
        let mut section = section::enter_object(&self.receivers);
        let len = self.ring(&mut section).len();
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
        let sent = self.begin_try_send(&message).finish_staying();
        Self::forget_sent(message, sent)
    }

    /// Sends, waiting for room until `deadline` at most.
    ///
    /// # Errors
    /// The message comes back with [`Error::TimedOut`] or [`Error::WrongContext`].
    #[inline]
    pub fn send_until(&self, message: T, deadline: Instant) -> Result<(), (T, Error)> {
        let sent = self.begin_send(&message, deadline).finish_staying();
        Self::forget_sent(message, sent)
    }

    /// A message that was sent is someone else's by now; one that was not is given back.
    #[inline(always)]
    fn forget_sent(message: T, sent: Result<(), Error>) -> Result<(), (T, Error)> {
        match sent {
            Ok(()) => {
                core::mem::forget(message);
                Ok(())
            }
            Err(error) => Err((message, error)),
        }
    }

    #[inline(never)]
    fn begin_try_send(&self, message: &T) -> Handoff {
        self.give(message, |section| {
            Handoff::stay(section, Err(Error::WouldBlock))
        })
    }

    #[inline(never)]
    fn begin_send(&self, message: &T, deadline: Instant) -> Handoff {
        self.give(message, |section| {
            let message = core::ptr::from_ref(message) as usize;
            wait::wait_in::<true>(&self.senders, message, deadline, section)
        })
    }

    /// Puts the message into the ring or hands it to a receiver; else it is full.
    #[inline(always)]
    fn give(&self, message: &T, full: impl FnOnce(Section<Any>) -> Handoff) -> Handoff {
        let mut section = section::enter_object(&self.receivers);
        if !self.receivers.is_empty(&mut section) {
            core::hint::cold_path();
            return self.hand_over(section, message);
        }
        let ring = self.ring(&mut section);
        if ring.is_full() {
            core::hint::cold_path();
            return full(section);
        }
        // SAFETY: the caller's message, which success makes the queue's.
        let message = unsafe { core::ptr::read(message) };
        // SAFETY: there is room.
        unsafe { ring.push_back_unchecked(message) };
        section.leave_quietly_in_thread();
        Handoff::done(Ok(()))
    }

    /// Gives the message to the most important receiver that waits.
    #[inline(never)]
    fn hand_over(&self, mut section: Section<Any>, message: &T) -> Handoff {
        let Some(tid) = self.receivers.pop(&mut section) else {
            return Handoff::stay(section, Ok(()));
        };
        let slot = section.look_at(TcbRef::of(tid)).exchange as *mut T;
        // SAFETY: a waiting receiver leaves the address of its own slot, which lives while it waits, and the caller
        // forgets the message.
        unsafe { slot.copy_from_nonoverlapping(message, 1) };
        switch::wake_taken::<_, Apart>(section, tid)
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
        let mut message = MaybeUninit::uninit();
        self.begin_try_receive(&mut message).finish_staying()?;
        // SAFETY: success says that one was put there.
        Ok(unsafe { message.assume_init() })
    }

    /// Receives, waiting for a message until `deadline` at most.
    ///
    /// # Errors
    /// [`Error::TimedOut`], [`Error::WrongContext`].
    #[inline]
    pub fn receive_until(&self, deadline: Instant) -> Result<T, Error> {
        let mut message = MaybeUninit::uninit();
        self.begin_receive(&mut message, deadline)
            .finish_staying()?;
        // SAFETY: success says that one was put there.
        Ok(unsafe { message.assume_init() })
    }

    #[inline(never)]
    fn begin_try_receive(&self, to: &mut MaybeUninit<T>) -> Handoff {
        self.take(to, |section, _| {
            Handoff::stay(section, Err(Error::WouldBlock))
        })
    }

    #[inline(never)]
    fn begin_receive(&self, to: &mut MaybeUninit<T>, deadline: Instant) -> Handoff {
        self.take(to, |section, to| {
            let to = core::ptr::from_mut(to) as usize;
            wait::wait_in::<false>(&self.receivers, to, deadline, section)
        })
    }

    /// Takes a message out of the ring and lets a waiting sender fill the gap; else it is empty.
    #[inline(always)]
    fn take(
        &self,
        to: &mut MaybeUninit<T>,
        empty: impl FnOnce(Section<Any>, &mut MaybeUninit<T>) -> Handoff,
    ) -> Handoff {
        let mut section = section::enter_object(&self.receivers);
        let ring = self.ring(&mut section);
        if ring.is_empty() {
            core::hint::cold_path();
            return empty(section, to);
        }
        // SAFETY: there is one.
        to.write(unsafe { ring.pop_front_unchecked() });
        if !self.senders.is_empty(&mut section) {
            core::hint::cold_path();
            return self.fill_gap(section);
        }
        section.leave_quietly_in_thread();
        Handoff::done(Ok(()))
    }

    /// Takes over the message of the most important sender that waits.
    #[inline(never)]
    fn fill_gap(&self, mut section: Section<Any>) -> Handoff {
        let Some(tid) = self.senders.pop(&mut section) else {
            return Handoff::stay(section, Ok(()));
        };
        let message = section.look_at(TcbRef::of(tid)).exchange as *const T;
        // SAFETY: a waiting sender leaves the address of its message, which lives while it waits and is then void.
        let message = unsafe { message.read() };
        // A gap is what called for this.
        let _ = self.ring(&mut section).push_back(message);
        switch::wake_taken::<_, Apart>(section, tid)
    }
}
