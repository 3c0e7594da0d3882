//! What interrupts keep in an image whose code lies on the right side of the border (`takt_kernel::arch::sse`): two SSE
//! registers of most code, all of what may use more.
#![no_std]
#![no_main]

mod kept;

takt_board::entry!(takt_tests::harness::main);

/// Changes all SSE registers.
#[inline(never)]
#[unsafe(link_section = ".text.sse.clobber")]
pub(crate) fn clobber() {
    kept::change_all();
}
