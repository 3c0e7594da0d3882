//! What the images with tests share.
//!
//! * [`harness`]: `takt_test`, with what these images do before their tests.
//! * [`journal`]: the order in which things happened. [`worker`]: more threads. [`interrupt`]: interrupts on demand.
//!   [`contents`]: what is in all registers. [`drained`]: what is recorded. [`descriptors`]: segments and gates that are not the kernel's.
//!
//! The tests themselves are in `src/bin/ontarget`, by subject. `cargo xtask test` boots the image under icount, so that
//! every instruction takes one nanosecond and times can be demanded exactly.
#![no_std]

pub mod contents;
pub mod descriptors;
pub mod drained;
pub mod interrupt;
pub mod journal;
pub mod worker;

pub use takt_test::{check, check_eq, check_err, note, target_test};

/// The tests' harness.
pub mod harness {
    pub use takt_test::*;

    /// The main function of these images.
    #[cfg(feature = "image")]
    pub fn main(command_line: &'static str) {
        crate::interrupt::init();
        takt_test::main_with(command_line, crate::journal::clear);
    }
}
