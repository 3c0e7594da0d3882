//! Reading model-specific registers of which it is not known whether this CPU has them.
//!
//! A CPU answers the reading of one that it has not by an exception. Its handler knows the one instruction here that may cause that,
//! and goes on behind it.

use core::arch::global_asm;

// Apart from all else, so that the exception's handler knows the one instruction that may fault: with the register's number
// in `edi` and where its value goes in `rsi`; says in `eax` whether there is one.
global_asm!(
    ".pushsection .text.notrace.msr, \"ax\"",
    ".globl takt_read_msr",
    "takt_read_msr:",
    "mov ecx, edi",
    "takt_read_msr_at:",
    "rdmsr",
    "shl rdx, 32",
    "or rax, rdx",
    "mov [rsi], rax",
    "mov eax, 1",
    "ret",
    "takt_read_msr_failed:",
    "xor eax, eax",
    "ret",
    ".popsection",
);

unsafe extern "C" {
    fn takt_read_msr(number: u32, value: *mut u64) -> u32;
    static takt_read_msr_at: u8;
    static takt_read_msr_failed: u8;
}

/// Reads a model-specific register; `None` if the CPU has none of that number.
///
/// # Context
/// Any but NMIs: the exception's end lets the next one come.
#[must_use]
pub(crate) fn read(number: u32) -> Option<u64> {
    let mut value = 0;
    // SAFETY: a register is only read, and the fault of one that is not there is dealt with (`resume`).
    let is_there = unsafe { takt_read_msr(number, &raw mut value) };
    (is_there != 0).then_some(value)
}

/// Where a general protection fault at `rip` goes on, if it is that of a register that is not there.
#[inline(always)]
pub(super) fn resume(rip: u64) -> Option<u64> {
    let is_ours = rip == (&raw const takt_read_msr_at).addr() as u64;
    is_ours.then(|| (&raw const takt_read_msr_failed).addr() as u64)
}
