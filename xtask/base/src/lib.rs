//! What every part of the host tool stands on.
//!
//! | module | content |
//! |---|---|
//! | [`input`] | reading files that anybody may have put there |
//! | [`paths`], [`scratch`] | where things are, and temporary folders |
//! | [`output`] | writing results: to stdout, to a file, to a folder |
//! | [`schema`], [`units`] | names of files, sets of CPUs and spans of time |
//! | [`tool`], [`qemu`], [`device`] | programs of the system, serial lines |
//! | [`spread`] | work on several CPUs |
//! | [`setup`] | what the machine must have: `doctor`, installing QEMU |
//! | [`term`] | the terminal: errors with advice, notes, what a guest has written |
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::disallowed_methods))]
#![deny(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "`term` writes what can fail: into a closed pipe, onto a full disk"
)]

#[macro_use]
pub mod term;

pub mod device;
pub mod input;
pub mod output;
pub mod paths;
pub mod qemu;
pub mod schema;
pub mod scratch;
pub mod setup;
pub mod spread;
pub mod tool;
pub mod units;

/// Exit code of an error, whatever it was.
pub const EXIT_ERROR: u8 = 1;

/// Exit code where a threshold or a budget was exceeded.
pub const EXIT_THRESHOLD: u8 = 2;

/// Exit code where the user ended it: what a shell says of a command that SIGINT has ended.
pub const EXIT_INTERRUPTED: u8 = 130;
