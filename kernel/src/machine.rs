//! What the kernel needs of the machine that it runs on, and the way out of it.

use core::fmt::{self, Write};

use spin::Once;

use crate::arch::interrupts;

/// How a run ended, as the host is told.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum ExitCode {
    /// All went well.
    Passed = 0x10,
    /// The program says that it failed.
    Failed = 0x11,
    /// A latency threshold was hit.
    Threshold = 0x12,
    /// An exception or a panic.
    Fault = 0x13,
}

/// What the kernel needs of the machine that it runs on.
pub trait Machine: Sync {
    /// Writes to a console that works at any time.
    fn emergency_write(&self, text: &[u8]);
    /// Powers the machine off, or resets it.
    fn exit(&self, code: ExitCode) -> !;
    /// Runs in each CPU's idle thread before it halts, with interrupts on; may be preempted at any point.
    fn idle(&self);
}

static MACHINE: Once<&'static dyn Machine> = Once::new();

/// Introduces the machine. At boot, before anything else can fail.
pub fn set_machine(machine: &'static dyn Machine) {
    MACHINE.call_once(|| machine);
}

pub(crate) fn idle() {
    if let Some(machine) = MACHINE.get() {
        machine.idle();
    }
}

/// Ends the run.
pub fn exit(code: ExitCode) -> ! {
    interrupts::disable();
    if let Some(machine) = MACHINE.get() {
        machine.exit(code);
    }
    interrupts::halt_forever()
}

/// The emergency console as a formatter.
pub struct Emergency;

impl Write for Emergency {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        if let Some(machine) = MACHINE.get() {
            machine.emergency_write(text.as_bytes());
        }
        Ok(())
    }
}
