//! Calls that keep every register, for rare paths out of hot code.
//!
//! An ordinary call costs the function around it up to twelve instructions even if it is never made: what lives across
//! it has to be in callee-saved registers, which are saved at the beginning and restored at the end. A thunk keeps all
//! general registers itself, so the code around it pays nothing; whoever takes the rare path pays twenty instructions.

use core::arch::{asm, global_asm};

global_asm!(
    ".section .text.thunk, \"ax\"",
    ".macro TAKT_THUNK_BEGIN name",
    "\\name:",
    ".irp r, rax,rcx,rdx,rsi,rdi,r8,r9,r10,r11",
    "push \\r",
    ".endr",
    ".endm",
    ".macro TAKT_THUNK_END",
    ".irp r, r11,r10,r9,r8,rdi,rsi,rdx,rcx,rax",
    "pop \\r",
    ".endr",
    "ret",
    ".endm",
    //
    ".macro TAKT_THUNK name, function",
    "TAKT_THUNK_BEGIN \\name",
    "call \\function",
    "TAKT_THUNK_END",
    ".endm",
    //
    // The function gets the place of the call: the return address, behind the nine registers. The end is there once.
    ".macro TAKT_THUNK_PLACE name, function",
    "TAKT_THUNK_BEGIN \\name",
    "mov edi, [rsp + 72]",
    "call \\function",
    "jmp 9f",
    ".endm",
    "TAKT_THUNK takt_thunk_lock, {lock}",
    "TAKT_THUNK takt_thunk_lock_thread, {lock_thread}",
    "TAKT_THUNK takt_thunk_unlock, {unlock}",
    "TAKT_THUNK_PLACE takt_thunk_preempt_disabled, {preempt_disabled}",
    "TAKT_THUNK_PLACE takt_thunk_preempt_enabling, {preempt_enabling}",
    "TAKT_THUNK_PLACE takt_thunk_irq_disabled, {irq_disabled}",
    // The last one goes on to the end.
    "TAKT_THUNK_BEGIN takt_thunk_irq_enabling",
    "mov edi, [rsp + 72]",
    "call {irq_enabling}",
    "9:",
    "TAKT_THUNK_END",
    ".text",
    lock = sym crate::lock::lock_smp,
    lock_thread = sym crate::lock::lock_thread_smp,
    unlock = sym crate::lock::unlock_smp,
    irq_disabled = sym crate::trace::irq_disabled,
    irq_enabling = sym crate::trace::irq_enabling,
    preempt_disabled = sym crate::trace::preempt_disabled,
    preempt_enabling = sym crate::trace::preempt_enabling,
);

/// A call that the compiler takes for an instruction: it keeps the general registers, not the SSE ones. The stack is
/// aligned for it, since it does not say `nostack`.
macro_rules! call {
    ($name:literal) => {
        // SAFETY: the thunk keeps what is not declared here, and is an ordinary function otherwise.
        unsafe {
            asm!(concat!("call ", $name),
                out("xmm0") _, out("xmm1") _, out("xmm2") _, out("xmm3") _,
                out("xmm4") _, out("xmm5") _, out("xmm6") _, out("xmm7") _,
                out("xmm8") _, out("xmm9") _, out("xmm10") _, out("xmm11") _,
                out("xmm12") _, out("xmm13") _, out("xmm14") _, out("xmm15") _);
        }
    };
}

/// Calls [`lock_smp`](crate::lock::lock_smp).
#[inline(always)]
pub(crate) fn lock_smp() {
    call!("takt_thunk_lock");
}

/// Calls [`lock_thread_smp`](crate::lock::lock_thread_smp).
#[inline(always)]
pub(crate) fn lock_thread_smp() {
    call!("takt_thunk_lock_thread");
}

/// Calls [`unlock_smp`](crate::lock::unlock_smp).
#[inline(always)]
pub(crate) fn unlock_smp() {
    call!("takt_thunk_unlock");
}

/// Calls [`irq_disabled`](crate::trace::irq_disabled) with this place.
#[inline(always)]
pub(crate) fn irq_disabled() {
    call!("takt_thunk_irq_disabled");
}

/// Calls [`irq_enabling`](crate::trace::irq_enabling) with this place.
#[inline(always)]
pub(crate) fn irq_enabling() {
    call!("takt_thunk_irq_enabling");
}

/// Calls [`preempt_disabled`](crate::trace::preempt_disabled) with this place.
#[inline(always)]
pub(crate) fn preempt_disabled() {
    call!("takt_thunk_preempt_disabled");
}

/// Calls [`preempt_enabling`](crate::trace::preempt_enabling) with this place.
#[inline(always)]
pub(crate) fn preempt_enabling() {
    call!("takt_thunk_preempt_enabling");
}
