//! The kernel for programs in C: what `takt.h` declares, which cbindgen makes of these sources.
//!
//! * [`result`]: what calls give. [`thread`], [`sync`], [`flags`], [`queue`], [`time`], [`timer`], [`trace`]: what there
//!   is; the documentation of their items is the header's.
//! * `object`: the kernel's objects in memory that C lays out.
//!
//! With feature `image` the crate is an image without its `main`, which is C's `int main(void)`. `cargo xtask new --c`
//! builds it as a static library and links a program with it.
#![no_std]

pub mod flags;
pub mod queue;
pub mod result;
pub mod sync;
pub mod thread;
pub mod time;
pub mod timer;
pub mod trace;

#[cfg(feature = "image")]
mod entry;
mod object;
