//! The kernel section: interrupts off and, for what is not this CPU's alone, one of the kernel's locks held.
//!
//! Run queues, timer queues, wait queues and threads' states change inside a section only, and only a section lends them. One
//! without a lock lends what this CPU schedules ([`Scheduled`]): nobody else changes that, so that interrupts that are off are
//! enough. One with a lock lends what that protects as well ([`Kernel`]): an object ([`enter_object`]), or threads, mutexes and
//! messages ([`enter`]). What other CPUs schedule none lends: [`other_cpu`](crate::other_cpu) has them do it. Sections are short; a
//! wake-up that makes a switch due is carried out when the section ends. Locks are behind a static key: one CPU pays one NOP at
//! each end.
//!
//! # Kinds
//! A section's type says what was the case before it, and so how it ends:
//!
//! | | interrupts were | begun by |
//! |---|---|---|
//! | `Section<Thread>` | on | [`enter_thread`], [`enter_object_thread`], [`own_thread`], [`own_irqs_off`] |
//! | `Section<Irq>` | off | [`own_irq`] |
//! | `Section<Any>` | on or off, which a flag says | [`enter`], [`enter_object`], [`own`] |
//!
//! Each end takes the section by value: [`leave`](Section::leave), [`leave_quietly`](Section::leave_quietly),
//! [`release`](Section::release) for a switch. One that is dropped panics.
//!
//! # Context
//! Threads and interrupt handlers; never NMI.

mod leave;
mod lent;

use core::ops::{Deref, DerefMut};

use crate::arch::interrupts;
use crate::arch::percpu;
use crate::lock::{self, Lock};
use crate::probe;

pub(crate) use crate::waiters::Waiters;
use lent::Begun;
pub(crate) use lent::{Kernel, Lent, Scheduled};

/// How a section began, and so how it ends.
pub(crate) trait Kind: Copy {
    /// Whether interrupts were on before it.
    fn were_enabled(self) -> bool;

    /// What there was before it is there again: begins another one in the same way, without a lock.
    #[inline(always)]
    fn enter_again(self) -> Section<Self, Scheduled> {
        if self.were_enabled() {
            interrupts::disable();
            probe::section_begun();
        }
        Section::begun(self)
    }
}

/// In a thread, with interrupts on.
#[derive(Clone, Copy)]
pub(crate) struct Thread;
/// With interrupts off, as in a handler.
#[derive(Clone, Copy)]
pub(crate) struct Irq;
/// With interrupts on if these flags say so.
#[derive(Clone, Copy)]
pub(crate) struct Any(u64);

impl Kind for Thread {
    #[inline(always)]
    fn were_enabled(self) -> bool {
        true
    }
}

impl Kind for Irq {
    #[inline(always)]
    fn were_enabled(self) -> bool {
        false
    }
}

impl Kind for Any {
    #[inline(always)]
    fn were_enabled(self) -> bool {
        interrupts::are_enabled_in(self.0)
    }
}

/// Interrupts are off and what is lent is this CPU's alone.
#[must_use = "a section must be left"]
pub(crate) struct Section<K: Kind, L: Lent = Kernel> {
    lent: L,
    kind: K,
}

impl<K: Kind, L: Lent> Deref for Section<K, L> {
    type Target = L;

    #[inline(always)]
    fn deref(&self) -> &L {
        &self.lent
    }
}

impl<K: Kind, L: Lent> DerefMut for Section<K, L> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut L {
        &mut self.lent
    }
}

impl<K: Kind, L: Lent> Drop for Section<K, L> {
    #[inline(always)]
    fn drop(&mut self) {
        dropped();
    }
}

/// No path comes here, so that no image has it.
#[cold]
#[inline(never)]
fn dropped() -> ! {
    panic!("a kernel section was not left");
}

/// Begins a section in any context but NMI, for threads, mutexes and messages.
#[inline(always)]
pub(crate) fn enter() -> Section<Any> {
    own().lock(chains)
}

/// The same for the object of which this is the first queue.
#[inline(always)]
pub(crate) fn enter_object(first: &Waiters) -> Section<Any> {
    own().lock_object(first)
}

/// The lock of threads, mutexes and messages.
#[inline(always)]
fn chains() -> &'static Lock {
    &lock::CHAINS
}

/// The same for what this CPU schedules.
#[inline(always)]
pub(crate) fn own() -> Section<Any, Scheduled> {
    let kind = Any(interrupts::flags());
    interrupts::disable();
    probe::section_begun_with(kind.0);
    Section::begun(kind)
}

/// [`enter`] in a thread, where interrupts are known to be on.
#[inline(always)]
pub(crate) fn enter_thread() -> Section<Thread> {
    own_thread().lock(chains)
}

/// [`enter_object`] in a thread.
#[inline(always)]
pub(crate) fn enter_object_thread(first: &Waiters) -> Section<Thread> {
    own_thread().lock_object(first)
}

