//! The way out of the machine.

use takt_kernel::machine::{ExitCode, Port};

/// QEMU's `isa-debug-exit` at the port that xtask gives it.
pub(crate) const DEBUG_EXIT: u16 = 0xf4;

/// Ends the run: QEMU exits with `2 * code + 1`. Of no effect on a machine without that device.
pub(crate) fn exit(code: ExitCode) {
    // SAFETY: the port belongs to the debug-exit device or to nothing.
    unsafe { Port::<u32>::new(DEBUG_EXIT).write(code as u32) };
}
