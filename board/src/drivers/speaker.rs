//! The PC's speaker: channel 2 of the interval timer makes a square wave.
//!
//! Source: Intel 8254 data sheet, mode 3; Intel ICH9 data sheet (316972), 13.7.1 (NMI_SC, port 61h).

use core::sync::atomic::{AtomicBool, Ordering::Relaxed};

use bitflags::bitflags;
use embedded_hal::pwm::{Error as PwmError, ErrorKind, ErrorType, SetDutyCycle};
use takt_kernel::machine::Port;

use crate::lock::IrqLock;
use crate::pic::PIT_HZ;

bitflags! {
    /// Port 61h.
    struct Control: u8 {
        /// The timer counts.
        const GATE = 1 << 0;
        /// The timer's output goes to the speaker.
        const DATA = 1 << 1;
        /// Bits that are written: the others are the state of things.
        const WRITTEN = 0x0f;
    }
}

static IS_TAKEN: AtomicBool = AtomicBool::new(false);
/// Port 61h has bits of others as well.
static CONTROL: IrqLock<()> = IrqLock::new(());

/// What the speaker cannot do.
#[derive(Clone, Copy, PartialEq, Eq, Debug, defmt::Format)]
pub enum Error {
    /// A frequency below 19 Hz or above 596,591 Hz.
    Frequency,
    /// A duty cycle other than 0, 1 and 2.
    DutyCycle,
}

impl PwmError for Error {
    fn kind(&self) -> ErrorKind {
        ErrorKind::Other
    }
}

/// The speaker. It has three duty cycles: 0 is off, 1 the square wave, and 2, which is all the time, no sound either: the cone
/// is held out.
#[derive(Debug)]
pub struct Speaker(());

fn control(bits: Control) {
    CONTROL.with(|()| {
        let mut port = Port::<u8>::new(0x61);
        // SAFETY: the port is there on every PC; reading it has no effect.
        let before = Control::from_bits_retain(unsafe { port.read() });
        let others = (before & Control::WRITTEN) - (Control::GATE | Control::DATA);
        // SAFETY: the port of every PC, and the lock is held: the bits of others stay as they are.
        unsafe { port.write((others | bits).bits()) };
    });
}

/// Counts of the timer in a period of this frequency.
fn counts(hz: u32) -> Option<u32> {
    const PIT: u32 = PIT_HZ as u32;
    (19..=PIT / 2).contains(&hz).then(|| (PIT + hz / 2) / hz)
}

impl Speaker {
    /// The speaker, silent, unless somebody has it.
    #[must_use]
    pub fn take() -> Option<Self> {
        if IS_TAKEN.swap(true, Relaxed) {
            return None;
        }
        control(Control::empty());
        Some(Self(()))
    }

    /// Sets the frequency of the square wave, and says which one it is, in Hz: the timer divides 1,193,182 Hz by a whole number.
    ///
    /// # Errors
    /// [`Error::Frequency`]; nothing changes then.
    pub fn set_frequency(&mut self, hz: u32) -> Result<u32, Error> {
        let counts = counts(hz).ok_or(Error::Frequency)?;
        let write = |port: u16, value: u32| {
            // SAFETY: the control word and the counter of channel 2, which is the speaker's.
            unsafe { Port::<u8>::new(port).write(value as u8) };
        };
        write(0x43, 0xb6);
        write(0x42, counts);
        write(0x42, counts >> 8);
        Ok((PIT_HZ as u32 + counts / 2) / counts)
    }
}

impl ErrorType for Speaker {
    type Error = Error;
}

impl SetDutyCycle for Speaker {
    fn max_duty_cycle(&self) -> u16 {
        2
    }

    fn set_duty_cycle(&mut self, duty: u16) -> Result<(), Error> {
        let bits = match duty {
            0 => Control::empty(),
            1 => Control::GATE | Control::DATA,
            // A timer that does not count puts out a one.
            2 => Control::DATA,
            _ => return Err(Error::DutyCycle),
        };
        control(bits);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frequencies_have_limits() {
        for (hz, expected) in [
            (440, Some(2_712)),
            (19, Some(62_799)),
            (18, None),
            (0, None),
            (596_591, Some(2)),
            (1_000_000, None),
        ] {
            assert_eq!(counts(hz), expected, "{hz}");
        }
    }
}
