//! Stretches that are planted: with interrupts or preemption off for a known number of instructions.

use takt_kernel::preempt;
use takt_tests::worker::burn;

use super::GO;

/// Whether a place lies in one of these functions: no other of them begins between.
pub(super) fn is_in(place: u32, function: usize) -> bool {
    let ours = [
        without_irqs as *const () as usize,
        without_preemption as *const () as usize,
        without_either as *const () as usize,
        overlapping as *const () as usize,
        nested as *const () as usize,
    ];
    let place = place as usize;
    let owner = ours.iter().filter(|begin| **begin <= place).max();
    owner == Some(&function) && place - function < 1000
}

/// Interrupts disabled for `instructions` and what the guard takes.
#[inline(never)]
pub(super) fn without_irqs(instructions: u64) {
    let guard = preempt::irq_save();
    burn(instructions);
    drop(guard);
}

#[inline(never)]
pub(super) fn without_preemption(instructions: u64) {
    let guard = preempt::disable();
    burn(instructions);
    drop(guard);
}

/// Both, the one reaching over the end of the other.
#[inline(never)]
pub(super) fn without_either(instructions: u64) {
    let preemption = preempt::disable();
    burn(instructions);
    let interrupts = preempt::irq_save();
    burn(instructions);
    drop(preemption);
    burn(instructions);
    drop(interrupts);
}

/// Guards that end in the order in which they were made.
#[inline(never)]
pub(super) fn overlapping(instructions: u64) {
    let first = preempt::irq_save();
    burn(instructions);
    let second = preempt::irq_save();
    drop(first);
    burn(instructions);
    drop(second);
}

/// Sections inside another one.
#[inline(never)]
pub(super) fn nested(instructions: u64) {
    let outer = preempt::irq_save();
    without_irqs(instructions);
    let _ = GO.give();
    let _ = GO.try_take();
    drop(outer);
}
