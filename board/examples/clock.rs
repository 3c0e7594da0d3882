//! The time of day, an alarm three seconds from now, and the HPET's ticks meanwhile.
//!
//! `cargo xtask run clock`.
#![no_std]
#![no_main]

use core::sync::atomic::{AtomicU32, Ordering::Relaxed};

use takt_board::drivers::hpet::Timer;
use takt_board::drivers::rtc::{self, Alarm, Time};
use takt_kernel::fault::ExitCode;
use takt_kernel::time::{Instant, Nanos};
use takt_kernel::{Error, irq};

takt_board::entry!(main);

static TICKS: AtomicU32 = AtomicU32::new(0);

extern "C" fn on_tick(_: usize, _: Instant) {
    TICKS.fetch_add(1, Relaxed);
}

/// Three seconds later on the dial.
fn later(
    Time {
        hour,
        minute,
        second,
    }: Time,
) -> Time {
    let seconds = (u32::from(hour) * 60 + u32::from(minute)) * 60 + u32::from(second) + 3;
    Time {
        hour: (seconds / 3_600 % 24) as u8,
        minute: (seconds / 60 % 60) as u8,
        second: (seconds % 60) as u8,
    }
}

fn clocks() -> Result<(), Error> {
    let now = rtc::now()?;
    defmt::info!("it is {}", now);
    let mut alarm = Alarm::take(0)?;
    alarm.set(later(now.time))?;
    let mut timer = Timer::take(0, irq::request("hpet", on_tick, 0)?, 0)?;
    timer.periodic(Nanos::from_millis(100))?;
    alarm.wait_until(Instant::after(Nanos::from_secs(10)))?;
    timer.cancel();
    defmt::info!(
        "it is {}, {=u32} ticks later",
        rtc::now()?,
        TICKS.load(Relaxed)
    );
    Ok(())
}

fn main(_command_line: &'static str) {
    if let Err(error) = clocks() {
        defmt::error!("{}", error);
        takt_board::end(ExitCode::Failed);
    }
}