/// The same for what this CPU schedules.
#[inline(always)]
pub(crate) fn own_thread() -> Section<Thread, Scheduled> {
    Thread.enter_again()
}

/// Begins a section where interrupts were switched off before and are to be on after it, in order to switch.
#[inline(always)]
pub(crate) fn own_irqs_off() -> Section<Thread, Scheduled> {
    Section::begun(Thread)
}

/// [`enter`] in an interrupt handler, where interrupts are known to be off.
#[cfg(feature = "tasks")]
#[inline(always)]
pub(crate) fn enter_irq() -> Section<Irq> {
    own_irq().lock(chains)
}

/// The same for what this CPU schedules.
#[inline(always)]
pub(crate) fn own_irq() -> Section<Irq, Scheduled> {
    Section::begun(Irq)
}

impl Scheduled {
    /// Does something with threads, mutexes and messages.
    #[inline(always)]
    pub(crate) fn with_chains<R>(&mut self, act: impl FnOnce(&mut Kernel) -> R) -> R {
        self.with_lock(chains, act)
    }

    /// Does something with what a lock protects. It is asked which one only where there are several CPUs.
    #[inline(always)]
    pub(crate) fn with_lock<R>(
        &mut self,
        which: impl FnOnce() -> &'static Lock,
        act: impl FnOnce(&mut Kernel) -> R,
    ) -> R {
        lock::lock(which);
        let result = act(&mut Kernel::new(Begun::new()));
        lock::unlock();
        result
    }

    /// Calls a function that may enter sections of its own. Nothing lent is in use meanwhile.
    #[inline(always)]
    pub(crate) fn nest<R>(&mut self, act: impl FnOnce() -> R) -> R {
        act()
    }
}

impl<K: Kind, L: Lent> Section<K, L> {
    #[inline(always)]
    fn begun(kind: K) -> Self {
        Self {
            lent: L::new(Begun::new()),
            kind,
        }
    }

    /// The same section, of which only what this CPU schedules is still needed.
    #[inline(always)]
    pub(crate) fn narrow(self) -> Section<K, Scheduled> {
        if L::IS_LOCKED {
            lock::unlock();
        }
        Section::begun(self.into_kind())
    }

    /// How it began; it is over as far as types go.
    #[inline(always)]
    fn into_kind(self) -> K {
        let kind = self.kind;
        core::mem::forget(self);
        kind
    }

    /// How it began.
    #[inline(always)]
    pub(crate) fn kind(&self) -> K {
        self.kind
    }

    /// Whether interrupts were on when the section began.
    #[inline(always)]
    pub(crate) fn is_from_enabled(&self) -> bool {
        self.kind.were_enabled()
    }

    /// Whether a switch is due and may be taken at the end of this section.
    #[inline(always)]
    pub(crate) fn is_switch_due(&self) -> bool {
        self.is_from_enabled() && percpu::resched_now()
    }

    /// Ends the section without looking whether a switch is due: nothing was woken inside.
    #[inline(always)]
    pub(crate) fn leave_quietly(self) {
        if self.narrow().into_kind().were_enabled() {
            probe::section_ends();
            // SAFETY: interrupts were on when the section began.
            unsafe { interrupts::enable() };
        }
    }

    /// [`leave_quietly`](Self::leave_quietly) where the section is mostly a thread's: one jump less then.
    #[inline(always)]
    pub(crate) fn leave_quietly_in_thread(self) {
        if !self.is_from_enabled() {
            core::hint::cold_path();
            return self.release();
        }
        self.leave_quietly();
    }

    /// Ends the section but leaves interrupts off: where they were off when it began, or for a switch, whose end enables
    /// them.
    #[inline(always)]
    pub(crate) fn release(self) {
        let _ = self.narrow().into_kind();
    }
}

impl<K: Kind> Section<K, Scheduled> {
    /// The same section, with what a lock protects. It is asked which one only where there are several CPUs.
    #[inline(always)]
    pub(crate) fn lock(self, which: impl FnOnce() -> &'static Lock) -> Section<K> {
        lock::lock(which);
        Section::begun(self.into_kind())
    }

    /// The same section, with what the lock of the object protects of which this is the first queue.
    #[inline(always)]
    pub(crate) fn lock_object(self, first: &Waiters) -> Section<K> {
        lock::lock_object(first);
        Section::begun(self.into_kind())
    }

    /// Ends the section and begins another one, where interrupts were on before it: what is pending comes in between.
    #[inline(always)]
    pub(crate) fn reopen(self) -> Self {
        if !self.is_from_enabled() {
            return self;
        }
        let kind = self.kind;
        self.leave_quietly();
        interrupts::window();
        kind.enter_again()
    }

    /// The same section, of which all that is left to do is a switch.
    #[inline(always)]
    pub(crate) fn into_switching(self) -> Section<Irq, Scheduled> {
        let _ = self.into_kind();
        Section::begun(Irq)
    }
}
