//! Switching events on and off, beside what else keeps their places on: triggers, and a tracer that listens to records.

use super::control;
use crate::arch::stop::Text;
use crate::error::Error;

/// Switches an event on or off.
#[inline(never)]
pub(super) fn set_event(id: u32, on: bool) -> Result<(), Error> {
    Text::lock()?.patch(|text| {
        // The places of one that has triggers stay on.
        #[cfg(feature = "rules")]
        let on = super::rules::soft::keep_on(id, on) || on;
        control::switch(text, id, on);
    });
    #[cfg(feature = "osnoise")]
    super::osnoise::listening::update()?;
    Ok(())
}
