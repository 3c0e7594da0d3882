//! The real-time clock of a PC: time of day, and an interrupt at a time of the day.
//!
//! It counts whole seconds, in whatever time the machine was set to: most have UTC, some the local time.
//!
//! Source: Motorola MC146818A data sheet, registers A to D; ACPI specification 6.4, 4.8.2.4 (the century's register).

use core::sync::atomic::{AtomicBool, AtomicU8, Ordering::Relaxed};

use bitflags::bitflags;
use embedded_hal::delay::DelayNs;
use spin::Once;
use takt_kernel::machine::Port;
use takt_kernel::sync::Semaphore;
use takt_kernel::time::{Delay, Instant, Nanos};
use takt_kernel::{Error, irq};

use crate::ioapic::{Line, Pin};
use crate::lock::IrqLock;

const SECONDS: u8 = 0;
const SECONDS_ALARM: u8 = 1;
const MINUTES: u8 = 2;
const MINUTES_ALARM: u8 = 3;
const HOURS: u8 = 4;
const HOURS_ALARM: u8 = 5;
const DAY: u8 = 7;
const MONTH: u8 = 8;
const YEAR: u8 = 9;
const A: u8 = 0xa;
const B: u8 = 0xb;
const C: u8 = 0xc;

bitflags! {
    /// Register A.
    struct Progress: u8 {
        /// Within 244 us the registers of the time change.
        const UPDATE = 1 << 7;
    }

    /// Register B.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    struct Mode: u8 {
        /// Hours from 0 to 23.
        const HOURS_24 = 1 << 1;
        /// No BCD.
        const BINARY = 1 << 2;
        const ALARM_INTERRUPT = 1 << 5;
    }

    /// Register C: which interrupts have come.
    struct Causes: u8 {
        const ALARM = 1 << 5;
    }
}

/// In hours of 12: afternoon.
const PM: u8 = 1 << 7;

/// An update lasts 2 ms.
const PATIENCE: Nanos = Nanos::from_millis(100);

/// Index and data port belong together.
static PORTS: IrqLock<Ports> = IrqLock::new(Ports(()));
/// The register of the century, by ACPI; 0 if there is none.
static CENTURY: AtomicU8 = AtomicU8::new(0);

static IS_OPEN: AtomicBool = AtomicBool::new(false);
static LINE: Once<Line> = Once::new();
static CAME: Semaphore = Semaphore::new(0, 1);

struct Ports(());

impl Ports {
    /// NMIs stay on: the index's highest bit is 0.
    fn select(register: u8) {
        // SAFETY: the index port of the real-time clock.
        unsafe { Port::<u8>::new(0x70).write(register) };
    }

    fn read(&mut self, register: u8) -> u8 {
        Self::select(register);
        // SAFETY: its data port.
        unsafe { Port::<u8>::new(0x71).read() }
    }

    fn mode(&mut self) -> Mode {
        Mode::from_bits_retain(self.read(B))
    }

    fn set_mode(&mut self, mode: Mode) {
        self.write(B, mode.bits());
    }

    /// What has come since the last reading, which takes it back.
    fn take_causes(&mut self) -> Causes {
        Causes::from_bits_retain(self.read(C))
    }

    fn write(&mut self, register: u8, value: u8) {
        Self::select(register);
        // SAFETY: its data port.
        unsafe { Port::<u8>::new(0x71).write(value) };
    }
}

/// Notes where ACPI says that the century is.
pub(crate) fn init(century: Option<u8>) {
    CENTURY.store(century.unwrap_or(0), Relaxed);
}

/// A time of the day.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, defmt::Format)]
pub struct Time {
    /// 0 to 23.
    pub hour: u8,
    /// 0 to 59.
    pub minute: u8,
    /// 0 to 59.
    pub second: u8,
}

/// A day and a time of it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, defmt::Format)]
pub struct DateTime {
    /// With its century. Where the machine has no register for that, from 1980 to 2079.
    pub year: u16,
    /// 1 to 12.
    pub month: u8,
    /// 1 to 31.
    pub day: u8,
    /// The time of the day.
    pub time: Time,
}

/// What the registers of the time hold.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Raw {
    time: [u8; 3],
    day: u8,
    month: u8,
    year: u8,
    century: Option<u8>,
    mode: Mode,
}

