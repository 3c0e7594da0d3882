//! The CPU: the one door to machine code. No `cfg(target_arch)` anywhere else.

mod x86_64;

pub use x86_64::*;
