//! Budgets: latency under test like everything else.
//!
//! | module | content |
//! |---|---|
//! | `file` | `takt.budget.toml`: the figures, by whom and of what they were measured |
//! | `figures` | measuring all of them |
//! | `changes` | what grew, by how much and in which function |
//!
//! Every figure is exact, so there is no tolerance: one instruction more is more. Improvements are no failure, but are said,
//! so that `budget update` keeps them.

pub mod changes;
pub mod figures;
pub mod file;

pub use file::Budget;
