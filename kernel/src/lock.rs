//! The kernel section: interrupts off and, once more than one CPU runs, the kernel lock held.
//!
//! Run queues, wait queues and thread states change only inside a section. Sections are short; a wake-up that is due
//! is carried out when the section ends. The lock is a ticket lock behind a static key: one CPU pays one NOP.
//!
//! # Context
//! Threads and interrupt handlers; never NMI.

use core::cell::UnsafeCell;

use takt_scheduler::Links;

use crate::arch::{interrupts, jump_label, percpu, thunk};
use crate::config::MAX_THREADS;
use crate::static_branch;
use crate::trace;

jump_label::keys! {
    /// More than one CPU runs.
    pub(crate) SMP;
}

/// A thread may stand in its run queue and, before it has begun to wait, in a wait queue already: a table for each.
struct Shared(UnsafeCell<Links<MAX_THREADS>>);

// SAFETY: reached only through a section.
unsafe impl Sync for Shared {}

static READY_LINKS: Shared = Shared(UnsafeCell::new(Links::new()));
static WAIT_LINKS: Shared = Shared(UnsafeCell::new(Links::new()));

/// Interrupts are off and the kernel's data are this CPU's alone. Ends with [`Section::leave`].
#[must_use = "a section must be left"]
pub(crate) struct Section {
    restore: bool,
}

/// Begins a section in any context but NMI.
#[inline(always)]
pub(crate) fn enter() -> Section {
    let flags = interrupts::flags();
    interrupts::disable();
    trace::section_begun_with(flags);
    let restore = interrupts::are_enabled_in(flags);
    if static_branch!(SMP) {
        if restore {
            thunk::lock_thread_smp();
        } else {
            thunk::lock_smp();
        }
    }
    Section { restore }
}

/// Begins a section in a thread, where interrupts are known to be on.
#[inline(always)]
pub(crate) fn enter_thread() -> Section {
    interrupts::disable();
    trace::section_begun();
    lock_thread();
    Section { restore: true }
}

/// Begins a section of a thread in order to switch.
///
/// Not as a thread that is about to change its state: one that is not ready any more, because it has begun to wait,
/// has ended or was suspended by another CPU, leaves here, and no further interrupt need come to it.
#[inline(always)]
pub(crate) fn enter_switch() -> Section {
    interrupts::disable();
    trace::section_begun();
    enter_held()
}

/// A handle of the section that is known to be under way and ends with a switch.
#[inline(always)]
pub(crate) fn enter_nested() -> Section {
    Section { restore: true }
}

/// Begins a section where interrupts were switched off before and are to be on after it.
#[inline(always)]
pub(crate) fn enter_held() -> Section {
    lock();
    Section { restore: true }
}

/// Begins a section in an interrupt handler, where interrupts are known to be off.
#[inline(always)]
pub(crate) fn enter_irq() -> Section {
    lock();
    Section { restore: false }
}

#[inline(always)]
fn lock() {
    if static_branch!(SMP) {
        thunk::lock_smp();
    }
}

/// As [`lock`], where interrupts may be enabled for a moment.
#[inline(always)]
fn lock_thread() {
    if static_branch!(SMP) {
        thunk::lock_thread_smp();
    }
}

/// The lock was taken for a thread that is not ready, or has not come to wait yet. While it waited for the lock another CPU
/// may have suspended it and taken it out of its run queue: it may go on only when it is resumed, or it would be taken out
/// once more.
pub(crate) extern "C" fn locked_not_ready() {
    loop {
        // SAFETY: the running thread's own block, inside a section.
        let is_ready = unsafe { (*percpu::current()).state } == 0;
        if is_ready || !percpu::is_preemptible() {
            return;
        }
        thunk::unlock_smp();
        trace::section_ends();
        // SAFETY: they were on, or are on after a switch. The other CPU's kick comes now and switches.
        unsafe { interrupts::enable() };
        core::hint::spin_loop();
        interrupts::disable();
        trace::section_begun();
        thunk::lock_smp();
    }
}

/// Ends the section of a thread that has ended and is not on its stack any more.
pub(crate) extern "C" fn end_abandoned() {
    unlock();
}

#[inline(always)]
fn unlock() {
    if static_branch!(SMP) {
        thunk::unlock_smp();
    }
}

impl Section {
    /// The links of all run queues.
    #[inline(always)]
    pub(crate) fn ready_links(&mut self) -> &mut Links<MAX_THREADS> {
        // SAFETY: the section is exclusive, and the reference ends with the borrow of the section.
        unsafe { &mut *READY_LINKS.0.get() }
    }

    /// The links of all wait queues.
    #[inline(always)]
    pub(crate) fn wait_links(&mut self) -> &mut Links<MAX_THREADS> {
        // SAFETY: as for the run queues' links.
        unsafe { &mut *WAIT_LINKS.0.get() }
    }

    /// Ends the section and switches threads if one that was woken inside is more important.
    #[inline(always)]
    pub(crate) fn leave(self) {
        unlock();
        // Whoever keeps interrupts off around this section does not expect to be switched out; the switch then waits
        // until they are on again.
        if self.restore {
            self.restore();
            // An interrupt in between has taken the switch already, if it was due.
            if percpu::resched_now() {
                crate::sched::preempt();
            }
        }
    }

    /// Whether interrupts were on when the section began.
    #[inline(always)]
    pub(crate) fn is_from_enabled(&self) -> bool {
        self.restore
    }

    /// Whether a switch is due and may be taken at the end of this section.
    #[inline(always)]
    pub(crate) fn is_switch_due(&self) -> bool {
        self.restore && percpu::resched_now()
    }

    /// Ends the section without looking whether a switch is due: nothing was woken inside.
    #[inline(always)]
    pub(crate) fn leave_quietly(self) {
        unlock();
        self.restore();
    }

    /// Ends the section where interrupts were off when it began, as they stay.
    #[inline(always)]
    pub(crate) fn leave_disabled(self) {
        unlock();
    }

    /// Ends a thread's section and begins another one, for a thread that may not be ready any more (see
    /// [`enter_switch`]): what is pending comes in between.
    #[inline(always)]
    pub(crate) fn let_in(&mut self) {
        Section { restore: true }.leave_quietly();
        interrupts::let_in();
        *self = enter_switch();
    }

    /// Gives up the lock but leaves interrupts off, for a switch. [`Section::relock`] undoes it.
    #[inline(always)]
    pub(crate) fn unlock_for_switch(&self) {
        unlock();
    }

    /// Takes the lock again after a switch.
    #[inline(always)]
    pub(crate) fn relock(&self) {
        lock_thread();
    }

    #[inline(always)]
    fn restore(self) {
        if self.restore {
            trace::section_ends();
            // SAFETY: interrupts were on when the section began.
            unsafe { interrupts::enable() };
        }
    }
}
