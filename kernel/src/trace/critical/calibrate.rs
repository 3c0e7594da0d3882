//! What the hooks cost, measured at the start of a tracer: each place behaves as those in the kernel do.

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::{Cpu, IRQS, PREEMPT, WATCHED, this};
use crate::arch::{interrupts, percpu, tsc};
use crate::trace;

/// The hooks.
#[derive(Clone, Copy)]
pub(super) enum Hook {
    IrqsOff,
    IrqsOn,
    PreemptOff,
    PreemptOn,
    IrqEntered,
}

/// Costs of a hook in cycles.
struct Cost {
    /// Between the place and the hook's time stamp: after it where a stretch begins, before it where one ends.
    end: AtomicU64,
    /// From one end of the place to the other, where the hook neither begins nor ends a stretch.
    inside: AtomicU64,
}

static COSTS: [Cost; 5] = [const {
    Cost {
        end: AtomicU64::new(0),
        inside: AtomicU64::new(0),
    }
}; 5];

impl Hook {
    #[inline(always)]
    pub(super) fn cost_of_end(self) -> u64 {
        COSTS[self as usize].end.load(Relaxed)
    }

    #[inline(always)]
    pub(super) fn cost_inside(self) -> u64 {
        COSTS[self as usize].inside.load(Relaxed)
    }

    fn set(self, end: u64, inside: u64) {
        COSTS[self as usize].end.store(end, Relaxed);
        COSTS[self as usize].inside.store(inside, Relaxed);
    }
}

/// The shortest of a few stretches, with the tracer's own instructions.
fn shortest(stretch: impl Fn(&Cpu)) -> u64 {
    let cpu = this();
    let measured = (0..4).map(|_| {
        stretch(cpu);
        cpu.last.load(Relaxed)
    });
    measured.min().unwrap_or(0)
}

#[inline(always)]
fn begun_now(cpu: &Cpu) {
    cpu.since.store(tsc::now(), Relaxed);
}

/// Measures all of them.
///
/// # Context
/// A thread with preemption and interrupts enabled; every place of the tracers is on.
pub(super) fn run() {
    interrupts::disable();
    // Preemption is enabled: what is watched begins and ends with the interrupts.
    WATCHED.store(IRQS, Relaxed);
    let both = shortest(|_| {
        trace::section_begun(true);
        trace::section_ends();
    });
    let irqs_end = shortest(|cpu| {
        begun_now(cpu);
        trace::section_ends();
    });
    let irqs_begin = both.saturating_sub(irqs_end);
    let inside = |act: fn()| {
        let with = shortest(|_| {
            trace::section_begun(true);
            act();
            trace::section_ends();
        });
        with.saturating_sub(both)
    };
    let preempt_off = inside(trace::preemption_disabled);
    let preempt_on = inside(trace::preemption_enabling);

    // Preemption is disabled: what is watched begins and ends with that.
    percpu::preempt_inc(|| {});
    WATCHED.store(PREEMPT, Relaxed);
    let both = shortest(|_| {
        trace::preemption_disabled();
        trace::preemption_enabling();
    });
    let preempt_end = shortest(|cpu| {
        begun_now(cpu);
        trace::preemption_enabling();
    });
    let preempt_begin = both.saturating_sub(preempt_end);
    let inside = |act: fn()| {
        let with = shortest(|_| {
            trace::preemption_disabled();
            act();
            trace::preemption_enabling();
        });
        with.saturating_sub(both)
    };
    let irqs_off = inside(|| trace::section_begun(true));
    let irqs_on = inside(trace::section_ends);
    let irq_entered = inside(|| trace::irq_entered(0, 0));
    WATCHED.store(0, Relaxed);
    extern "C" fn none() {}
    percpu::preempt_dec(none);

    Hook::IrqsOff.set(irqs_begin, irqs_off);
    Hook::IrqsOn.set(irqs_end, irqs_on);
    Hook::PreemptOff.set(preempt_begin, preempt_off);
    Hook::PreemptOn.set(preempt_end, preempt_on);
    Hook::IrqEntered.set(0, irq_entered);
    // SAFETY: they were on.
    unsafe { interrupts::enable() };
}
