//! I/O ports, as a thin name over the `x86_64` crate.

pub use x86_64::instructions::port::{Port, PortReadOnly, PortWriteOnly};
