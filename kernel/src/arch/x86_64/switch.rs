//! The voluntary context switch.
//!
//! A thread that gives up the CPU itself keeps its callee-saved registers on its own stack; its control block holds
//! the stack pointer, MXCSR and the address to go on at. A thread that was preempted goes on at
//! `takt_resume_preempted`, a new one at `takt_resume_new`: the switch is one indirect jump for all three.

use core::arch::asm;
use core::mem::offset_of;

use super::proof::{resumed, resumes, told};
use super::sse::mxcsr;
use crate::thread::tcb::{Tcb, TcbRef};

unsafe extern "C" {
    fn takt_resume_preempted();
}

/// Whether a thread that does not run was preempted by an interrupt: then a switch to it loads all of its registers.
#[cfg(feature = "tasks")]
#[inline(always)]
pub(crate) fn is_preempted(t: TcbRef) -> bool {
    t.resume() == takt_resume_preempted as *const () as usize
}

/// Whether the thread was preempted by an interrupt that the next switch of this section goes to, if it was not: then the switch loads all of
/// its registers.
#[inline(always)]
pub(crate) fn next_is_preempted(t: TcbRef) -> bool {
    'asked: {
        // SAFETY: reads a word of a block of the table, and changes the flags only.
        unsafe {
            asm!(
                "cmp qword ptr [{t} + {resume}], offset {preempted}",
                told!("je {is_preempted}", "22"),
                t = in(reg) t.as_ptr(),
                resume = const offset_of!(Tcb, resume),
                preempted = sym takt_resume_preempted,
                is_preempted = label { break 'asked true },
                options(nostack, readonly),
            );
        }
        false
    }
}

/// Leaves `prev`, the running thread, and goes on with `next`. Returns when `prev` is chosen again.
///
/// # Safety
/// Interrupts are off, no lock is held, `prev` is the running thread, and the per-CPU block already names
/// `next` as the current thread.
#[inline(always)]
pub(crate) unsafe fn switch(prev: TcbRef, next: TcbRef) {
    // SAFETY: everything the compiler may keep in a register is either pushed, restored or declared clobbered; rbx and
    // rbp cannot be declared. Everything else is the caller's duty.
    unsafe {
        asm!(
            "push rbx",
            "push rbp",
            // mov qword ptr [rdx + {resume}], offset 2f
            ".byte 0x48, 0xc7, 0x42, {resume}",
            ".long 2f",
            mxcsr!(
                ["mov [rdx + {rsp}], rsp", "stmxcsr [rdx + {mxcsr}]"],
                // A prefix that does nothing, and the same with a longer offset.
                without: [".byte 0x3e, 0x48, 0x89, 0xa2", ".long {rsp}"]
            ),
            resumes!("jmp [rax + {resume}]"),
            "2:",
            mxcsr!(
                [resumed!("mov rsp, [rax + {rsp}]"), "ldmxcsr [rax + {mxcsr}]"],
                without: [".byte 0x3e, 0x48, 0x8b, 0xa0", ".long {rsp}"]
            ),
            "pop rbp",
            "pop rbx",
            resume = const offset_of!(Tcb, resume),
            rsp = const offset_of!(Tcb, rsp),
            mxcsr = const offset_of!(Tcb, mxcsr),
            // Where a first half leaves them.
            inout("rdx") prev.as_ptr() => _,
            inout("rax") next.as_ptr() => _,
            out("rcx") _, out("rsi") _, out("rdi") _,
            out("r8") _, out("r9") _, out("r10") _, out("r11") _,
            out("r12") _, out("r13") _, out("r14") _, out("r15") _,
            out("xmm0") _, out("xmm1") _, out("xmm2") _, out("xmm3") _,
            out("xmm4") _, out("xmm5") _, out("xmm6") _, out("xmm7") _,
            out("xmm8") _, out("xmm9") _, out("xmm10") _, out("xmm11") _,
            out("xmm12") _, out("xmm13") _, out("xmm14") _, out("xmm15") _,
        );
    }
}

const _: () = assert!(offset_of!(Tcb, resume) < 128, "a displacement of one byte");

/// Leaves an idle thread whose state is not worth keeping, to `next` or to itself anew.
///
/// # Safety
/// Interrupts are off, no lock is held, the per-CPU block names `next` as the current thread, and `idle`
/// waited.
#[inline(always)]
pub(crate) unsafe fn leave_idle(idle: TcbRef, next: TcbRef) -> ! {
    // SAFETY: the caller's duty. The interrupt stack is left as it is: the next interrupt begins at its top.
    unsafe {
        asm!(
            "mov qword ptr [{idle} + {resume}], offset takt_resume_idle",
            resumes!("jmp [rax + {resume}]"),
            idle = in(reg) idle.as_ptr(),
            in("rax") next.as_ptr(),
            resume = const offset_of!(Tcb, resume),
            options(noreturn),
        );
    }
}

/// Leaves the running thread without keeping anything of it.
///
/// # Safety
/// Interrupts are off, no lock is held, and the per-CPU block names `next` as the current thread.
#[inline(always)]
pub(crate) unsafe fn leave_for_good(next: TcbRef) -> ! {
    // SAFETY: the caller's duty.
    unsafe {
        asm!(
            resumes!("jmp [rax + {resume}]"),
            in("rax") next.as_ptr(),
            resume = const offset_of!(Tcb, resume),
            options(noreturn),
        );
    }
}

/// The same, and calls `end` on the interrupt stack in between.
///
/// # Safety
/// As [`leave_for_good`].
pub(crate) unsafe fn leave_for_good_by(next: TcbRef, end: extern "C" fn()) -> ! {
    // SAFETY: the caller's duty. With interrupts off the interrupt stack is free; r12 outlives the call.
    unsafe {
        asm!(
            "mov rsp, gs:[{irq_stack_top}]",
            "call {end}",
            "mov rax, r12",
            resumes!("jmp [rax + {resume}]"),
            irq_stack_top = const super::percpu::IRQ_STACK_TOP,
            end = in(reg) end,
            resume = const offset_of!(Tcb, resume),
            in("r12") next.as_ptr(),
            options(noreturn),
        );
    }
}