impl Raw {
    /// None while they change.
    fn read(ports: &mut Ports) -> Option<Self> {
        if Progress::from_bits_retain(ports.read(A)).contains(Progress::UPDATE) {
            return None;
        }
        Some(Self {
            time: [HOURS, MINUTES, SECONDS].map(|register| ports.read(register)),
            day: ports.read(DAY),
            month: ports.read(MONTH),
            year: ports.read(YEAR),
            century: match CENTURY.load(Relaxed) {
                0 => None,
                register => Some(ports.read(register)),
            },
            mode: ports.mode(),
        })
    }

    /// A register's number.
    fn number(self, value: u8) -> Option<u8> {
        match (self.mode.contains(Mode::BINARY), value >> 4, value & 0xf) {
            (true, ..) => Some(value),
            (false, tens @ 0..=9, ones @ 0..=9) => Some(10 * tens + ones),
            _ => None,
        }
    }

    /// None if they are no time: a clock that was never set.
    fn decode(self) -> Option<DateTime> {
        let [hours, minutes, seconds] = self.time;
        let hour = if self.mode.contains(Mode::HOURS_24) {
            self.number(hours)?
        } else {
            let hour = self.number(hours & !PM)?;
            let hour = (1..=12).contains(&hour).then_some(hour % 12)?;
            hour + if hours & PM != 0 { 12 } else { 0 }
        };
        let year = u16::from(self.number(self.year)?);
        let century = match self.century {
            Some(century) => u16::from(self.number(century)?),
            None if year >= 80 => 19,
            None => 20,
        };
        let time = Time {
            hour,
            minute: self.number(minutes)?,
            second: self.number(seconds)?,
        };
        let now = DateTime {
            year: 100 * century + year,
            month: self.number(self.month)?,
            day: self.number(self.day)?,
            time,
        };
        let is_date = (1..=12).contains(&now.month) && (1..=31).contains(&now.day) && year < 100;
        (is_date && hour < 24 && time.minute < 60 && time.second < 60).then_some(now)
    }

    /// A number as the registers have it.
    fn encode(mode: Mode, number: u8) -> u8 {
        match mode.contains(Mode::BINARY) {
            false => 16 * (number / 10) + number % 10,
            true => number,
        }
    }

    /// An hour as the registers have it.
    fn encode_hour(mode: Mode, hour: u8) -> u8 {
        if mode.contains(Mode::HOURS_24) {
            return Self::encode(mode, hour);
        }
        let of_12 = Self::encode(mode, (hour + 11) % 12 + 1);
        of_12 | if hour >= 12 { PM } else { 0 }
    }
}

/// The time.
///
/// # Errors
/// [`Error::TimedOut`] if the registers have not been at rest for a tenth of a second: there is no clock;
/// [`Error::InvalidState`] if what they hold is no time: it was never set.
///
/// # Context
/// Any but NMIs; it may take 2 ms, in which a thread sleeps.
pub fn now() -> Result<DateTime, Error> {
    let deadline = Instant::after(PATIENCE);
    let mut last = None;
    while Instant::now() < deadline {
        // Twice the same: whoever holds the machine up between two registers (SMIs) does so for less than a second.
        let raw = PORTS.with(Raw::read);
        if raw.is_some() && raw == last {
            return raw.and_then(Raw::decode).ok_or(Error::InvalidState);
        }
        if raw.is_none() {
            Delay.delay_us(300);
        }
        last = raw;
    }
    Err(Error::TimedOut)
}

extern "C" fn on_alarm(_: usize, _: Instant) {
    if PORTS.with(Ports::take_causes).contains(Causes::ALARM) {
        // A permit that nobody has taken says it as well.
        let _ = CAME.give();
    }
}

/// The clock's alarm. There is one.
#[derive(Debug)]
pub struct Alarm(());

impl Alarm {
    /// Has the alarm's interrupts come to a CPU.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] if the CPU does not run; [`Error::InvalidState`] if there is an `Alarm` already, or the
    /// clock's pin has another handler; [`Error::OutOfResources`] if there is no vector.
    pub fn take(cpu: usize) -> Result<Self, Error> {
        if IS_OPEN.swap(true, Relaxed) {
            return Err(Error::InvalidState);
        }
        let route = || Pin::isa(8)?.route(irq::request("rtc", on_alarm, 0)?, cpu);
        let line = route().inspect_err(|_| IS_OPEN.store(false, Relaxed))?;
        PORTS.with(Ports::take_causes);
        LINE.call_once(|| line).unmask();
        Ok(Self(()))
    }

