//! Results for the host: lines `bench NAME UNIT VALUE` on the serial port.

use core::arch::asm;
use core::fmt::{self, Write};

use takt_board::serial::Serial;

struct Port(Serial);

impl Write for Port {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0.write_bytes(text.as_bytes());
        Ok(())
    }
}

/// Reports a number of instructions.
pub fn insn(name: impl fmt::Display, value: u32) {
    line(name, "insn", value);
}

/// Reports a number of bytes.
pub fn bytes(name: impl fmt::Display, value: u32) {
    line(name, "B", value);
}

/// Is called with each row, before it is written: in a log of what is executed it stands behind what the row measured.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn takt_bench_row() {
    // SAFETY: does nothing; without it the compiler would leave out the call.
    unsafe { asm!("", options(nostack, preserves_flags)) };
}

fn line(name: impl fmt::Display, unit: &str, value: u32) {
    takt_bench_row();
    // The serial port takes everything.
    let _ = writeln!(Port(Serial::com1()), "bench {name} {unit} {value}");
}

/// Ends the run with a word about what could not be measured.
///
/// # Panics
/// Always: that is how an image fails.
pub fn fail(what: &str, error: takt_kernel::Error) -> ! {
    panic!("bench: {what}: {error:?}")
}
