//! Feeds a watchdog for a while, then no more: it resets the machine, and the next boot says so.
//!
//! The chip set's: `cargo xtask run watchdog --append capture=off --qemu '-global ICH9-LPC.noreboot=false -action reboot=reset'`;
//! PCI's: `--append 'watchdog=i6300esb capture=off' --qemu '-device i6300esb -action reboot=reset'`. The log is that of the last
//! boot: a capture of both would not be of one run.
#![no_std]
#![no_main]

use takt_board::cmdline::CommandLine;
use takt_board::drivers::watchdog::{I6300esb, Tco, Watchdog};
use takt_kernel::fault::ExitCode;
use takt_kernel::time::{Nanos, sleep};

takt_board::entry!(main);

const TIMEOUT_MS: u32 = 6_000;
const SECOND_NS: u64 = 1_000_000_000;

fn live_with(mut watchdog: impl Watchdog) -> Result<(), takt_kernel::Error> {
    if watchdog.has_bitten() {
        defmt::info!("the watchdog has reset the machine");
        return Ok(());
    }
    let ms = watchdog.start(TIMEOUT_MS)?;
    defmt::info!("it bites after {=u32} ms", ms);
    for _ in 0..5 {
        sleep(Nanos::new(4 * SECOND_NS))?;
        watchdog.feed();
    }
    defmt::info!("fed no more");
    sleep(Nanos::new(u64::from(ms) * 2_000_000))?;
    defmt::error!("the watchdog does not bite");
    takt_board::end(ExitCode::Failed);
}

fn main(command_line: &'static str) {
    let result = match CommandLine(command_line).get("watchdog") {
        Some("i6300esb") => I6300esb::take().map(live_with),
        _ => Tco::take().map(live_with),
    };
    match result {
        Some(Ok(())) => return,
        Some(Err(error)) => defmt::error!("{}: may the watchdog reset the machine?", error),
        None => defmt::error!("there is no watchdog"),
    }
    takt_board::end(ExitCode::Failed);
}
