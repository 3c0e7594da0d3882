//! Drivers of devices that every test machine has (see `xtask/src/commands/test/guest.rs`).

mod clocks;
mod smbus;
mod uart;
mod virtio;
mod watchdog;
