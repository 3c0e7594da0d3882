//! Feeds a watchdog for a while, then no more: it resets the machine, and the next boot says so. With `tick=lost` what feeds it
//! would go on, but the timer's interrupts are lost, by which everything goes on; with `tick=swallowed` a single one is.
//!
//! The chip set's: `cargo xtask run watchdog --append capture=off --qemu '-global ICH9-LPC.noreboot=false -action reboot=reset'`;
//! PCI's: `--append 'watchdog=i6300esb capture=off' --qemu '-device i6300esb -action reboot=reset'`. The log is that of the last
//! boot: a capture of both would not be of one run.
#![no_std]
#![no_main]

use core::arch::asm;

use takt_board::cmdline::CommandLine;
use takt_board::drivers::watchdog::{I6300esb, Tco, Watchdog};
use takt_kernel::fault::ExitCode;
use takt_kernel::time::{Instant, Nanos, Timer, sleep};

takt_board::entry!(main);

const TIMEOUT_MS: u32 = 6_000;
const SECOND_NS: u64 = 1_000_000_000;

/// The local APIC is switched off: its timer expires without an interrupt.
///
/// Source: Intel SDM vol. 3A, 11.4.7.2 (local APIC state after it has been software disabled).
fn lose_ticks() {
    // SAFETY: its spurious interrupt vector register; nobody else writes to that once the CPU runs.
    unsafe { asm!("and dword ptr [__lapic_page + 0xf0], {}", const !(1 << 8), options(nostack)) };
}

/// The local APIC's timer is masked while it expires, and no longer: that interrupt never comes.
///
/// Source: Intel SDM vol. 3A, 11.5.1 (local vector table, mask).
fn swallow_a_tick() -> Result<(), takt_kernel::Error> {
    let timer = Timer::new(|_, _| defmt::error!("no tick was swallowed"), 0)?;
    let due = Instant::after(Nanos::from_micros(100));
    timer.arm(due);
    // SAFETY: the timer's entry, whose other bits stay as they are.
    unsafe { asm!("or dword ptr [__lapic_page + 0x320], {}", const 1 << 16, options(nostack)) };
    while Instant::now() < due + Nanos::from_micros(100).to_cycles() {}
    // SAFETY: as before.
    unsafe { asm!("and dword ptr [__lapic_page + 0x320], {}", const !(1 << 16), options(nostack)) };
    Ok(())
}

fn live_with(mut watchdog: impl Watchdog, tick: Option<&str>) -> Result<(), takt_kernel::Error> {
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
    if tick.is_some() {
        match tick {
            Some("swallowed") => swallow_a_tick()?,
            _ => lose_ticks(),
        }
        sleep(Nanos::new(4 * SECOND_NS))?;
        watchdog.feed();
        defmt::error!("no tick was lost");
        takt_board::end(ExitCode::Failed);
    }
    defmt::info!("fed no more");
    sleep(Nanos::new(u64::from(ms) * 2_000_000))?;
    defmt::error!("the watchdog does not bite");
    takt_board::end(ExitCode::Failed);
}

fn main(command_line: &'static str) {
    let line = CommandLine(command_line);
    let tick = line.get("tick");
    let result = match line.get("watchdog") {
        Some("i6300esb") => I6300esb::take().map(|it| live_with(it, tick)),
        _ => Tco::take().map(|it| live_with(it, tick)),
    };
    match result {
        Some(Ok(())) => return,
        Some(Err(error)) => defmt::error!("{}: may the watchdog reset the machine?", error),
        None => defmt::error!("there is no watchdog"),
    }
    takt_board::end(ExitCode::Failed);
}
