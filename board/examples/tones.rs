//! Three tones of the PC's speaker, and for as long as each lasts a light on the parallel port: code for any `SetDutyCycle`
//! and any `OutputPin`.
//!
//! `cargo xtask run tones --qemu '-chardev null,id=par -parallel chardev:par'`.
#![no_std]
#![no_main]

use embedded_hal::delay::DelayNs;
use embedded_hal::digital::OutputPin;
use embedded_hal::pwm::SetDutyCycle;
use takt_board::drivers::speaker::Speaker;
use takt_board::parallel::Pin;
use takt_kernel::fault::ExitCode;
use takt_kernel::time::Delay;

takt_board::entry!(main);

fn play<P: SetDutyCycle, L: OutputPin>(
    sound: &mut P,
    light: &mut L,
    delay: &mut impl DelayNs,
) -> Result<(), P::Error> {
    sound.set_duty_cycle_percent(50)?;
    // A light that fails does not keep it from being heard.
    let _ = light.set_high();
    delay.delay_ms(200);
    let _ = light.set_low();
    sound.set_duty_cycle_fully_off()
}

fn main(_command_line: &'static str) {
    let (Some(mut speaker), Some(mut light)) = (Speaker::take(), Pin::new(0)) else {
        defmt::error!("somebody has the speaker");
        takt_board::end(ExitCode::Failed);
    };
    for hz in [440, 554, 659] {
        let played = speaker
            .set_frequency(hz)
            .and_then(|hz| play(&mut speaker, &mut light, &mut Delay).map(|()| hz));
        match played {
            Ok(hz) => defmt::info!("{=u32} Hz", hz),
            Err(error) => defmt::error!("{}", error),
        }
    }
}
