//! Event flags: 32 bits that threads wait for in combinations.

use core::sync::atomic::{
    AtomicU32,
    Ordering::{Acquire, Relaxed, Release},
};

use super::Waiters;
use crate::arch::percpu;
use crate::error::Error;
use crate::lock::{self, Section};
use crate::sched;
use crate::thread::tcb::{Wait, Woken, tcb};
use crate::time::Instant;

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
    waiters: Waiters,
}

impl EventFlags {
    /// With these bits set.
    #[must_use]
    pub const fn new(initial: u32) -> Self {
        Self {
            flags: AtomicU32::new(initial),
            waiters: Waiters::new(),
        }
    }

    /// The bits that are set.
    pub fn get(&self) -> u32 {
        self.flags.load(Relaxed)
    }

    /// Sets bits and wakes every waiter whose condition now holds, the most important first; a waiter that clears
    /// bits takes them from those after it.
    ///
    /// # Context
    /// Threads and interrupt handlers.
    pub fn set(&self, bits: u32) {
        let mut section = lock::enter();
        self.flags.fetch_or(bits, Release);
        self.wake_satisfied(&mut section);
        section.leave();
    }

    /// Clears bits and gives those that were set before.
    ///
    /// # Context
    /// Threads and interrupt handlers.
    pub fn clear(&self, bits: u32) -> u32 {
        self.flags.fetch_and(!bits, Relaxed)
    }

    fn wake_satisfied(&self, section: &mut Section) {
        // SAFETY: inside a section, where this is the only reference.
        let waiters = unsafe { &mut *self.waiters.as_ptr() };
        let mut at = waiters.top();
        while let Some((tid, prio)) = at {
            at = waiters.next_after(section.links(), tid, prio);
            // SAFETY: inside a section.
            let t = unsafe { &mut *tcb(tid) };
            let (mask, mode) = (t.exchange as u32, Mode::from_number(t.exchange2));
            let flags = self.flags.load(Relaxed);
            if mode.is_satisfied(flags, mask) {
                if mode.clears() {
                    self.flags.fetch_and(!mask, Relaxed);
                }
                t.exchange = flags as usize;
                waiters.remove(section.links(), tid, prio);
                sched::wake_taken(section, tid);
            }
        }
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
        let mut section = lock::enter();
        let result = self.wait_in(&mut section, mask, mode, deadline);
        section.leave();
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

    fn wait_in(
        &self,
        section: &mut Section,
        mask: u32,
        mode: Mode,
        deadline: Instant,
    ) -> Result<u32, Error> {
        if let Some(flags) = self.take(section, mask, mode) {
            return Ok(flags);
        }
        if !sched::may_block() {
            return Err(Error::WrongContext);
        }
        // SAFETY: the running thread's own block, inside a section.
        let t = unsafe { &mut *percpu::current() };
        t.exchange = mask as usize;
        t.exchange2 = mode as usize;
        match sched::block(
            section,
            Wait::Queue,
            self.waiters.as_ptr(),
            deadline.cycles(),
        ) {
            // SAFETY: the running thread's own block, inside a section. Not by `t`: the waker wrote there meanwhile.
            Woken::Object => Ok(unsafe { (*percpu::current()).exchange } as u32),
            Woken::TimedOut => Err(Error::TimedOut),
        }
    }
}
