//! What the benchmark images share.
//!
//! * [`clock`]: reading the time, with its own cost known. [`report`]: results as text lines on the serial port.
//! * [`measure`]: the measurements, a module for each group of rows.
//! * [`footprint!`]: the image of the event footprint experiment.
//!
//! Counts are exact under QEMU's `-icount shift=0`, where the TSC counts instructions.
#![no_std]

#[cfg(feature = "image")]
pub mod clock;
#[cfg(feature = "image")]
pub mod measure;
#[cfg(feature = "image")]
pub mod report;
#[cfg(feature = "image")]
pub mod threads;

/// An image that holds the events of a file that the build script wrote, and nothing else of its own.
#[macro_export]
macro_rules! footprint {
    ($file:literal) => {
        include!(concat!(env!("OUT_DIR"), "/", $file));

        takt_board::entry!(main);

        fn main(command_line: &'static str) {
            let word = command_line.len() as u32;
            sites(core::hint::black_box(word), core::hint::black_box(word));
        }
    };
}
