//! Rolls dice with random numbers of a virtio device: code for any `rand_core` generator.
//!
//! `cargo xtask run random --qemu '-object rng-random,id=rng,filename=/dev/urandom -device virtio-rng-pci,rng=rng'`.
#![no_std]
#![no_main]

use rand_core::TryRng;
use takt_board::drivers::Error;
use takt_board::drivers::virtio::{ENTROPY, Entropy};
use takt_board::pci::Function;
use takt_kernel::fault::ExitCode;

takt_board::entry!(main);

static RNG: Entropy = Entropy::new();

/// From 1 to 6, each as often.
fn roll<R: TryRng>(rng: &mut R) -> Result<u32, R::Error> {
    loop {
        let number = rng.try_next_u32()?;
        // The last few would make some more frequent.
        if number < u32::MAX / 6 * 6 {
            return Ok(number % 6 + 1);
        }
    }
}

fn dice() -> Result<(), Error> {
    let (vendor, device) = ENTROPY;
    let function = Function::find(vendor, device).ok_or(takt_kernel::Error::InvalidArgument)?;
    let mut rng = RNG.open(function, 0)?;
    for _ in 0..5 {
        defmt::info!("{=u32}", roll(&mut rng)?);
    }
    Ok(())
}

fn main(_command_line: &'static str) {
    if let Err(error) = dice() {
        defmt::error!("{}", defmt::Display2Format(&error));
        takt_board::end(ExitCode::Failed);
    }
}
