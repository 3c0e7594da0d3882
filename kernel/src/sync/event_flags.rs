//! Event flags: 32 bits that threads wait for in combinations.
//!
//! Setting flags is a search through the waiters, from the most important on, a section for each of them. It is the
//! object's and not the setter's: [`EventFlags::search`] says who is looked at next, and whoever has to do with the
//! flags while a search is under way first carries it to its end. So does a waiter before its wait returns, which makes
//! two things sure:
//! * A setter that is preempted, by the first that it woke or by another thread, keeps nobody who is more important than
//!   itself waiting until it runs again: where the first is not to be woken, the rest is left to an interrupt.
//! * On one CPU each operation finds those before it complete: who is woken by a flag cannot clear it before all others
//!   that waited for it are woken, too. (With several CPUs another may look at the flags or clear them between two
//!   sections, as it might between two calls.)
//!
//! Where a search stands is a thread's number, good for as long as that thread stands where it stood: it waits here (one that
//! waits anew has carried the search to its end before), and no thread was moved in the queue since. The search else begins
//! anew; to look at a waiter twice does no harm. Another CPU may move waiters faster than they are looked at: after some
//! beginnings the search goes on by the threads' numbers, so that it comes to an end whatever others do.

use core::sync::atomic::{
    AtomicU32,
    Ordering::{Acquire, Relaxed, Release},
};

use takt_scheduler::{Priority, ThreadId};

use crate::arch::lock_prefix::locked_if_smp;
use crate::arch::{interrupts, percpu};
use crate::clock::Instant;
use crate::config::MAX_THREADS;
use crate::deferred::{self, Work};
use crate::error::Error;
use crate::preempt;
use crate::sched;
use crate::section::{self, Any, Kernel, Kind, Scheduled, Section, Waiters};
use crate::thread::tcb::TcbRef;
use crate::wait;

/// What a waiter wants of its bits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mode {
    /// Any of them.
    Any = 0,
    /// All of them.
    All = Wanted::ALL,
    /// Any, and those that were set are cleared by the wake-up.
    AnyClear = Wanted::CLEAR,
    /// All, and they are cleared by the wake-up.
    AllClear = Wanted::ALL | Wanted::CLEAR,
}

/// What a waiter wants, as its control block has it: the bits, and the number of the [`Mode`].
#[derive(Clone, Copy)]
struct Wanted {
    mask: u32,
    mode: usize,
}

impl Wanted {
    const ALL: isize = 1;
    const CLEAR: isize = 2;

    const fn new(mask: u32, mode: Mode) -> Self {
        Self {
            mask,
            mode: mode as usize,
        }
    }

    #[inline(always)]
    const fn is_satisfied(self, flags: u32) -> bool {
        let found = flags & self.mask;
        if self.mode & Self::ALL as usize != 0 {
            found == self.mask
        } else {
            // Branches are fewer instructions than to choose between both results.
            core::hint::cold_path();
            found != 0
        }
    }

    #[inline(always)]
    const fn clears(self) -> bool {
        self.mode & Self::CLEAR as usize != 0
    }
}

/// In [`EventFlags::search`]: there is none.
const NO_SEARCH: u32 = 0;

/// As often a search begins anew because waiters were moved, or where it stands has left.
const MAX_ANEW: u32 = 16;
/// As many waiters are looked at, by whomever, and a search that was under way before is over: each beginning looks at each thread
/// at most once.
const MAX_LOOKS: usize = (MAX_ANEW as usize + 2) * MAX_THREADS;
/// In [`EventFlags::nr_anew`]: it goes by the threads' numbers. Then waiters count as moved to the end.
const BY_NUMBER: u32 = MAX_ANEW + 1;

/// A word of flags.
///
/// ```ignore
#[doc = include_str!("examples/event_flags.rs")]
/// ```
pub struct EventFlags {
    flags: AtomicU32,
    /// The number of the waiter that is looked at next, or 0, which an idle thread has, while there is no search. Changes
    /// inside a section only.
    search: AtomicU32,
    /// How often the search has begun anew because a waiter was moved, or [`BY_NUMBER`]. Changes inside a section only.
    nr_anew: AtomicU32,
    waiters: Waiters,
    /// The rest of a search that an interrupt handler has begun.
    rest: Work,
}

impl EventFlags {
    /// With these bits set.
    #[must_use]
    pub const fn new(initial: u32) -> Self {
        Self {
            flags: AtomicU32::new(initial),
            search: AtomicU32::new(NO_SEARCH),
            nr_anew: AtomicU32::new(0),
            waiters: Waiters::new(),
            rest: Work::new(Self::step),
        }
    }

    /// The bits that are set. Waiters that a search under way has yet to come to may still take some.
    ///
    /// # Context
    /// Any.
    pub fn get(&self) -> u32 {
        self.flags.load(Relaxed)
    }

