//! The words of the tracer's files: what a user types and writes there.
//!
//! | module | content |
//! |---|---|
//! | [`options`] | `trace_options` |
//! | [`syntax`] | the words of `tracefs shell` |
#![forbid(unsafe_code)]

pub mod options;
pub mod syntax;
