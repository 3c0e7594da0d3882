//! Two places that whoever reads a list of executed instructions recognises: where a stretch under test begins and where
//! it ends.
//!
//! The stretch is what is executed between the return from [`begin`] and the call of [`end`]. `begin` waits for a given
//! cycle exactly, so that a stretch begins at the same distance from a deadline each time, whatever came before it.

use core::arch::naked_asm;

use crate::clock::{AtomicInstant, Cycles, Instant};

/// From the time stamp that [`begin`] stores to the first instruction of the stretch, under icount: so many instructions are between.
pub const BEGIN_LEN: Cycles = Cycles::new(5);

/// Waits until the time stamp counter reads `when`, exact to the instruction where one is one cycle (`when` has to be at
/// least 13 cycles ahead; if it is not, it begins at once), and stores the time in `at`.
///
/// # Context
/// Threads, with interrupts on; any that comes while it waits makes it begin late, which `at` shows.
#[unsafe(naked)]
#[unsafe(export_name = "takt_mark_begin")]
#[unsafe(link_section = ".text.notrace.marks")]
pub extern "C" fn begin(at: &AtomicInstant, when: Instant) {
    naked_asm!(
        "rdtsc",
        "shl rdx, 32",
        "or rax, rdx",
        "sub rsi, rax",
        "jbe 4f",
        "sub rsi, {overhead}",
        "jbe 4f",
        // An odd rest takes one instruction more than an even one: a loop has two a round.
        "test sil, 1",
        "jz 2f",
        "dec rsi",
        "2:",
        "add rsi, 2",
        "3:",
        "sub rsi, 2",
        "jnz 3b",
        "4:",
        // From here on whoever reads what was executed knows that the stretch is about to begin.
        ".globl takt_mark_begun",
        "takt_mark_begun:",
        "rdtsc",
        "shl rdx, 32",
        "or rax, rdx",
        "mov [rdi], rax",
        "ret",
        overhead = const OVERHEAD,
    );
}

/// Instructions from the first reading of the clock to the second one besides those that are waited for.
const OVERHEAD: u64 = 12;

/// Stores the time at which the stretch has ended.
///
/// # Context
/// As [`begin`].
#[unsafe(naked)]
#[unsafe(export_name = "takt_mark_end")]
#[unsafe(link_section = ".text.notrace.marks")]
pub extern "C" fn end(at: &AtomicInstant) {
    naked_asm!(
        "rdtsc",
        "shl rdx, 32",
        "or rax, rdx",
        "mov [rdi], rax",
        "ret",
    );
}

/// Executes one and the same instruction for ever: whenever a thread that does so is interrupted, and wherever it was left
/// the last time, it stands at the same place.
///
/// # Context
/// Threads less important than any that has to run.
#[unsafe(naked)]
#[unsafe(link_section = ".text.notrace.stand_still")]
pub extern "C" fn stand_still() -> ! {
    naked_asm!("2:", "jmp 2b")
}
