//! The kernel's locks, where more than one CPU runs.
//!
//! An object that threads wait for has a lock: one of a few, which its address chooses ([`of`]), so that it needs no room for one,
//! and may be gone when the lock is given back. Threads, and the mutexes and messages that chain them to others, have one lock for all
//! ([`CHAINS`]), since a step along a chain changes several of them. What a CPU schedules needs none: nobody else changes that
//! ([`other_cpu`](crate::other_cpu)).
//!
//! A CPU has one lock at a time, so there is no order to keep. It takes it for one section, with interrupts off, and nobody waits for
//! anything while he holds it. They are ticket locks: with N CPUs a wait is at most N - 1 of the longest section with a lock.
//!
//! # Code
//! Calls that keep every register, for rare paths out of hot code. An ordinary call costs the function around it up to twelve
//! instructions even if it is never made: what lives across it has to be in callee-saved registers, which are saved at the
//! beginning and restored at the end. These keep all general registers themselves, so that one CPU pays nothing but the place
//! where they are patched in. Which lock a CPU has is noted in its block, or a section would have to keep that in a register.

use core::arch::{asm, global_asm};
use core::mem::offset_of;
use core::sync::atomic::{AtomicU32, Ordering::Relaxed};

use crate::arch::percpu::{self, PerCpu, behind_gs};
use crate::arch::proof;
use crate::config::MAX_CPUS;
use crate::cpus::is_smp;
use crate::waiters::Waiters;

global_asm!(
    ".section .text.thunk, \"ax\"",
    // A function of ours that one of these calls is shown with its caller, which is known by its block.
    "takt_thunks:",
    ".balign 64",
    // The address of an object's first queue was pushed.
    "takt_thunk_lock_object:",
    "push rcx",
    "mov ecx, [rsp + 16]",
    "and ecx, {mask}",
    "lea ecx, [rcx + {objects}]",
    "jmp 3f",
    ".balign 64",
    "takt_thunk_lock:",
    // The lock's address, which was pushed.
    "push rcx",
    "mov rcx, [rsp + 16]",
    "3:",
    "mov gs:[{held}], ecx",
    "push rax",
    "mov eax, 1",
    proof::told!("lock xadd [rcx + {next}], eax", "19"),
    "1:",
    "cmp [rcx + {serving}], eax",
    "jne 2f",
    "pop rax",
    "pop rcx",
    "ret",
    "2:",
    proof::told!("pause", "20"),
    "jmp 1b",
    ".balign 64",
    "takt_thunk_unlock:",
    "push rcx",
    "mov ecx, gs:[{held}]",
    // Nobody else writes it.
    proof::told!("inc dword ptr [rcx + {serving}]", "21"),
    "pop rcx",
    "ret",
    "takt_thunks_end:",
    ".text",
    objects = sym OBJECTS,
    mask = const (NR_LOCKS - 1) * size_of::<Lock>(),
    held = const behind_gs(offset_of!(PerCpu, held)),
    next = const offset_of!(Lock, next),
    serving = const offset_of!(Lock, serving),
);

/// Asks for a call that the compiler takes for instructions: it keeps the general registers, not the SSE ones. It uses the stack,
/// since it does not say `nostack`.
macro_rules! call {
    ([$($line:literal),*] $(, $lock:ident)?) => {
        // SAFETY: the thunk keeps what is not declared here, and is an ordinary function otherwise.
        unsafe {
            asm!($($line,)* $($lock = in(reg) $lock,)?
                out("xmm0") _, out("xmm1") _, out("xmm2") _, out("xmm3") _,
                out("xmm4") _, out("xmm5") _, out("xmm6") _, out("xmm7") _,
                out("xmm8") _, out("xmm9") _, out("xmm10") _, out("xmm11") _,
                out("xmm12") _, out("xmm13") _, out("xmm14") _, out("xmm15") _);
        }
    };
}

/// A lock: equal words while it is free. Only the ways above reach them, and nobody takes a second one.
#[repr(C, align(64))]
pub(crate) struct Lock {
    /// The next ticket.
    next: AtomicU32,
    /// Whose turn it is.
    serving: AtomicU32,
}

/// How many locks there are for objects. A power of two.
pub(crate) const NR_LOCKS: usize = if MAX_CPUS == 1 { 1 } else { 16 };

/// That of threads, mutexes and messages.
pub(crate) static CHAINS: Lock = Lock::new();

static OBJECTS: [Lock; NR_LOCKS] = [const { Lock::new() }; NR_LOCKS];

impl Lock {
    const fn new() -> Self {
        Self {
            next: AtomicU32::new(0),
            serving: AtomicU32::new(0),
        }
    }
}

/// That of an object, by the first of its queues. The object need not be there any more.
#[inline(always)]
pub(crate) fn of(first: *const Waiters) -> &'static Lock {
    of_number(number(first))
}

/// Which one that is.
#[inline(always)]
pub(crate) fn number(first: *const Waiters) -> usize {
    // Objects that stand side by side are mostly larger than this.
    (first.addr() / size_of::<Lock>()) & (NR_LOCKS - 1)
}

/// An object's lock by its number.
#[inline(always)]
pub(crate) fn of_number(number: usize) -> &'static Lock {
    &OBJECTS[number & (NR_LOCKS - 1)]
}

/// Takes a lock, where more than one CPU runs.
///
/// # Context
/// Interrupts off, and this CPU has none.
#[inline(always)]
pub(crate) fn lock(which: impl FnOnce() -> &'static Lock) {
    if is_smp!() {
        let lock = core::ptr::from_ref(which());
        call!(
            ["push {lock}", "call takt_thunk_lock", "lea rsp, [rsp + 8]"],
            lock
        );
    }
}

/// Takes the lock of the object of which this is the first queue, where more than one CPU runs. [`of`] says the same, but would be
/// computed outside of loops, where one CPU paid for it.
///
/// # Context
/// Interrupts off, and this CPU has none.
#[inline(always)]
pub(crate) fn lock_object(first: &Waiters) {
    if is_smp!() {
        let lock = core::ptr::from_ref(first);
        call!(
            [
                "push {lock}",
                "call takt_thunk_lock_object",
                "lea rsp, [rsp + 8]"
            ],
            lock
        );
    }
}

/// Frees all locks, whoever had them. For the last CPU: all others have halted for good.
pub(crate) fn free_all() {
    for lock in OBJECTS.iter().chain([&CHAINS]) {
        lock.serving.store(lock.next.load(Relaxed), Relaxed);
    }
}

/// Whether this CPU, which is halted at that instruction, may have one: that which it asked for last is taken, and it does not wait for it.
pub(crate) fn may_have_one(rip: usize) -> bool {
    unsafe extern "C" {
        safe static takt_thunks: u8;
        safe static takt_thunks_end: u8;
    }
    let thunks = (&raw const takt_thunks).addr()..(&raw const takt_thunks_end).addr();
    let last = percpu::this().held.load(Relaxed) as usize;
    let objects = core::ptr::from_ref(&OBJECTS).addr();
    let lock = match last == core::ptr::from_ref(&CHAINS).addr() {
        true => Some(&CHAINS),
        false => OBJECTS.get(last.wrapping_sub(objects) / size_of::<Lock>()),
    };
    let is_taken = |it: &Lock| it.serving.load(Relaxed) != it.next.load(Relaxed);
    !thunks.contains(&rip) && lock.is_some_and(is_taken)
}

/// Gives it up.
///
/// # Context
/// Interrupts off, and this CPU has one.
#[inline(always)]
pub(crate) fn unlock() {
    if is_smp!() {
        call!(["call takt_thunk_unlock"]);
    }
}
