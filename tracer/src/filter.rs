//! Filters as the target works them out: a [`program`] over a record's words, which the host makes of what a user types
//! (`takt_decode::filter`) and [`rules`](crate::rules) runs; and the patterns of threads' names, which the host uses too.

pub mod glob;
pub mod program;
