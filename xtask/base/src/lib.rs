//! What every part of the host tool stands on.
//!
//! | module | content |
//! |---|---|
//! | [`input`] | reading files that anybody may have put there |
//! | [`paths`] | where things are |
//! | [`term`] | the terminal: errors with advice, notes, what a guest has written |
#![forbid(unsafe_code)]
#![deny(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "`term` writes what can fail: into a closed pipe, onto a full disk"
)]

pub mod input;
pub mod paths;
#[macro_use]
pub mod term;
