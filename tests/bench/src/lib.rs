//! What the benchmark images share.
//!
//! * `clock`: reading the time, with its own cost known. `report`: results as text lines on the serial port.
//! * `measure`: the measurements, a module for each group of rows.
//!
//! Counts are exact under QEMU's `-icount shift=0`, where the TSC counts instructions.
#![no_std]

#[cfg(feature = "base")]
pub mod clock;
#[cfg(feature = "base")]
pub mod measure;
#[cfg(feature = "base")]
pub mod report;
#[cfg(feature = "base")]
pub mod threads;
