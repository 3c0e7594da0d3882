//! The return of every interrupt, diverted for tracers; and where interrupts enter.

use core::arch::global_asm;

use super::interrupts::{KICK_VECTOR, TIMER_VECTOR};
use super::jump_label::{JUMP, Writable, branch, code_at};
use super::percpu;

global_asm!(
    ".section .text.thunk, \"ax\"",
    // The interrupt stack is free here, and it is the only one that surely is: whoever was left may have ended. The SSE
    // registers are restored afterwards.
    "takt_irq_return_traced:",
    "mov rsp, gs:[{IRQ_STACK_TOP}]",
    // As from a place (see `place`), which is the instruction that this comes back to.
    "push -1",
    "push offset takt_irq_return_copy",
    "jmp takt_place_irq_returns",
    "takt_irq_return_copy:", // of the instruction that the jump has replaced
    "mov rsp, gs:[{CURRENT}]",
    "jmp takt_irq_return_rest",
    ".global takt_irq_return_traced, takt_irq_return_copy",
    ".text",
    IRQ_STACK_TOP = const percpu::IRQ_STACK_TOP,
    CURRENT = const percpu::CURRENT,
);

unsafe extern "C" {
    fn takt_irq_timer();
    fn takt_irq_kick();
    fn takt_irq_device();
    static takt_irq_return: [u8; 5];
    static takt_irq_return_traced: u8;
    static takt_irq_return_copy: [u8; 5];
}

/// Where the interrupt of that vector enters; for devices, where all of theirs come together.
pub(crate) fn entry_of(vector: u8) -> usize {
    let stub = match vector {
        TIMER_VECTOR => takt_irq_timer,
        KICK_VECTOR => takt_irq_kick,
        _ => takt_irq_device,
    };
    stub as *const () as usize
}

/// Where every interrupt begins to return.
pub(crate) fn return_place() -> u32 {
    (&raw const takt_irq_return) as u32
}

/// Has every interrupt call [`irq_returns`](crate::trace::irq_returns) before it returns, or no longer.
pub(crate) fn divert_return(text: &mut Writable, on: bool) {
    let place = (&raw const takt_irq_return) as usize;
    let code = if on {
        branch(JUMP, place, (&raw const takt_irq_return_traced) as usize)
    } else {
        // SAFETY: the copy is in the text and never changes.
        unsafe { code_at((&raw const takt_irq_return_copy) as usize) }
    };
    // SAFETY: a whole instruction, or the beginning of one whose rest was left as it was; the rest is the caller's duty.
    unsafe { text.write(place, code) };
}
