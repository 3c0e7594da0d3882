//! The same where a function that uses more lies behind the border: all is kept of any code.
#![no_std]
#![no_main]

mod kept;

takt_board::entry!(takt_tests::harness::main);

/// Changes all SSE registers.
#[inline(never)]
pub(crate) fn clobber() {
    kept::change_all();
}
