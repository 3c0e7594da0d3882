//! A machine that runs an image, and what comes of a run.
//!
//! | module | content |
//! |---|---|
//! | [`qemu`] | command line, process, accelerator |
//! | [`run`] | one run: monitoring it, its end, its capture and its folder |
//! | [`record`], [`csv`] | what is known of a run: `run.json` and `hist.csv` |
//! | [`load`] | reading an earlier run's folder |
//! | [`judge`], [`said`] | errors, thresholds, taints, the verdict and how it is said |
//! | [`samples`] | each activation's latencies, from its trace |
//! | [`hardware`], [`gaps`] | what a machine says of itself, and what hwlat and osnoise have found of it |
//! | [`osnoise`] | what interrupts a thread that computes |
//! | [`counted`] | what a run executed, counted from outside |
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::disallowed_methods))]
#![deny(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "`output` and `term` write what can fail: into a closed pipe, onto a full disk"
)]

#[macro_use(tell)]
extern crate takt_base;

pub mod counted;
pub mod csv;
pub mod gaps;
pub mod hardware;
pub mod judge;
pub mod load;
pub mod osnoise;
pub mod qemu;
pub mod record;
pub mod run;
pub mod said;
pub mod samples;
