//! Watchdogs: timers that reset the machine unless they are fed.
//!
//! * [`Tco`]: in Intel's chip sets, from the ICH6 to the ICH10.
//! * [`I6300esb`]: on PCI; QEMU has one.
//!
//! An emulator does what it was told to instead of a reset (QEMU: `-action watchdog=`).

mod i6300esb;
mod tco;

pub use i6300esb::I6300esb;
pub use tco::Tco;
#[cfg(all(feature = "image", feature = "tasks"))]
pub(crate) use tco::registers as chip_set_registers;

use takt_kernel::Error;

/// What all watchdogs can.
pub trait Watchdog {
    /// Has it bite unless it is fed within so many milliseconds; or a little later, since it counts in its own units. Says after
    /// how many.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] if it cannot wait that long; [`Error::InvalidState`] if the machine is built so that it
    /// cannot bite, or a firmware does not let it be set.
    fn start(&mut self, timeout_ms: u32) -> Result<u32, Error>;

    /// Gives it the whole time again.
    ///
    /// # Context
    /// Whoever has the value: a thread, a handler or a timer's function.
    fn feed(&mut self);

    /// Has it bite no more.
    ///
    /// # Errors
    /// [`Error::InvalidState`] if it does not let itself be stopped.
    fn stop(&mut self) -> Result<(), Error>;

    /// Whether it has reset the machine: the cause of this boot.
    fn has_bitten(&self) -> bool;
}

/// Units in so many milliseconds, rounded up, half of them in each of two stages; and how many milliseconds they are. `None`
/// if a stage has more than `max`; it has `min` at least.
fn units(timeout_ms: u32, unit_ns: u64, min: u32, max: u32) -> Option<(u32, u32)> {
    let stage = (u64::from(timeout_ms) * 1_000_000).div_ceil(2 * unit_ns);
    let stage = u32::try_from(stage).ok()?.max(min);
    let ms = (u64::from(stage) * 2 * unit_ns).div_ceil(1_000_000);
    (stage <= max).then_some((stage, u32::try_from(ms).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_stages_last_as_long_as_was_asked_for() {
        let tco = |ms| units(ms, 600_000_000, 4, 1_023);
        assert_eq!(tco(30_000), Some((25, 30_000)));
        assert_eq!(tco(30_001), Some((26, 31_200)));
        assert_eq!(tco(0), Some((4, 4_800)));
        assert_eq!(tco(1_227_600), Some((1_023, 1_227_600)));
        assert_eq!(tco(1_227_601), None);
        assert_eq!(tco(u32::MAX), None);
    }
}
