//! What the images with tests share.
//!
//! * [`harness`]: a table of tests in a linker section, the thread that runs each, the lines that the host reads.
//! * [`journal`]: the order in which things happened. [`worker`]: more threads. [`interrupt`]: interrupts on demand.
//!
//! The tests themselves are in `src/bin/ontarget`, by subject. `cargo xtask test` boots the image under icount, so that
//! every instruction takes one nanosecond and times can be demanded exactly.
#![no_std]

pub mod harness;
pub mod interrupt;
pub mod journal;
pub mod worker;
