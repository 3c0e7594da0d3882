//! Keeping the CPU: preemption and interrupts off for a while.
//!
//! Guards, not pairs: what a guard disabled is enabled again when it is dropped, in any order of nesting. What has no guard is not
//! for safe code:
//!
//! ```compile_fail,E0133
//! takt_kernel::preempt::without_irqs(|| ());
//! ```

use core::marker::PhantomData;
use core::mem::ManuallyDrop;

use crate::arch::{interrupts, percpu, proof};
use crate::thread::tcb::{GUARDS, TcbRef};
use crate::{probe, section, switch};

/// Preemption is disabled while this lives: interrupts come, but no other thread runs on this CPU.
#[must_use = "preemption is enabled again when the guard is dropped"]
pub struct PreemptGuard {
    _not_send: PhantomData<*const ()>,
}

/// Disables preemption.
///
/// In an interrupt's handler that is so anyway; a guard that a handler forgets disables it for the thread that was interrupted,
/// which is a panic in an image with the feature `asserts`.
///
/// # Panics
/// If there are 15 guards on this CPU already: the count has four bits.
///
/// # Context
/// Any.
#[inline(always)]
pub fn disable() -> PreemptGuard {
    percpu::preempt_inc(too_deep);
    probe::preemption_disabled();
    PreemptGuard {
        _not_send: PhantomData,
    }
}

/// How many guards of preemption there are on this CPU.
///
/// # Context
/// Any.
#[inline(always)]
#[must_use]
pub fn depth() -> u8 {
    percpu::depth()
}

/// Whether another thread is to run on this CPU as soon as nothing keeps it from switching.
///
/// # Context
/// Any.
#[inline(always)]
#[must_use]
pub fn is_resched_due() -> bool {
    percpu::preempt_byte() & percpu::NO_RESCHED == 0
}

#[cold]
#[inline(never)]
pub(crate) fn too_deep() {
    // The report should not say that this is an interrupt.
    percpu::preempt_dec(switch::preempt_schedule);
    panic!("preemption disabled more than {} times", percpu::DEPTH);
}

impl Drop for PreemptGuard {
    #[inline(always)]
    fn drop(&mut self) {
        probe::preemption_enabling();
        percpu::preempt_dec(switch::preempt_schedule);
    }
}

/// Interrupts are off while this lives. Several may be dropped in any order: the last one enables them.
#[must_use = "interrupts are restored when the guard is dropped"]
pub struct IrqGuard {
    /// Made by a thread, which counts its guards. Elsewhere (in an interrupt handler, inside the kernel) interrupts are
    /// off anyway and stay so.
    counts: bool,
    _not_send: PhantomData<*const ()>,
}

/// Disables interrupts on this CPU.
///
/// # Panics
/// If the thread has 126 such guards already: the count has seven bits, and a panic takes one more.
///
/// # Context
/// Any.
#[inline(always)]
pub fn irq_save() -> IrqGuard {
    let flags = interrupts::flags();
    interrupts::disable();
    probe::section_begun_with(flags);
    // SAFETY: the running thread's own block; an interrupt never finds it changed, since it would have to come between.
    let depth = unsafe { &mut (*TcbRef::current().as_ptr()).atomic };
    let is_first = interrupts::are_enabled_in(flags);
    // Only nested ones can be too many.
    if !is_first && *depth & GUARDS >= GUARDS - 1 {
        too_many();
    }
    let counts = is_first || *depth & GUARDS != 0;
    if cfg!(feature = "asserts") && interrupts::are_enabled_in(flags) {
        assert!(
            *depth & GUARDS == 0,
            "interrupts are on in spite of a guard"
        );
    }
    if counts {
        *depth += 1;
        proof::guard_begins!();
    }
    IrqGuard {
        counts,
        _not_send: PhantomData,
    }
}

#[cold]
#[inline(never)]
fn too_many() -> ! {
    panic!("interrupts disabled more than {} times", GUARDS - 1);
}

/// Calls `act` with interrupts off. Shorter than a guard, since nothing counts it.
///
/// # Safety
/// `act` calls nothing of the kernel's, and drops no guard.
///
/// # Context
/// Any, NMIs included.
#[inline(always)]
pub unsafe fn without_irqs<R>(act: impl FnOnce() -> R) -> R {
    let were_enabled = interrupts::are_enabled_in(interrupts::flags());
    interrupts::disable();
    // An NMI may have come upon a hook, beside which there is to be no other.
    if were_enabled {
        probe::section_begun();
    }
    let result = act();
    if were_enabled {
        section::own_irqs_off().leave_quietly();
    }
    result
}

impl IrqGuard {
    /// Drops it, always right here: the destructor may be a function of its own in a crate that is compiled for size, and
    /// is then what tracers show as the place where interrupts were enabled.
    ///
    /// # Context
    /// Where it was made.
    #[inline(always)]
    pub fn restore(self) {
        ManuallyDrop::new(self).end();
    }

    #[inline(always)]
    fn end(&self) {
        if !self.counts {
            return;
        }
        // SAFETY: the running thread's own block, and interrupts are off since its first guard.
        let depth = unsafe { &mut (*TcbRef::current().as_ptr()).atomic };
        *depth -= 1;
        proof::guard_ends!();
        if *depth & GUARDS != 0 {
            proof::guards_left!();
            return;
        }
        // They were on when the first guard was made.
        let section = section::own_irqs_off();
        // A wake-up inside made a switch due. Interrupts are enabled, and said to be, at its end.
        if percpu::resched_now() {
            return section.leave();
        }
        section.leave_quietly();
    }
}

impl Drop for IrqGuard {
    #[inline(always)]
    fn drop(&mut self) {
        self.end();
    }
}
