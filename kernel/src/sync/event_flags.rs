//! Event flags: 32 bits that threads wait for in combinations.
//!
//! Setting flags is a search through the waiters, from the most important on, a section for each of them. It is the
//! object's and not the setter's: [`EventFlags::search`] says who is looked at next, and whoever has to do with the
//! flags while a search is under way first carries it to its end. So does a waiter before its wait returns, which makes
//! two things sure:
//! * A setter that is preempted by the first it woke keeps none of the others waiting until it runs again.
//! * On one CPU each operation finds those before it complete: who is woken by a flag cannot clear it before all others
//!   that waited for it are woken, too. (With several CPUs another may look at the flags or clear them between two
//!   sections, as it might between two calls.)
//!
//! Where a search stands is a thread's number, good for as long as that thread stands where it stood: its mark
//! (`searched` in its control block) ends when it waits anew, and no thread may have been moved in a queue since. The
//! search else begins anew; to look at a waiter twice does no harm.

use core::sync::atomic::{
    AtomicU16, AtomicU32,
    Ordering::{Acquire, Relaxed, Release},
};

use takt_scheduler::{PrioQueue, Priority, ThreadId};

use super::Waiters;
use crate::arch::percpu;
use crate::error::Error;
use crate::lock::{self, Section};
use crate::sched;
use crate::thread::tcb::{Wait, tcb};
use crate::time::Instant;
use crate::wait;

/// What a waiter wants of its bits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mode {
    /// Any of them.
    Any,
    /// All of them.
    All,
    /// Any, and those that were set are cleared by the wake-up.
    AnyClear,
    /// All, and they are cleared by the wake-up.
    AllClear,
}

impl Mode {
    const fn is_satisfied(self, flags: u32, mask: u32) -> bool {
        match self {
            Self::Any | Self::AnyClear => flags & mask != 0,
            Self::All | Self::AllClear => flags & mask == mask,
        }
    }

    const fn clears(self) -> bool {
        matches!(self, Self::AnyClear | Self::AllClear)
    }

    const fn from_number(number: usize) -> Self {
        match number {
            0 => Self::Any,
            1 => Self::All,
            2 => Self::AnyClear,
            _ => Self::AllClear,
        }
    }
}

/// A word of flags.
pub struct EventFlags {
    flags: AtomicU32,
    /// One more than the number of the waiter that is looked at next, or 0 while there is no search. Changes inside a
    /// section only.
    search: AtomicU16,
    /// [`sched::nr_moved`] when the search came there.
    nr_moved: AtomicU32,
    waiters: Waiters,
}

impl EventFlags {
    /// With these bits set.
    #[must_use]
    pub const fn new(initial: u32) -> Self {
        Self {
            flags: AtomicU32::new(initial),
            search: AtomicU16::new(0),
            nr_moved: AtomicU32::new(0),
            waiters: Waiters::new(),
        }
    }

    /// The bits that are set.
    pub fn get(&self) -> u32 {
        self.flags.load(Relaxed)
    }

    /// Sets bits and wakes every waiter whose condition now holds, the most important first; a waiter that clears
    /// bits takes them from those after it. A section for each waiter.
    ///
    /// # Context
    /// Threads and interrupt handlers. Where interrupts are off, in a handler above all, they stay off for all waiters.
    pub fn set(&self, bits: u32) {
        self.finish_search();
        let mut section = lock::enter();
        self.flags.fetch_or(bits, Release);
        let waiters = self.waiters.get(&section);
        let first = waiters.top();
        self.search_from(&mut section, first);
        if first.is_some() {
            self.search_on(section);
        } else {
            section.leave_quietly();
        }
    }

    /// Clears bits and gives those that were set before.
    ///
    /// # Context
    /// Threads and interrupt handlers.
    pub fn clear(&self, bits: u32) -> u32 {
        self.finish_search();
        self.flags.fetch_and(!bits, Relaxed)
    }

    /// Carries a search that is under way to its end.
    #[inline(always)]
    fn finish_search(&self) {
        if self.search.load(Relaxed) != 0 {
            core::hint::cold_path();
            self.search_on(lock::enter());
        }
    }

    /// Goes on with the search, a section for each waiter, of which the first has begun.
    #[inline(never)]
    fn search_on(&self, mut section: Section) {
        while self.look_at_next(&mut section) {
            section.leave();
            section = lock::enter();
        }
        section.leave();
    }

