//! The results as text, JSON and CSV.
//!
//! | module | content |
//! |---|---|
//! | [`record`] | what is known of a run: `run.json` |
//! | [`machine`] | what a machine says of itself that bears on its latencies |
//! | [`judge`] | errors, thresholds, taints, the verdict |
//! | [`csv`] | `hist.csv` |
//! | [`json`] | `--json` |
//! | [`cyclictest`] | what cyclictest prints |
//! | [`gaps`] | what the tracers hwlat and osnoise have found of a machine |
//! | [`text`] | what is printed |
//! | [`hist`] | a histogram drawn in the terminal |
//! | [`load`] | reading an earlier run's folder |

pub mod csv;
pub mod cyclictest;
pub mod gaps;
pub mod hist;
pub mod json;
pub mod judge;
pub mod load;
pub mod machine;
pub mod record;
pub mod text;

pub use record::{Run, Verdict};

/// How histograms are cut.
#[derive(Clone, Copy, Debug, Default)]
pub struct Buckets {
    /// Width in ns; `None` is 1 ns in JSON and what fits on the terminal.
    pub width: Option<u64>,
    /// Number of buckets from 0 up; `None` is as many as it takes.
    pub limit: Option<u64>,
}
