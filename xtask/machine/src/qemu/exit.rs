//! [`GuestExit`]: what QEMU's exit status says about the guest.

use std::fmt;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::ExitStatus;

/// How a guest ended. The guest writes a value v to the `isa-debug-exit` port, and QEMU exits with
/// 2v + 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GuestExit {
    /// v = 0x10: all is well.
    Passed,
    /// v = 0x11: what was asked for failed; the log says why.
    Failed,
    /// v = 0x12: a stop threshold was exceeded.
    Threshold,
    /// v = 0x13: a panic or an exception; the serial port has the report.
    Panicked,
    /// QEMU exited by itself without an error: under `-no-reboot` that is a reset, and a guest
    /// resets by a triple fault.
    Reset,
    /// QEMU was asked to end by a signal, which it obeys without an error.
    Told,
    /// QEMU could not start or gave up.
    QemuFailed,
    /// An exit code without a meaning.
    Unknown(i32),
    /// QEMU was ended by a signal.
    Signal(i32),
}

impl GuestExit {
    /// What QEMU's exit status and its own `messages` say together.
    #[must_use]
    pub fn of(status: ExitStatus, messages: &Path) -> Self {
        let is_told = || {
            takt_base::input::read_to_string(messages)
                .is_ok_and(|text| text.contains("terminating on signal"))
        };
        match status.into() {
            Self::Reset if is_told() => Self::Told,
            exit => exit,
        }
    }
}

impl GuestExit {
    /// What a guest says to a serial line that it gives to the port of `isa-debug-exit`.
    #[must_use]
    pub fn of_value(value: u32) -> Self {
        match value {
            0x10 => Self::Passed,
            0x11 => Self::Failed,
            0x12 => Self::Threshold,
            0x13 => Self::Panicked,
            other => Self::Unknown(other.cast_signed()),
        }
    }
}

impl From<ExitStatus> for GuestExit {
    fn from(status: ExitStatus) -> Self {
        match status.code() {
            Some(0) => Self::Reset,
            Some(1) => Self::QemuFailed,
            // It doubles the value and adds one.
            Some(code @ (0x21 | 0x23 | 0x25 | 0x27)) => Self::of_value(code.cast_unsigned() >> 1),
            Some(code) => Self::Unknown(code),
            None => Self::Signal(status.signal().unwrap_or_default()),
        }
    }
}

impl fmt::Display for GuestExit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Passed => f.write_str("the guest ended well"),
            Self::Failed => f.write_str("the guest reported a failure"),
            Self::Threshold => f.write_str("the guest stopped at a threshold"),
            Self::Panicked => f.write_str("the guest ended in a panic or an exception"),
            Self::Reset => {
                f.write_str("the guest reset the machine without a report (a triple fault?)")
            }
            Self::Told => f.write_str("QEMU was told by a signal to end"),
            Self::QemuFailed => f.write_str("QEMU failed (exit code 1)"),
            Self::Unknown(code) => write!(f, "QEMU exited with unknown code {code}"),
            Self::Signal(signal) => write!(f, "QEMU was ended by signal {signal}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_debug_exit_doubles_and_adds_one() {
        for (value, exit) in [
            (0x10, GuestExit::Passed),
            (0x11, GuestExit::Failed),
            (0x12, GuestExit::Threshold),
            (0x13, GuestExit::Panicked),
        ] {
            let code: i32 = (value << 1) | 1;
            assert_eq!(GuestExit::from(ExitStatus::from_raw(code << 8)), exit);
        }
        assert_eq!(GuestExit::from(ExitStatus::from_raw(0)), GuestExit::Reset);
        assert_eq!(
            GuestExit::from(ExitStatus::from_raw(9)),
            GuestExit::Signal(9)
        );
    }
}
