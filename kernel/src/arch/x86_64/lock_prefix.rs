//! Words that several CPUs change: with a `lock` prefix where several run, without one while one does.
//!
//! The prefix takes some ten cycles even where nobody else has the word. On one CPU it does nothing: an interrupt comes between
//! instructions, never within one. So xtask, when it makes an image, puts `ds` into the place of each such prefix, which does
//! nothing in 64-bit mode, and notes where that is; [`restore`] puts them back before a second CPU begins. As an image is linked
//! it has them all.
//!
//! Two sections tell of them: `.takt.locks`, which is not loaded, where an instruction with the prefix follows, and where its
//! address is to be noted (4 bytes each); `.takt.lock_table` has those notes, and is not there where the kernel is built for one CPU.
//!
//! Source: Intel SDM vol. 2A, 2.1.1 and vol. 3A, 9.1.2; the idea is that of Linux's alternatives.

use super::jump_label::Writable;
use crate::compact::{between, rolled};
use crate::config::MAX_CPUS;

/// A `lock` prefix.
const LOCK: u8 = 0xf0;

unsafe extern "C" {
    static __lock_table_start: u32;
    static __lock_table_end: u32;
}

/// An operation of an atomic word's that is one instruction, with a `lock` prefix where several CPUs run. What it is given takes no
/// such instruction to find, and no jump.
macro_rules! locked_if_smp {
    ($operation:expr) => {{
        // SAFETY: there is no instruction.
        unsafe {
            core::arch::asm!(
                "777:",
                ".if {max} > 1",
                ".pushsection .takt.lock_table, \"a\", @progbits",
                "778: .long 0",
                ".popsection",
                ".pushsection .takt.locks, \"\", @progbits",
                ".long 777b, 778b",
                ".else",
                ".pushsection .takt.locks, \"\", @progbits",
                ".long 777b, 0",
                ".endif",
                ".popsection",
                max = const $crate::config::MAX_CPUS,
                options(nomem, nostack, preserves_flags)
            )
        };
        $operation
    }};
}
pub(crate) use locked_if_smp;

/// Puts the prefixes back, before a second CPU runs.
#[cold]
pub(crate) fn restore(text: &mut Writable) {
    if MAX_CPUS == 1 {
        return;
    }
    // SAFETY: the linker script puts both symbols around the table.
    let table = unsafe { between(&raw const __lock_table_start, &raw const __lock_table_end) };
    for place in rolled(table) {
        super::proof::bounded!("instructions that have a prefix with several CPUs");
        if *place != 0 {
            // SAFETY: xtask has noted where such a prefix was.
            unsafe { text.write_first(*place, LOCK) };
        }
    }
}
