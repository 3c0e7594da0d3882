//! Writes a text into the EEPROM that QEMU puts on the SMBus for each memory module, by an EEPROM driver of the ecosystem, and
//! reads it back.
//!
//! `cargo xtask run eeprom`. On a real machine it reads what a memory module says of itself and ends with an error: the driver
//! refuses to write there.
#![no_std]
#![no_main]

use eeprom24x::{Eeprom24x, SlaveAddr};
use embedded_hal::delay::DelayNs;
use takt_board::drivers::smbus::{Error, SmBus};
use takt_board::drivers::spd;
use takt_kernel::fault::ExitCode;
use takt_kernel::time::Delay;

takt_board::entry!(main);

/// As much as the EEPROM takes at a time.
const PAGE: usize = 8;
const TEXT: &[u8] = b"Takt was here, and will be again";

fn write_and_read(bus: SmBus) -> Result<(), eeprom24x::Error<Error>> {
    let mut eeprom = Eeprom24x::new_24x02(bus, SlaveAddr::default());
    let mut bytes = [0; 128];
    eeprom.read_data(0, &mut bytes)?;
    defmt::info!("memory module: {}", spd::decode(&bytes));
    for (page, text) in TEXT.chunks(PAGE).enumerate() {
        eeprom.write_page((page * PAGE) as u32, text)?;
        // An EEPROM does not answer while it writes.
        Delay.delay_ms(5);
    }
    let mut read = [0; TEXT.len()];
    eeprom.read_data(0, &mut read)?;
    defmt::info!(
        "read back: {=str}",
        core::str::from_utf8(&read).unwrap_or("no text")
    );
    Ok(())
}

fn main(_command_line: &'static str) {
    let Some(bus) = SmBus::take() else {
        defmt::error!("there is no SMBus");
        takt_board::end(ExitCode::Failed);
    };
    if let Err(error) = write_and_read(bus) {
        defmt::error!("{}", defmt::Debug2Format(&error));
        takt_board::end(ExitCode::Failed);
    }
}
