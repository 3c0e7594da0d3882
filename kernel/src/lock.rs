//! The kernel lock, where more than one CPU runs.
//!
//! It protects the objects, and what objects and other CPUs know of a thread. What a CPU schedules needs no lock: nobody else
//! changes that ([`other_cpu`](crate::other_cpu)). It is a ticket lock, and the only one, so there is no order to keep. It is
//! taken for one section, with interrupts off, and nobody waits for anything while it is held: with N CPUs a wait is at most
//! N - 1 of the longest section with the lock.
//!
//! # Code
//! Calls that keep every register, for rare paths out of hot code. An ordinary call costs the function around it up to twelve
//! instructions even if it is never made: what lives across it has to be in callee-saved registers, which are saved at the
//! beginning and restored at the end. These keep all general registers themselves, so that one CPU pays nothing but the place
//! where they are patched in.

use core::arch::{asm, global_asm};
use core::mem::offset_of;
use core::sync::atomic::AtomicU32;

use crate::arch::percpu::{PerCpu, behind_gs};
use crate::cpus::{self, is_smp};

global_asm!(
    ".section .text.thunk, \"ax\"",
    // A function of ours that one of these calls is shown with its caller, which is known by its block.
    "takt_thunks:",
    ".balign 64",
    "takt_thunk_lock:",
    "push rcx",
    "mov ecx, 1",
    "lock xadd [rip + {lock} + {next}], ecx",
    "1:",
    "cmp [rip + {lock} + {serving}], ecx",
    "jne 2f",
    "pop rcx",
    "ret",
    "2:",
    "pause",
    "jmp 1b",
    ".balign 64",
    "takt_thunk_unlock:",
    // Nobody else writes it.
    "inc dword ptr [rip + {lock} + {serving}]",
    // Other CPUs are told behind the section, which is the shorter for it.
    "cmp dword ptr gs:[{kicks}], 0",
    "jne 1f",
    "ret",
    "1:",
    ".irp r, rax,rcx,rdx,rsi,rdi,r8,r9,r10,r11",
    "push \\r",
    ".endr",
    "call {send_kicks}",
    ".irp r, r11,r10,r9,r8,rdi,rsi,rdx,rcx,rax",
    "pop \\r",
    ".endr",
    "ret",
    ".text",
    kicks = const behind_gs(offset_of!(PerCpu, kicks)),
    send_kicks = sym cpus::send_kicks,
    lock = sym LOCK,
    next = const offset_of!(KernelLock, next),
    serving = const offset_of!(KernelLock, serving),
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

/// The kernel lock: equal words while it is free. Only the ways above reach it, and nobody takes it twice.
#[repr(C, align(64))]
struct KernelLock {
    /// The next ticket.
    next: AtomicU32,
    /// Whose turn it is.
    serving: AtomicU32,
}

static LOCK: KernelLock = KernelLock {
    next: AtomicU32::new(0),
    serving: AtomicU32::new(0),
};

/// Takes the kernel lock, where more than one CPU runs.
///
/// # Context
/// Interrupts off, and this CPU does not have it.
#[inline(always)]
pub(crate) fn lock() {
    if is_smp!() {
        call!("takt_thunk_lock");
    }
}

/// Gives it up.
///
/// # Context
/// Interrupts off, and this CPU has it.
#[inline(always)]
pub(crate) fn unlock() {
    if is_smp!() {
        call!("takt_thunk_unlock");
    }
}
