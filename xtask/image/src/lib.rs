//! The kernel image: building it, and what real machines boot it from.
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::disallowed_methods))]
#![deny(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "`output` and `term` write what can fail: into a closed pipe, onto a full disk"
)]

#[macro_use(tell)]
extern crate takt_base;

pub mod build;
pub mod elsewhere;
pub mod lean;
pub mod library;
pub mod media;
pub mod small;
pub mod tasks;

pub use build::{Built, Recipe};
pub use lean::Kept;