    /// Sets bits and wakes every waiter whose condition now holds, the most important first; a waiter that clears
    /// bits takes them from those after it. A section for each waiter.
    ///
    /// # Context
    /// Threads and interrupt handlers. Where interrupts are off, in a handler above all, the rest is left to a later
    /// interrupt as soon as another is pending; but whatever else is done with the flags comes behind that, and does it
    /// first. Where another CPU gives waiters other priorities all the time, not all are woken in the order of importance. A
    /// thread that is suspended in the middle of it keeps those that are less important than itself waiting until it goes on.
    pub fn set(&self, bits: u32) {
        self.finish_search();
        let mut section = section::enter_object(&self.waiters);
        locked_if_smp!(self.flags.fetch_or(bits, Release));
        if section.waiting(&self.waiters).0.is_empty() {
            section.leave_quietly();
            return;
        }
        self.begin_search(&mut section, 0);
        let first = TcbRef::of(ThreadId::new(self.search.load(Relaxed) as u8));
        // A section of its own, but no thread in between: whoever came would keep the first waiter waiting.
        let guard = percpu::is_preemptible().then(preempt::disable);
        section.leave_quietly();
        let is_more = self.look_at_next(interrupts::are_enabled());
        match guard {
            Some(guard) if is_more && core::ptr::eq(first.wait_queue(), &self.waiters) => {
                self.pass_over(guard);
            }
            guard => drop(guard),
        }
        if is_more {
            self.search_while_calm();
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

    /// The running thread has not woken the first waiter, and others are left. If they are more important than the thread, the timer
    /// looks at them as well: whoever comes in between may be less important, and keep the thread from that.
    #[inline(never)]
    fn pass_over<G>(&self, guard: G) {
        let section = section::enter_object(&self.waiters);
        let search = self.search.load(Relaxed);
        let next = TcbRef::of(ThreadId::new(search as u8));
        let prio = section.look_at(TcbRef::current()).prio;
        let is_more_important = section.look_at(next).wait_prio.is_more_important_than(prio);
        // Another CPU may have come to its end.
        if search != NO_SEARCH && is_more_important {
            self.rest
                .queue_and_enable(section, &self.waiters, self, guard);
        } else {
            section.leave_quietly();
            drop(guard);
        }
    }

    /// Carries a search that is under way to its end.
    #[inline(always)]
    fn finish_search(&self) {
        if self.search.load(Relaxed) != NO_SEARCH {
            core::hint::cold_path();
            self.search_on();
        }
    }

    /// Goes on with the search, a section for each waiter, to its end. Those that other CPUs begin behind it are theirs.
    #[inline(never)]
    fn search_on(&self) {
        let is_thread = interrupts::are_enabled();
        for _ in 0..MAX_LOOKS {
            if !self.look_at_next(is_thread) {
                return;
            }
        }
    }

    /// Goes on with the search; with interrupts off until another is pending.
    #[inline(never)]
    fn search_while_calm(&self) {
        if interrupts::are_enabled() {
            return self.search_on();
        }
        for _ in 0..MAX_LOOKS {
            if deferred::must_give_way() {
                break;
            }
            if !self.look_at_next(false) {
                return;
            }
        }
        let section = section::enter_object(&self.waiters);
        // Another CPU may have come to its end.
        if self.search.load(Relaxed) == NO_SEARCH {
            section.leave_quietly();
        } else {
            self.rest.queue(section, &self.waiters, self);
        }
    }

    /// # Safety
    /// It is told of flags that are alive until the section ends.
    unsafe fn step(object: *const (), section: Section<Any>) {
        // SAFETY: the caller's duty.
        let flags = unsafe { &*object.cast::<Self>() };
        flags.look_at_one(section).leave();
    }

    /// Begins the search, or begins it anew.
    #[inline(always)]
    fn begin_search(&self, kernel: &mut Kernel, nr_anew: u32) {
        self.nr_anew.store(nr_anew, Relaxed);
        let (waiters, _) = kernel.waiting(&self.waiters);
        waiters.forget_moves();
        let top = waiters.top();
        match top {
            Some((tid, _)) => self.search.store(tid.raw().into(), Relaxed),
            None => self.search_ends(kernel),
        }
    }

    /// The number does not say where the search stands: that thread has left, or another may have been moved from behind it to
    /// before it.
    #[cold]
    #[inline(never)]
    fn look_anew<K: Kind>(&self, mut section: Section<K>, tid: ThreadId) -> Section<K, Scheduled> {
        let kernel: &mut Kernel = &mut section;
        match self.nr_anew.load(Relaxed) {
            BY_NUMBER => return self.look_by_number(section, tid),
            // Number 0 cannot wait.
            MAX_ANEW => {
                self.nr_anew.store(BY_NUMBER, Relaxed);
                kernel.waiting(&self.waiters).0.note_moves();
                self.search.store(1, Relaxed);
            }
            nr_anew => self.begin_search(kernel, nr_anew + 1),
        }
        section.narrow()
    }

    #[inline(always)]
    fn look_by_number<K: Kind>(
        &self,
        mut section: Section<K>,
        tid: ThreadId,
    ) -> Section<K, Scheduled> {
        let next = u32::from(tid.raw()) + 1;
        if next < MAX_THREADS as u32 {
            self.search.store(next, Relaxed);
        } else {
            self.search_ends(&mut section);
        }
        let t = section.look_at(TcbRef::of(tid));
        if core::ptr::eq(t.wait_queue, &self.waiters) {
            let prio = t.wait_prio;
            return self.wake_if_satisfied(section, tid, prio);
        }
        section.narrow()
    }

    #[inline(always)]
    fn search_ends(&self, kernel: &mut Kernel) {
        self.search.store(NO_SEARCH, Relaxed);
        self.rest.done(kernel, &self.waiters);
    }

    /// Looks at one waiter in a section of its own; says whether a search is still under way. Interrupts are on where `is_thread`.
    #[inline(always)]
    fn look_at_next(&self, is_thread: bool) -> bool {
        if is_thread {
            self.look_in(section::Thread);
        } else {
            self.look_in(section::Irq);
        }
        self.search.load(Relaxed) != NO_SEARCH
    }

    /// That section. It begins here, behind the registers that the function keeps.
    #[inline(never)]
    fn look_in<K: Kind>(&self, kind: K) {
        let section = kind.enter_again().lock_object(&self.waiters);
        self.look_at_one(section).leave();
    }

    #[inline(always)]
    fn look_at_one<K: Kind>(&self, mut section: Section<K>) -> Section<K, Scheduled> {
        let search = self.search.load(Relaxed);
        if search == NO_SEARCH {
            return section.narrow();
        }
        let kernel: &mut Kernel = &mut section;
        let tid = ThreadId::new(search as u8);
        let t = kernel.look_at(TcbRef::of(tid));
        // One that has left and waits anew has carried the search to its end before.
        let is_there = core::ptr::eq(t.wait_queue, &self.waiters);
        let prio = t.wait_prio;
        let (waiters, links) = kernel.waiting(&self.waiters);
        if !is_there || waiters.was_moved() {
            return self.look_anew(section, tid);
        }
        let next = waiters.next_after(links, tid, prio);
        match next {
            Some((next, _)) => self.search.store(next.raw().into(), Relaxed),
            None => self.search_ends(kernel),
        }
        self.wake_if_satisfied(section, tid, prio)
    }

    /// Wakes a waiter, which was queued with this priority, if its condition holds.
    #[inline(always)]
    fn wake_if_satisfied<K: Kind>(
        &self,
        mut section: Section<K>,
        tid: ThreadId,
        prio: Priority,
    ) -> Section<K, Scheduled> {
        let thread = TcbRef::of(tid);
        let t = section.thread(thread);
        let wanted = Wanted {
            mask: t.exchange as u32,
            mode: t.exchange2,
        };
        let flags = self.flags.load(Relaxed);
        if wanted.is_satisfied(flags) {
            if wanted.clears() {
                locked_if_smp!(self.flags.fetch_and(!wanted.mask, Relaxed));
            }
            t.exchange = flags as usize;
            let (waiters, links) = section.waiting(&self.waiters);
            waiters.remove(links, tid, prio);
            return sched::wake_taken(section, thread);
        }
        section.narrow()
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
        let mut section = section::enter_object(&self.waiters);
        let flags = self.take(&mut section, Wanted::new(mask, mode));
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
        let result = self.wait_after_search(Wanted::new(mask, mode), deadline);
        // Those after this one, before it does anything with the flags.
        self.finish_search();
        result
    }

    /// The flags if the condition holds; the modes that clear do so.
    fn take(&self, _: &mut Kernel, wanted: Wanted) -> Option<u32> {
        let flags = self.flags.load(Acquire);
        if !wanted.is_satisfied(flags) {
            return None;
        }
        if wanted.clears() {
            locked_if_smp!(self.flags.fetch_and(!wanted.mask, Relaxed));
        }
        Some(flags)
    }

    fn wait_after_search(&self, wanted: Wanted, deadline: Instant) -> Result<u32, Error> {
        let mut section = section::enter_object(&self.waiters);
        if let Some(flags) = self.take(&mut section, wanted) {
            section.leave_quietly();
            return Ok(flags);
        }
        if !sched::may_block() {
            section.leave_quietly();
            return Err(Error::WrongContext);
        }
        let me = TcbRef::current();
        let t = section.thread(me);
        t.exchange = wanted.mask as usize;
        t.exchange2 = wanted.mode;
        wait::wait_until(section, &self.waiters, deadline)
            .result()
            .map(|()| me.exchange() as u32)
    }
}
