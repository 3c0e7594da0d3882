//! Takt's host tool: builds the image, runs it in QEMU, reads its results out of the guest's RAM
//! and reports them.
//!
//! Here is the glue: a module for each command, in [`commands`]. What they are made of are crates of their own.
//!
//! Results go to stdout, progress and errors to stderr. Exit codes: 0 passed, 1 error, 2 a
//! threshold was hit, 3 tainted, 130 interrupted.
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::disallowed_methods))]
#![deny(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "`output` and `term` write what can fail: into a closed pipe, onto a full disk"
)]

#[macro_use(tell)]
extern crate takt_base;

pub mod commands;

use std::process::ExitCode;

use anyhow::Result;
use takt_base::{EXIT_ERROR, EXIT_INTERRUPTED, term};
use takt_cli::Cli;
use takt_machine::run::signals::Interrupted;

/// Parses the command line, does what it says and gives the exit code.
#[must_use]
pub fn main() -> ExitCode {
    main_of(commands::dispatch)
}

/// The same of a program that carries out some command only.
#[must_use]
pub fn main_of(carry_out: impl FnOnce(Cli) -> Result<ExitCode>) -> ExitCode {
    if let Some(code) = takt_guest::apart::offer() {
        return code;
    }
    let cli = match takt_cli::parse() {
        Ok(cli) => cli,
        Err(code) => return code,
    };
    match carry_out(cli) {
        Ok(code) => code,
        Err(error) => {
            term::print_error(&error);
            ExitCode::from(match error.is::<Interrupted>() {
                true => EXIT_INTERRUPTED,
                false => EXIT_ERROR,
            })
        }
    }
}
