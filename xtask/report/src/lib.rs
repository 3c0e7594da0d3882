//! Reports of runs as HTML pages, and the history of runs: what `cargo xtask report` and `cargo xtask history` are
//! carried out by. A package of its own, so that the plotting library is built only by those who use it.
//!
//! ```text
//! run folder ─► source ─► figures ──────────────► page ─► report.html
//!    trace.bin ─► takt_results::analysis: worst ten, causes ─┘▲
//! bench.json ──► bench ───────────────► plot (SVG) ───┘
//! latency-run ─► takt_results::history: a file a run ─► list, show, compare, merge, plot
//! ```
//!
//! | module | content |
//! |---|---|
//! | [`source`] | what a run is read from: its folder, or the history |
//! | [`plot`] | pictures |
//! | [`page`] | the HTML page |
//! | [`markup`] | texts in HTML and SVG |
//! | [`mod@bench`] | the scale curves of `cargo xtask bench --json` |
//! | [`history`] | the commands on the runs so far |
//! | [`stats`] | how far distributions are apart, and the statistical test of runs |
#![forbid(unsafe_code)]
#![deny(clippy::print_stdout, reason = "as in `xtask`")]

pub mod bench;
pub mod history;
pub mod markup;
pub mod page;
pub mod plot;
pub mod report;
pub mod source;
pub mod stats;

use std::process::ExitCode;

use anyhow::anyhow;
use takt_base::term::{self, WithHelp};
use takt_cli::Command;

/// Parses the command line, which is that of `cargo xtask`, does what it says and gives the exit code.
#[must_use]
pub fn main() -> ExitCode {
    let cli = match takt_cli::parse() {
        Ok(cli) => cli,
        Err(code) => return code,
    };
    let done = match cli.command {
        Command::Report(flags) => report::run(&flags),
        Command::History(flags) => history::run(&flags),
        _ => Err(anyhow!("takt-report knows `report` and `history` only"))
            .help("everything else is: cargo xtask"),
    };
    done.unwrap_or_else(|error| {
        term::print_error(&error);
        ExitCode::from(takt_base::EXIT_ERROR)
    })
}
