//! The kernel section: interrupts off and, once more than one CPU runs, the kernel lock held.
//!
//! Run queues, timer queues, wait queues and threads' states change inside a section only, and only a section lends them
//! ([`Kernel`]). Sections are short; a wake-up that makes a switch due is carried out when the section ends. The lock is a
//! ticket lock behind a static key: one CPU pays one NOP.
//!
//! # Kinds
//! A section's type says what was the case before it, and so how it ends:
//!
//! | | interrupts were | begun by |
//! |---|---|---|
//! | `Section<Thread>` | on | [`enter_thread`], [`enter_to_switch`], [`enter_irqs_off`] |
//! | `Section<Irq>` | off | [`enter_irq`] |
//! | `Section<Any>` | on or off, which a flag says | [`enter`] |
//!
//! Each end takes the section by value: [`leave`](Section::leave), [`leave_quietly`](Section::leave_quietly),
//! [`release`](Section::release) for a switch. One that is dropped panics.
//!
//! # Context
//! Threads and interrupt handlers; never NMI.

mod leave;
mod lent;

use core::ops::{Deref, DerefMut};

use crate::arch::{interrupts, percpu};
use crate::cpus::is_smp;
use crate::lock::{self, lock, lock_thread, unlock};
use crate::probe;

pub(crate) use crate::waiters::Waiters;
pub(crate) use lent::Kernel;
#[cfg(feature = "tasks")]
pub(crate) use lent::READY_LINKS;

/// How a section began, and so how it ends.
pub(crate) trait Kind: Copy {
    /// Whether interrupts were on before it.
    fn were_enabled(self) -> bool;

    /// What there was before it is there again: begins another one in the same way.
    fn enter_again(self) -> Section<Self>;
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

    #[inline(always)]
    fn enter_again(self) -> Section<Self> {
        enter_thread()
    }
}

impl Kind for Irq {
    #[inline(always)]
    fn were_enabled(self) -> bool {
        false
    }

    #[inline(always)]
    fn enter_again(self) -> Section<Self> {
        enter_irq()
    }
}

impl Kind for Any {
    #[inline(always)]
    fn were_enabled(self) -> bool {
        interrupts::are_enabled_in(self.0)
    }

    #[inline(always)]
    fn enter_again(self) -> Section<Self> {
        if self.were_enabled() {
            let _ = enter_thread().into_kind();
        } else {
            let _ = enter_irq().into_kind();
        }
        Section::begun(self)
    }
}

/// Interrupts are off and the kernel's data are this CPU's alone.
#[must_use = "a section must be left"]
pub(crate) struct Section<K: Kind> {
    kernel: Kernel,
    kind: K,
}

impl<K: Kind> Deref for Section<K> {
    type Target = Kernel;

    #[inline(always)]
    fn deref(&self) -> &Kernel {
        &self.kernel
    }
}

impl<K: Kind> DerefMut for Section<K> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut Kernel {
        &mut self.kernel
    }
}

impl<K: Kind> Drop for Section<K> {
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

/// Begins a section in any context but NMI.
#[inline(always)]
pub(crate) fn enter() -> Section<Any> {
    let flags = interrupts::flags();
    interrupts::disable();
    probe::section_begun_with(flags);
    let kind = Any(flags);
    if is_smp!() {
        if kind.were_enabled() {
            lock::lock_thread_smp();
        } else {
            lock::lock_smp();
        }
    }
    Section::begun(kind)
}

/// Begins a section in a thread, where interrupts are known to be on.
#[inline(always)]
pub(crate) fn enter_thread() -> Section<Thread> {
    interrupts::disable();
    probe::section_begun();
    lock_thread();
    Section::begun(Thread)
}

/// Begins a section of a thread in order to switch.
///
/// Not as a thread that is about to change its state: one that is not ready any more, because it has begun to wait,
/// has ended or was suspended by another CPU, leaves here, and no further interrupt need come to it.
#[inline(always)]
pub(crate) fn enter_to_switch() -> Section<Thread> {
    interrupts::disable();
    probe::section_begun();
    enter_irqs_off()
}

/// Begins a section where interrupts were switched off before and are to be on after it.
#[inline(always)]
pub(crate) fn enter_irqs_off() -> Section<Thread> {
    lock();
    Section::begun(Thread)
}

/// Begins a section in an interrupt handler, where interrupts are known to be off.
#[inline(always)]
pub(crate) fn enter_irq() -> Section<Irq> {
    lock();
    Section::begun(Irq)
}

impl<K: Kind> Section<K> {
    #[inline(always)]
    fn begun(kind: K) -> Self {
        Self {
            kernel: Kernel::new(),
            kind,
        }
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
        unlock();
        if self.into_kind().were_enabled() {
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
        unlock();
        let _ = self.into_kind();
    }

    /// Ends the section and begins another one, where interrupts were on before it: what is pending comes in between.
    #[inline(always)]
    pub(crate) fn anew(self) -> Self {
        if !self.is_from_enabled() {
            return self;
        }
        let kind = self.kind;
        self.leave_quietly();
        interrupts::let_in();
        kind.enter_again()
    }

    /// The same section, of which all that is left to do is a switch.
    #[inline(always)]
    pub(crate) fn into_switching(self) -> Section<Irq> {
        let _ = self.into_kind();
        Section::begun(Irq)
    }
}

impl Section<Thread> {
    /// Ends a thread's section and begins another one, for a thread that may not be ready any more (see
    /// [`enter_to_switch`]): what is pending comes in between.
    #[inline(always)]
    pub(crate) fn interrupted(self) -> Self {
        self.leave_quietly();
        interrupts::let_in();
        enter_to_switch()
    }
}
