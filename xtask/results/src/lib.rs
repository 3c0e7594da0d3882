//! What is said and kept of runs.
//!
//! | module | content |
//! |---|---|
//! | [`analysis`] | what latencies consist of |
//! | [`text`], [`hist`] | what is printed, and histograms drawn in the terminal |
//! | [`json`] | `--json` |
//! | [`history`] | what is kept of every run, and the commands on that |
//! | [`report`], [`page`], [`plot`], [`markup`] | runs as an HTML page with pictures |
//! | [`source`], [`mod@bench`] | what the page is made of |
//! | [`stats`] | how far distributions are apart, and the statistical test of runs |
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::disallowed_methods))]
#![deny(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "`output` and `term` write what can fail: into a closed pipe, onto a full disk"
)]

pub mod analysis;
pub mod bench;
pub mod hist;
pub mod history;
pub mod json;
pub mod markup;
pub mod page;
pub mod plot;
pub mod report;
pub mod source;
pub mod stats;
pub mod text;

/// How histograms are cut.
#[derive(Clone, Copy, Debug, Default)]
pub struct Buckets {
    /// Width in ns; `None` is 1 ns in JSON and what fits on the terminal.
    pub width: Option<u64>,
    /// Number of buckets from 0 up; `None` is as many as it takes.
    pub limit: Option<u64>,
}
