//! What the hooks cost, measured at the start of a tracer: each place behaves as those in the kernel do.

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::{CRITICAL, IRQS, PREEMPT, WATCHED, this};
use crate::arch::stop::Text;
use crate::arch::{interrupts, percpu, tsc};
use crate::trace::compact::{counted, rolled};
use crate::trace::places::Places;
use crate::trace::{self, latency};

/// The hooks.
#[derive(Clone, Copy)]
pub(super) enum Hook {
    IrqsOff,
    IrqsOn,
    PreemptOff,
    PreemptOn,
    IrqEntered,
    IrqReturns,
}

/// Costs of the hooks in cycles, two of each; then what is only reckoned with.
static COSTS: [AtomicU64; 16] = [const { AtomicU64::new(0) }; 16];

/// Nothing.
const ZERO: u8 = 12;
/// What it takes between two places with nothing between them.
const BOTH: u8 = 13;

impl Hook {
    /// Where its cost is that lies between the place and its time stamp: after it where a stretch begins, before it where
    /// one ends.
    const fn end(self) -> u8 {
        2 * self as u8
    }

    /// Where its cost is from one end of the place to the other, where it neither begins nor ends a stretch.
    const fn inside(self) -> u8 {
        2 * self as u8 + 1
    }

    #[inline(always)]
    pub(super) fn cost_of_end(self) -> u64 {
        COSTS[usize::from(self.end())].load(Relaxed)
    }

    #[inline(always)]
    pub(super) fn cost_inside(self) -> u64 {
        COSTS[usize::from(self.inside())].load(Relaxed)
    }
}

/// How often each is measured: the first times right after the code was rewritten take longer on a real machine.
const ROUNDS: usize = 16;

/// Something that is measured: a stretch, of whose length one of [`COSTS`] is subtracted to get another. Stretches are
/// called, which takes place before they begin and after they end.
struct Step {
    stretch: fn(),
    minus: u8,
    into: u8,
}

const fn step(stretch: fn(), minus: u8, into: u8) -> Step {
    Step {
        stretch,
        minus,
        into,
    }
}

/// Does one step after the other, each with the shortest of some stretches, with the tracer's own instructions.
#[inline(never)]
fn measure(watched: u8, steps: &[Step]) {
    WATCHED.store(watched, Relaxed);
    for step in rolled(steps) {
        let mut shortest = u64::MAX;
        for _ in counted(ROUNDS) {
            (step.stretch)();
            shortest = shortest.min(this().last.get());
        }
        let cost = |which: u8| &COSTS[usize::from(which) % COSTS.len()];
        let minus = cost(step.minus).load(Relaxed);
        cost(step.into).store(shortest.saturating_sub(minus), Relaxed);
    }
}

/// Measures all of them.
///
/// # Context
/// A thread with preemption and interrupts enabled. Interrupts are off for some 20,000 instructions.
pub(super) fn run(text: &mut Text) {
    switch(text, true);
    measure_all();
    switch(text, false);
}

/// The hooks are there to be measured, and the places' events are off, since their records must neither be measured nor
/// show what never was; or the other way round.
fn switch(text: &mut Text, begins: bool) {
    latency::set_hooks(text, Places::ALL, &CRITICAL, begins, true);
}

/// Instructions of the diverted return in front of its call.
const DIVERSION: u64 = 3;

#[inline(always)]
fn begun_now() {
    this().since.set(tsc::now());
}

/// A stretch without interrupts in which something happens.
macro_rules! without_irqs {
    ($($act:expr)?) => {
        || {
            trace::section_begun(true);
            $($act;)?
            trace::section_ends();
        }
    };
}

/// A stretch without preemption in which something happens.
macro_rules! without_preemption {
    ($($act:expr)?) => {
        || {
            trace::preemption_disabled();
            $($act;)?
            trace::preemption_enabling();
        }
    };
}

/// What is watched begins and ends with the interrupts.
static IRQ_STEPS: [Step; 7] = [
    step(without_irqs!(), ZERO, BOTH),
    step(
        || {
            begun_now();
            trace::section_ends();
        },
        ZERO,
        Hook::IrqsOn.end(),
    ),
    step(without_irqs!(), Hook::IrqsOn.end(), Hook::IrqsOff.end()),
    step(
        || {
            begun_now();
            super::irq_returns(0);
        },
        ZERO,
        Hook::IrqReturns.end(),
    ),
    step(
        || {
            trace::irq_entered(0, tsc::now());
            super::irq_returns(0);
        },
        Hook::IrqReturns.end(),
        Hook::IrqEntered.end(),
    ),
    step(
        without_irqs!(trace::preemption_disabled()),
        BOTH,
        Hook::PreemptOff.inside(),
    ),
    step(
        without_irqs!(trace::preemption_enabling()),
        BOTH,
        Hook::PreemptOn.inside(),
    ),
];

/// What is watched begins and ends with preemption.
static PREEMPTION_STEPS: [Step; 7] = [
    step(without_preemption!(), ZERO, BOTH),
    step(
        || {
            begun_now();
            trace::preemption_enabling();
        },
        ZERO,
        Hook::PreemptOn.end(),
    ),
    step(
        without_preemption!(),
        Hook::PreemptOn.end(),
        Hook::PreemptOff.end(),
    ),
    step(
        without_preemption!(trace::section_begun(true)),
        BOTH,
        Hook::IrqsOff.inside(),
    ),
    step(
        without_preemption!(trace::section_ends()),
        BOTH,
        Hook::IrqsOn.inside(),
    ),
    step(
        without_preemption!(trace::irq_entered(0, 0)),
        BOTH,
        Hook::IrqEntered.inside(),
    ),
    step(
        without_preemption!(super::irq_returns(0)),
        BOTH,
        Hook::IrqReturns.inside(),
    ),
];

fn measure_all() {
    interrupts::disable();
    measure(IRQS, &IRQ_STEPS);
    percpu::preempt_inc(|| {});
    measure(PREEMPT, &PREEMPTION_STEPS);
    WATCHED.store(0, Relaxed);
    extern "C" fn none() {}
    percpu::preempt_dec(none);
    for cost in [Hook::IrqReturns.end(), Hook::IrqReturns.inside()] {
        COSTS[usize::from(cost)].fetch_add(DIVERSION, Relaxed);
    }
    // SAFETY: they were on.
    unsafe { interrupts::enable() };
}
