//! The same where a function that uses more lies behind the border: all is kept of any code.
#![no_std]
#![no_main]

mod kept;

use core::arch::asm;

takt_board::entry!(takt_tests::harness::main);

/// Changes all SSE registers.
#[inline(never)]
pub(crate) fn clobber() {
    // SAFETY: declares what it changes.
    unsafe {
        asm!(
            ".irp n, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15",
            "pcmpeqd xmm\\n, xmm\\n",
            ".endr",
            out("xmm0") _, out("xmm1") _, out("xmm2") _, out("xmm3") _,
            out("xmm4") _, out("xmm5") _, out("xmm6") _, out("xmm7") _,
            out("xmm8") _, out("xmm9") _, out("xmm10") _, out("xmm11") _,
            out("xmm12") _, out("xmm13") _, out("xmm14") _, out("xmm15") _,
            options(nomem, nostack, preserves_flags),
        );
    }
}