    /// The search goes on at this waiter, or is over.
    #[inline(always)]
    fn search_from(&self, _section: &mut Section, next: Option<(ThreadId, Priority)>) {
        let place = next.map_or(0, |(tid, _)| {
            // SAFETY: inside a section.
            unsafe { (*tcb(tid)).searched = true };
            u16::from(tid.raw()) + 1
        });
        self.search.store(place, Relaxed);
        self.nr_moved.store(sched::nr_moved(), Relaxed);
    }

    /// The waiter that is looked at next, unless the search is over.
    #[inline(always)]
    fn next_searched(&self, waiters: &PrioQueue) -> Option<(ThreadId, Priority)> {
        let tid = ThreadId::new(self.search.load(Relaxed).checked_sub(1)? as u8);
        // SAFETY: inside a section, as the queue's reference shows.
        let t = unsafe { &*tcb(tid) };
        let is_there = t.searched && core::ptr::eq(t.wait_queue, self.waiters.as_ptr());
        if is_there && self.nr_moved.load(Relaxed) == sched::nr_moved() {
            Some((tid, t.prio))
        } else {
            // It has left or waits anew, or another may have been moved from behind it to before it.
            waiters.top()
        }
    }

    /// Looks at one waiter; says whether there is another.
    #[inline(always)]
    fn look_at_next(&self, section: &mut Section) -> bool {
        // SAFETY: inside a section, where this is the only reference.
        let waiters = unsafe { &mut *self.waiters.as_ptr() };
        let Some((tid, prio)) = self.next_searched(waiters) else {
            self.search_from(section, None);
            return false;
        };
        let next = waiters.next_after(section.wait_links(), tid, prio);
        self.search_from(section, next);
        // SAFETY: inside a section.
        let t = unsafe { &mut *tcb(tid) };
        let (mask, mode) = (t.exchange as u32, Mode::from_number(t.exchange2));
        let flags = self.flags.load(Relaxed);
        if mode.is_satisfied(flags, mask) {
            if mode.clears() {
                self.flags.fetch_and(!mask, Relaxed);
            }
            t.exchange = flags as usize;
            waiters.remove(section.wait_links(), tid, prio);
            wait::wake_taken(section, tid);
        }
        next.is_some()
    }

    /// Gives the flags if the condition holds, as they were before any clearing.
    ///
    /// # Errors
    /// [`Error::WouldBlock`] if it does not; [`Error::InvalidArgument`] for an empty mask.
    ///
    /// # Context
    /// Threads and interrupt handlers.
    pub fn try_wait(&self, mask: u32, mode: Mode) -> Result<u32, Error> {
        if mask == 0 {
            return Err(Error::InvalidArgument);
        }
        self.finish_search();
        let section = lock::enter();
        let flags = self.take(&section, mask, mode);
        section.leave_quietly();
        flags.ok_or(Error::WouldBlock)
    }

    /// Waits until the condition holds, until `deadline` at most, and gives the flags as they were then, before any
    /// clearing.
    ///
    /// # Errors
    /// [`Error::TimedOut`]; [`Error::WrongContext`] if it would have to wait where that is not allowed;
    /// [`Error::InvalidArgument`] for an empty mask.
    pub fn wait(&self, mask: u32, mode: Mode, deadline: Instant) -> Result<u32, Error> {
        if mask == 0 {
            return Err(Error::InvalidArgument);
        }
        self.finish_search();
        let result = self.wait_after_search(mask, mode, deadline);
        // Those after this one, before it does anything with the flags.
        self.finish_search();
        result
    }

    /// The flags if the condition holds; the modes that clear do so.
    fn take(&self, _section: &Section, mask: u32, mode: Mode) -> Option<u32> {
        let flags = self.flags.load(Acquire);
        if !mode.is_satisfied(flags, mask) {
            return None;
        }
        if mode.clears() {
            self.flags.fetch_and(!mask, Relaxed);
        }
        Some(flags)
    }

    fn wait_after_search(&self, mask: u32, mode: Mode, deadline: Instant) -> Result<u32, Error> {
        let section = lock::enter();
        if let Some(flags) = self.take(&section, mask, mode) {
            section.leave_quietly();
            return Ok(flags);
        }
        if !sched::may_block() {
            section.leave_quietly();
            return Err(Error::WrongContext);
        }
        // SAFETY: the running thread's own block, inside a section.
        let t = unsafe { &mut *percpu::current() };
        t.exchange = mask as usize;
        t.exchange2 = mode as usize;
        t.searched = false;
        let queue = self.waiters.as_ptr();
        wait::wait_until(section, Wait::Queue, queue, deadline.cycles())
            .result()
            // SAFETY: the running thread's own block. Not by `t`: the waker wrote there meanwhile.
            .map(|()| unsafe { (*percpu::current()).exchange } as u32)
    }
}
