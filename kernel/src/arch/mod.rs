//! The CPU: all machine code, and the kernel's own. What others may have of it is [`machine`](crate::machine). No
//! `cfg(target_arch)` anywhere else.

mod x86_64;

pub use x86_64::*;
