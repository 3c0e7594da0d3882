//! The real-time clock, the HPET as a second timer, and the speaker's timer. QEMU's clocks all follow the guest's time.

use core::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

use embedded_hal::pwm::SetDutyCycle;
use takt_board::drivers::hpet::Timer;
use takt_board::drivers::rtc::{self, Alarm, Time};
use takt_board::drivers::speaker::{Error as SpeakerError, Speaker};
use takt_kernel::irq;
use takt_kernel::irq::NR_DEVICE_VECTORS;
use takt_kernel::machine::Port;
use takt_kernel::time::{Instant, Nanos, sleep};
use takt_tests::harness::Failure;
use takt_tests::worker::burn;
use takt_tests::{check, check_eq, check_err, target_test};

static NR: AtomicU32 = AtomicU32::new(0);
static AT: AtomicU64 = AtomicU64::new(0);

extern "C" fn on_hpet(_: usize, at: Instant) {
    AT.store(at.cycles(), Relaxed);
    NR.fetch_add(1, Relaxed);
}

/// How many interrupts came while so many nanoseconds passed.
fn came(ns: u64) -> Result<u32, Failure> {
    sleep(Nanos::new(ns))?;
    Ok(NR.swap(0, Relaxed))
}

fn seconds(time: Time) -> u32 {
    (u32::from(time.hour) * 60 + u32::from(time.minute)) * 60 + u32::from(time.second)
}

target_test! {
    /// The time is that which the machine was started at, and goes on; an alarm comes when its second begins.
    fn time_of_day_and_alarm(Slow) {
        let before = rtc::now()?;
        check_eq!((before.year, before.month, before.day), (2026, 1, 1));
        sleep(Nanos::from_secs(3))?;
        let now = rtc::now()?;
        let passed = seconds(now.time) - seconds(before.time);
        check!((2..=4).contains(&passed), "{passed} s");

        for _ in 0..=NR_DEVICE_VECTORS {
            check_err!(Alarm::take(7), InvalidArgument);
        }
        let mut alarm = Alarm::take(0)?;
        check_err!(Alarm::take(0), InvalidState);
        check_err!(alarm.set(Time { hour: 24, ..now.time }), InvalidArgument);
        let at = Time { second: now.time.second + 5, ..now.time };
        check!(at.second < 60, "the machine took long to boot");
        alarm.set(at)?;
        check_err!(alarm.wait_until(Instant::after(Nanos::from_secs(3))), TimedOut);
        alarm.wait_until(Instant::after(Nanos::from_secs(3)))?;
        check_eq!(rtc::now()?.time, at);
        // Not any more.
        alarm.set(Time { second: at.second + 2, ..at })?;
        alarm.clear();
        check_err!(alarm.wait_until(Instant::after(Nanos::from_secs(4))), TimedOut);
        Ok(())
    }

    /// A comparator comes once, when it was told to; again and again; and no more.
    fn hpet_as_second_timer(Alone) {
        // Each gives its vector back: there are not so many.
        for _ in 0..=NR_DEVICE_VECTORS {
            check_err!(Timer::take(9, irq::request("none", on_hpet, 0)?, 0), InvalidArgument);
            check_err!(Timer::take(0, irq::request("none", on_hpet, 0)?, 7), InvalidArgument);
        }
        let mut timer = Timer::take(0, irq::request("hpet", on_hpet, 0)?, 0)?;
        check_err!(Timer::take(0, irq::request("none", on_hpet, 0)?, 0), InvalidState);
        check_eq!((timer.irq().name(), timer.has_messages()), ("hpet", false));
        let mut other = Timer::take(1, irq::request("other", on_hpet, 0)?, 0)?;

        for ns in [100_000, 2_000_000] {
            let before = Instant::now();
            timer.one_shot(Nanos::new(ns))?;
            check_eq!(came(3 * ns)?, 1);
            let took = (Instant::from_cycles(AT.load(Relaxed)) - before).to_nanos().get();
            // One of its counts is 10 ns.
            check!((ns - 10..ns + 2_000).contains(&took), "{ns} ns took {took} ns");
        }
        timer.one_shot(Nanos::ZERO)?;
        burn(20_000);
        check_eq!(NR.swap(0, Relaxed), 1);
        check_err!(timer.one_shot(Nanos::new(1 << 40)), InvalidArgument);

        timer.periodic(Nanos::from_micros(100))?;
        check_eq!(came(1_050_000)?, 10);
        other.one_shot(Nanos::from_micros(50))?;
        check_eq!(came(1_000_000)?, 11);
        timer.cancel();
        check_eq!(came(1_000_000)?, 0);
        timer.one_shot(Nanos::from_micros(100))?;
        check_eq!(came(1_000_000)?, 1);
        Ok(())
    }

    /// The speaker's timer puts out a square wave of its frequency, nothing, or a one.
    fn speaker(Alone) {
        let Some(mut speaker) = Speaker::take() else {
            return Err(Failure::new(format_args!("somebody has it")));
        };
        check!(Speaker::take().is_none());
        // SAFETY: reading the port has no effect; bit 5 is the timer's output, bits 0 and 1 what the speaker was told.
        let read = || unsafe { Port::<u8>::new(0x61).read() };
        check_eq!(speaker.set_frequency(18), Err(SpeakerError::Frequency));
        check_eq!(speaker.set_frequency(1_000), Ok(1_000));
        check_eq!(read() & 3, 0);
        check_eq!(speaker.set_duty_cycle_percent(50), Ok(()));
        check_eq!(read() & 3, 3);
        // Changes of the output in 10 ms.
        let (mut nr, mut last) = (0, read() & 0x20);
        let end = Instant::after(Nanos::from_millis(10));
        while Instant::now() < end {
            let now = read() & 0x20;
            nr += u32::from(now != last);
            last = now;
        }
        check!((19..=21).contains(&nr), "{nr} changes");
        check_eq!(speaker.set_duty_cycle_fully_on(), Ok(()));
        check_eq!(read() & 3, 2);
        check_eq!(speaker.set_duty_cycle(3), Err(SpeakerError::DutyCycle));
        check_eq!(speaker.set_duty_cycle_fully_off(), Ok(()));
        check_eq!(read() & 3, 0);
        Ok(())
    }
}