    /// Sets it to a time of the day: it comes then every day. An earlier setting is forgotten.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] if it is no time.
    pub fn set(&mut self, at: Time) -> Result<(), Error> {
        if at.hour > 23 || at.minute > 59 || at.second > 59 {
            return Err(Error::InvalidArgument);
        }
        PORTS.with(|ports| {
            let mode = ports.mode();
            ports.set_mode(mode - Mode::ALARM_INTERRUPT);
            ports.write(HOURS_ALARM, Raw::encode_hour(mode, at.hour));
            ports.write(MINUTES_ALARM, Raw::encode(mode, at.minute));
            ports.write(SECONDS_ALARM, Raw::encode(mode, at.second));
            // What came at the last time.
            ports.take_causes();
            let _ = CAME.try_take();
            ports.set_mode(mode | Mode::ALARM_INTERRUPT);
        });
        Ok(())
    }

    /// No more of them.
    pub fn clear(&mut self) {
        PORTS.with(|ports| {
            let mode = ports.mode();
            ports.set_mode(mode - Mode::ALARM_INTERRUPT);
        });
    }

    /// Waits for it.
    ///
    /// # Errors
    /// As [`Semaphore::take_until`].
    pub fn wait_until(&mut self, deadline: Instant) -> Result<(), Error> {
        CAME.take_until(deadline)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RAW: Raw = Raw {
        time: [0x23, 0x59, 0x58],
        day: 0x31,
        month: 0x12,
        year: 0x99,
        century: Some(0x20),
        mode: Mode::HOURS_24,
    };

    fn time(hour: u8, minute: u8, second: u8) -> Time {
        Time {
            hour,
            minute,
            second,
        }
    }

    #[test]
    fn registers_are_decoded() {
        let expected = DateTime {
            year: 2099,
            month: 12,
            day: 31,
            time: time(23, 59, 58),
        };
        assert_eq!(RAW.decode(), Some(expected));
        let binary = Raw {
            time: [23, 59, 58],
            day: 31,
            month: 12,
            year: 99,
            century: Some(20),
            mode: Mode::HOURS_24 | Mode::BINARY,
        };
        assert_eq!(binary.decode(), Some(expected));
        let year = |year, century| {
            Raw {
                year,
                century,
                ..RAW
            }
            .decode()
            .map(|it| it.year)
        };
        assert_eq!(year(0x80, None), Some(1980));
        assert_eq!(year(0x79, None), Some(2079));
        assert_eq!(year(0x79, Some(0x19)), Some(1979));
    }

    #[test]
    fn hours_of_twelve_are_decoded_and_encoded() {
        for mode in [
            Mode::empty(),
            Mode::BINARY,
            Mode::HOURS_24,
            Mode::HOURS_24 | Mode::BINARY,
        ] {
            for hour in 0..24 {
                let raw = Raw::encode_hour(mode, hour);
                let it = Raw {
                    time: [raw, Raw::encode(mode, 59), Raw::encode(mode, 7)],
                    day: Raw::encode(mode, 31),
                    month: Raw::encode(mode, 12),
                    year: Raw::encode(mode, 26),
                    century: None,
                    mode,
                };
                assert_eq!(
                    it.decode().map(|it| it.time),
                    Some(time(hour, 59, 7)),
                    "{mode:?} {hour}"
                );
            }
        }
        let hour = |raw| {
            Raw {
                time: [raw, 0, 0],
                mode: Mode::empty(),
                ..RAW
            }
            .decode()
            .map(|it| it.time.hour)
        };
        assert_eq!(
            [hour(0x12), hour(0x92), hour(0x01), hour(0x91)],
            [Some(0), Some(12), Some(1), Some(23)]
        );
        assert_eq!([hour(0x00), hour(0x13), hour(0x1a)], [None; 3]);
    }

    #[test]
    fn what_is_no_time_is_refused() {
        for raw in [
            Raw {
                time: [0x24, 0, 0],
                ..RAW
            },
            Raw {
                time: [0, 0x60, 0],
                ..RAW
            },
            Raw {
                time: [0, 0, 0xff],
                ..RAW
            },
            Raw { day: 0, ..RAW },
            Raw { month: 0x13, ..RAW },
            Raw { year: 0xff, ..RAW },
            Raw {
                year: 255,
                mode: Mode::BINARY | Mode::HOURS_24,
                ..RAW
            },
        ] {
            assert_eq!(raw.decode(), None, "{raw:?}");
        }
    }
}
