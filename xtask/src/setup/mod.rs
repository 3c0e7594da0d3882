//! What the machine must have, and getting it.

pub mod install;
pub mod packages;

pub use install::{ensure_fuse, ensure_qemu, ensure_viewers};
