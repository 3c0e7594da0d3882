//! Calls that keep every register, for rare paths out of hot code.
//!
//! An ordinary call costs the function around it up to twelve instructions even if it is never made: what lives across
//! it has to be in callee-saved registers, which are saved at the beginning and restored at the end. A thunk keeps all
//! general registers itself, so the code around it pays nothing; whoever takes the rare path pays twenty instructions.

use core::arch::{asm, global_asm};
use core::mem::offset_of;
use core::sync::atomic::AtomicU32;

use crate::arch::interrupts;
use crate::arch::percpu::{self, CURRENT, PerCpu, behind_gs};
use crate::cpus::is_smp;
use crate::probe;
use crate::thread::tcb::{Tcb, TcbRef};

global_asm!(
    ".section .text.thunk, \"ax\"",
    // A function of ours that one of these calls is shown with its caller, which is known by its block.
    "takt_thunks:",
    ".balign 64",
    // The kernel lock's ways are taken by every section once there are several CPUs: they save what they use.
    ".macro TAKT_LOCK",
    "push rax",
    "push rcx",
    "mov eax, gs:[{cpu}]",
    "cmp [rip + {lock} + {owner}], eax",
    "je 3f",
    "mov ecx, 1",
    "lock xadd [rip + {lock} + {next}], ecx",
    "1:",
    "cmp [rip + {lock} + {serving}], ecx",
    "jne 2f",
    "mov [rip + {lock} + {owner}], eax",
    "4:",
    ".endm",
    ".macro TAKT_LOCK_RARE",
    "2:",
    "pause",
    "jmp 1b",
    "3:",
    "inc dword ptr [rip + {lock} + {depth}]",
    "jmp 4b",
    ".endm",
    "takt_thunk_lock:",
    "TAKT_LOCK",
    "pop rcx",
    "pop rax",
    "ret",
    "TAKT_LOCK_RARE",
    "takt_thunk_lock_thread:",
    "TAKT_LOCK",
    "mov rax, gs:[{current}]",
    "cmp byte ptr [rax + {state}], 0",
    "pop rcx",
    "pop rax",
    "jne takt_thunk_lock_not_ready",
    "ret",
    "TAKT_LOCK_RARE",
    ".balign 64",
    "takt_thunk_lock_not_ready:",
    ".irp r, rax,rcx,rdx,rsi,rdi,r8,r9,r10,r11",
    "push \\r",
    ".endr",
    "call {not_ready}",
    ".irp r, r11,r10,r9,r8,rdi,rsi,rdx,rcx,rax",
    "pop \\r",
    ".endr",
    "ret",
    ".balign 64",
    "takt_thunk_unlock:",
    "cmp dword ptr [rip + {lock} + {depth}], 0",
    "jne 1f",
    "mov dword ptr [rip + {lock} + {owner}], -1",
    // Nobody else writes it.
    "inc dword ptr [rip + {lock} + {serving}]",
    "ret",
    "1:",
    "dec dword ptr [rip + {lock} + {depth}]",
    "ret",
    ".text",
    lock = sym LOCK,
    next = const offset_of!(KernelLock, next),
    serving = const offset_of!(KernelLock, serving),
    owner = const offset_of!(KernelLock, owner),
    depth = const offset_of!(KernelLock, depth),
    cpu = const behind_gs(offset_of!(PerCpu, cpu)),
    current = const CURRENT,
    state = const offset_of!(Tcb, state),
    not_ready = sym locked_not_ready,
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

/// The kernel lock, a ticket lock; zeros and no owner at the beginning. Only the ways above reach it.
#[repr(C, align(64))]
struct KernelLock {
    /// The next ticket.
    next: AtomicU32,
    /// Whose turn it is.
    serving: AtomicU32,
    /// The CPU that holds it, or `u32::MAX`; and how often besides the first time: a timer's function runs inside the timer
    /// interrupt's section and may enter sections of its own.
    owner: AtomicU32,
    depth: AtomicU32,
}

static LOCK: KernelLock = KernelLock {
    next: AtomicU32::new(0),
    serving: AtomicU32::new(0),
    owner: AtomicU32::new(u32::MAX),
    depth: AtomicU32::new(0),
};

/// Takes the kernel lock, once more if this CPU holds it.
///
/// # Context
/// Interrupts off, so that the CPU does not change between the question whose it is and the answer.
#[inline(always)]
pub(crate) fn lock_smp() {
    call!("takt_thunk_lock");
}

/// Takes the kernel lock for a thread. Where another CPU has suspended it meanwhile, it goes on by
/// [`locked_not_ready`].
///
/// # Context
/// As [`lock_smp`], but interrupts may be enabled for a moment.
#[inline(always)]
pub(crate) fn lock_thread_smp() {
    call!("takt_thunk_lock_thread");
}

/// Gives up the kernel lock, which this CPU holds.
///
/// # Context
/// Interrupts off.
#[inline(always)]
fn unlock_smp() {
    call!("takt_thunk_unlock");
}

/// Takes the lock, where more than one CPU runs.
#[inline(always)]
pub(crate) fn lock() {
    if is_smp!() {
        lock_smp();
    }
}

/// As [`lock`], where interrupts may be enabled for a moment.
#[inline(always)]
pub(crate) fn lock_thread() {
    if is_smp!() {
        lock_thread_smp();
    }
}

/// Gives it up.
#[inline(always)]
pub(crate) fn unlock() {
    if is_smp!() {
        unlock_smp();
    }
}

/// The lock was taken for a thread that is not ready, or has not come to wait yet. While it waited for the lock another CPU
/// may have suspended it and taken it out of its run queue: it may go on only when it is resumed, or it would be taken out
/// once more.
extern "C" fn locked_not_ready() {
    loop {
        if TcbRef::current().state() == 0 || !percpu::is_preemptible() {
            return;
        }
        unlock_smp();
        probe::section_ends();
        // SAFETY: they were on, or are on after a switch. The other CPU's kick comes now and switches.
        unsafe { interrupts::enable() };
        // Not a `pause`: QEMU carries the shadow of `sti` over it, and nothing would ever come.
        interrupts::let_in();
        interrupts::disable();
        probe::section_begun();
        lock_smp();
    }
}

/// Ends the section of a thread that has ended and is not on its stack any more.
pub(crate) extern "C" fn end_abandoned() {
    unlock();
}
