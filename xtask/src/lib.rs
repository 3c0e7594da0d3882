//! Takt's host tool: builds the image, runs it in QEMU, reads its results out of the guest's RAM
//! and reports them.
//!
//! | module | content |
//! |---|---|
//! | [`analysis`] | what latencies consist of |
//! | [`attach`] | runs of other machines, over a serial line |
//! | [`cli`] | flags, their units and defaults |
//! | [`image`] | building the kernel image and reading its ELF file |
//! | [`media`] | what real machines boot from |
//! | [`qemu`] | command line, process, accelerator, the shared RAM file |
//! | [`run`] | one run: monitoring it, its end, its capture and its folder |
//! | [`report`] | the results as text, JSON and CSV |
//! | [`budget`] | latencies, costs and sizes beside their budgets |
//! | [`sweep`] | the exact worst case: an interrupt at every instruction |
//! | [`tracefs`] | the tracer of a running guest as files: `tracefs shell`, `tracefs mount` |
//! | [`history`] | what is kept of every run |
//! | [`compare`] | another system in the same QEMU, measured beside ours |
//! | [`commands`] | one module for each command |
//!
//! Results go to stdout, progress and errors to stderr. Exit codes: 0 passed, 1 error, 2 a
//! threshold was hit, 3 tainted, 130 interrupted.
#![forbid(unsafe_code)]
#![deny(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "`output` and `term` write what can fail: into a closed pipe, onto a full disk"
)]

#[macro_use(tell)]
extern crate takt_base;

pub mod analysis;
pub mod attach;
pub mod budget;
pub mod cli;
pub mod commands;
pub mod compare;
pub mod counted;
pub mod export;
pub mod history;
pub mod image;
pub mod media;
pub mod osnoise;
pub mod prove;
pub mod qemu;
pub mod report;
pub mod response;
pub mod run;
pub mod sweep;
pub mod tracefs;

use std::process::ExitCode;

use run::signals::Interrupted;
use takt_base::{EXIT_ERROR, EXIT_INTERRUPTED, term};

/// Parses the command line, does what it says and gives the exit code.
#[must_use]
pub fn main() -> ExitCode {
    let cli = match cli::parse() {
        Ok(cli) => cli,
        Err(code) => return code,
    };
    match commands::dispatch(cli) {
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
