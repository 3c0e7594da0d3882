//! The exact worst case: an interrupt at every instruction of a stretch of code.
//!
//! | module | content |
//! |---|---|
//! | `config` | what is swept, and how |
//! | `boot` | one boot of the image, its block of results |
//! | `path` | the instructions of the stretch, as QEMU executed them |
//! | `ways` | the ways that arrivals were on, where a stretch has several |
//! | `parts` | what is measured, in files, so that it can be resumed and merged |
//! | `sealed` | files that are refused if they were changed |
//! | `work` | all boots of a sweep, on the host's CPUs |
//! | `analysis` | alignment, coverage, distribution, sections |
//! | `names` | functions and lines |
//! | `document` | the results as JSON |
//! | `text` | and as text |
//!
//! Two kinds of boot: one with every executed instruction on record, of a stretch that nothing interrupts (the path); and
//! those that measure, some thousand arrivals each. Each arrival says before which instruction it was taken, and that
//! has to be the one that the path has there: so it is shown, not assumed, that all arrivals met the same path. Where a
//! stretch has several ways, runs of the first kind with an arrival tell those.

pub mod analysis;
mod boot;
pub mod config;
pub mod document;
pub mod parts;
mod path;
mod sealed;
pub mod text;
mod ways;
pub mod work;

pub use config::{SweepConfig, What};
pub use parts::{Folder, Plan};
pub use path::Path;
pub use work::{Progress, run};
