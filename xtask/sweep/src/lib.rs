//! The exact worst case: an interrupt at every instruction of a stretch of code.
//!
//! | module | content |
//! |---|---|
//! | `config` | what is swept, and how |
//! | `boot` | one boot of the image, its block of results |
//! | `path` | the instructions of the stretch, as QEMU executed them |
//! | `ways` | the ways that arrivals were on, where a stretch has several |
//! | `parts` | what is measured, in files, so that it can be resumed and merged |
//! | `sealed` | files that say whether they were changed |
//! | `work` | all boots of a sweep, on the host's CPUs |
//! | [`slurm`] | or on a cluster's nodes |
//! | `analysis` | alignment, coverage, distribution, sections |
//! | `document` | the results as JSON |
//! | `text` | and as text |
//! | [`mod@prove`] | bounds of stretches, proved from the code |
//! | [`latency`] | what a thread latency consists of, from these bounds |
//! | [`mod@response`] | worst response times, from these bounds |
//! | [`budget`] | latencies, costs and sizes beside their budgets |
//!
//! Two kinds of boot: one with every executed instruction on record, of a stretch that nothing interrupts (the path); and
//! those that measure, some thousand arrivals each. Each arrival says before which instruction it was taken, and that
//! has to be the one that the path has there: so it is shown, not assumed, that all arrivals met the same path. Where a
//! stretch has several ways, runs of the first kind with an arrival tell those.
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::disallowed_methods))]
#![deny(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "`output` and `term` write what can fail: into a closed pipe, onto a full disk"
)]

pub mod analysis;
mod boot;
pub mod budget;
pub mod config;
pub mod document;
pub mod latency;
pub mod parts;
mod path;
pub mod prove;
pub mod response;
mod sealed;
pub mod slurm;
pub mod text;
mod ways;
pub mod work;

pub use config::{SweepConfig, What};
pub use parts::{Folder, Plan};
pub use path::Path;
pub use work::{Progress, run};
