//! Keeping the CPU: preemption and interrupts off for a while.
//!
//! Guards, not pairs: what a guard disabled is enabled again when it is dropped, in any order of nesting.

use core::marker::PhantomData;

use crate::arch::{interrupts, percpu};
use crate::trace::{self, trace};
use crate::{lock, sched, trace_event};

/// Preemption is disabled while this lives: interrupts come, but no other thread runs on this CPU.
#[must_use = "preemption is enabled again when the guard is dropped"]
pub struct PreemptGuard {
    _not_send: PhantomData<*const ()>,
}

/// Disables preemption.
///
/// # Context
/// Any.
#[inline(always)]
pub fn disable() -> PreemptGuard {
    percpu::preempt_inc();
    trace_event!(trace::events::preempt_disable, trace::here!());
    PreemptGuard {
        _not_send: PhantomData,
    }
}

impl Drop for PreemptGuard {
    #[inline(always)]
    fn drop(&mut self) {
        trace_event!(trace::events::preempt_enable, trace::here!());
        percpu::preempt_dec(sched::preempt_schedule);
    }
}

/// Interrupts are off while this lives.
#[must_use = "interrupts are restored when the guard is dropped"]
pub struct IrqGuard {
    restore: bool,
    _not_send: PhantomData<*const ()>,
}

/// Disables interrupts on this CPU.
///
/// # Context
/// Any.
#[inline(always)]
pub fn irq_save() -> IrqGuard {
    let restore = interrupts::are_enabled();
    interrupts::disable();
    if restore {
        trace!(irq_disable, trace::here!());
    }
    IrqGuard {
        restore,
        _not_send: PhantomData,
    }
}

impl Drop for IrqGuard {
    #[inline(always)]
    fn drop(&mut self) {
        if !self.restore {
            return;
        }
        trace!(irq_enable, trace::here!());
        // A wake-up inside made a switch due.
        if percpu::resched_now() {
            lock::enter_held().leave();
            return;
        }
        // SAFETY: they were on when the guard was made.
        unsafe { interrupts::enable() };
    }
}
