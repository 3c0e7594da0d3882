//! What the hooks cost, measured at the start of a tracer: each place behaves as those in the kernel do.

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::{CRITICAL, Cpu, IRQS, PREEMPT, WATCHED, this};
use crate::arch::jump_label::{self, Key, number};
use crate::arch::stop::Text;
use crate::arch::{interrupts, percpu, tsc};
use crate::trace::compact::{counted, rolled};
use crate::trace::places::Places;
use crate::trace::{self, events, latency};

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

/// Costs of a hook in cycles.
struct Cost {
    /// Between the place and the hook's time stamp: after it where a stretch begins, before it where one ends.
    end: AtomicU64,
    /// From one end of the place to the other, where the hook neither begins nor ends a stretch.
    inside: AtomicU64,
}

static COSTS: [Cost; 6] = [const {
    Cost {
        end: AtomicU64::new(0),
        inside: AtomicU64::new(0),
    }
}; 6];

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

/// How often each is measured: the first times right after the code was rewritten take longer on a real machine.
const ROUNDS: usize = 16;

/// The shortest of some stretches, with the tracer's own instructions. They are called, which takes place before they begin
/// and after they end.
#[inline(never)]
fn shortest(stretch: fn(&Cpu)) -> u64 {
    let cpu = this();
    let mut shortest = u64::MAX;
    for _ in counted(ROUNDS) {
        stretch(cpu);
        shortest = shortest.min(cpu.last.load(Relaxed));
    }
    shortest
}

/// The events of the places: their records must neither be measured nor show what never was.
static EVENTS: [Key; 5] = [
    &events::irq_disable::ID,
    &events::irq_enable::ID,
    &events::preempt_disable::ID,
    &events::preempt_enable::ID,
    &events::irq_handler_entry::ID,
];

/// Measures all of them.
///
/// # Context
/// A thread with preemption and interrupts enabled. Interrupts are off for some 20,000 instructions.
pub(super) fn run(text: &mut Text) {
    let mut were_on = 0;
    for (bit, key) in rolled(&EVENTS).enumerate() {
        were_on |= u8::from(jump_label::is_on(number(key))) << bit;
    }
    switch(text, were_on, true);
    measure();
    switch(text, were_on, false);
}

/// The hooks are there to be measured, and the events that were on are not; or the other way round.
#[inline(never)]
fn switch(text: &mut Text, were_on: u8, begins: bool) {
    text.patch(|text| {
        for (bit, key) in rolled(&EVENTS).enumerate() {
            if were_on >> bit & 1 != 0 {
                // SAFETY: every other CPU stands still.
                unsafe { jump_label::set(text, number(key), !begins) };
            }
        }
        latency::set_hooks(text, Places::ALL, &CRITICAL, begins);
    });
}

/// Instructions of the diverted return in front of its call.
const DIVERSION: u64 = 3;

#[inline(always)]
fn begun_now(cpu: &Cpu) {
    cpu.since.store(tsc::now(), Relaxed);
}

fn measure() {
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
    /// What it takes between two places that are measured to take `both`.
    macro_rules! inside {
        ($act:expr) => {{
            let with = shortest(|_| {
                trace::section_begun(true);
                $act;
                trace::section_ends();
            });
            with.saturating_sub(both)
        }};
    }
    let returns_end = shortest(|cpu| {
        begun_now(cpu);
        super::irq_returns(0);
    });
    let entry_to_return = shortest(|_| {
        trace::irq_entered(0, tsc::now());
        super::irq_returns(0);
    });
    let preempt_off = inside!(trace::preemption_disabled());
    let preempt_on = inside!(trace::preemption_enabling());

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
    macro_rules! inside {
        ($act:expr) => {{
            let with = shortest(|_| {
                trace::preemption_disabled();
                $act;
                trace::preemption_enabling();
            });
            with.saturating_sub(both)
        }};
    }
    let irqs_off = inside!(trace::section_begun(true));
    let irqs_on = inside!(trace::section_ends());
    let irq_entered = inside!(trace::irq_entered(0, 0));
    let irq_returns = inside!(super::irq_returns(0));
    WATCHED.store(0, Relaxed);
    extern "C" fn none() {}
    percpu::preempt_dec(none);

    Hook::IrqsOff.set(irqs_begin, irqs_off);
    Hook::IrqsOn.set(irqs_end, irqs_on);
    Hook::PreemptOff.set(preempt_begin, preempt_off);
    Hook::PreemptOn.set(preempt_end, preempt_on);
    Hook::IrqEntered.set(entry_to_return.saturating_sub(returns_end), irq_entered);
    Hook::IrqReturns.set(returns_end + DIVERSION, irq_returns + DIVERSION);
    // SAFETY: they were on.
    unsafe { interrupts::enable() };
}
