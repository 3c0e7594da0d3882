//! The history of runs: a file for each finished run ([`store`]).
//!
//! `latency-run` writes it; `cargo xtask history` reads, compares and removes. What can be computed from an [`Entry`]
//! (percentiles, averages) is not in it: it could not contradict itself then. What a list shows of it ([`Summary`]) stands
//! beside it.

pub mod commands;
mod entry;
pub mod store;
mod summary;

pub use entry::{Configuration, Entry, Histograms, SCHEMA, Setup};
pub use store::{History, RunFile};
pub use summary::Summary;
