//! Filters: `prev_prio < 10 && next_comm == "ctrl"`, in the language of ftrace's event filters.
//!
//! ```text
//!  text ──parse──> Filter (syntax tree) ──bind──> Filters (with the fields of each event) ──matches──> yes or no
//! ```
//!
//! A filter is numbers and strings of an event's fields, compared by `==`, `!=`, `<`, `<=`, `>`, `>=`, `&` (a bit that
//! both have) and `~` (a pattern of `*`, `?` and `[a-z]`), joined by `!`, `&&` and `||`, which bind in that order, and
//! parentheses. Fields have the names that ftrace shows (`decode::ftrace::Format`), besides them `common_type`, `common_flags`,
//! `common_preempt_count`, `common_pid`, `CPU` and `COMM`, which an event's own field hides. Numbers are decimal or
//! hexadecimal (`0x`); names of enumerations and flags stand for their values. A filter that begins with an event
//! (`sched_switch: …`, `sched:sched_switch: …`, or a system, `sched: …`) is for that one and lets others through.
//!
//! What is not understood is a `FilterError` with its place. All of it needs feature `std` but [`program`], the form in
//! which a filter is worked out by the target (`Filters::compile` makes one, [`rules`](crate::rules) runs it), and the
//! patterns, which it takes for the names of new threads.

#[cfg(feature = "std")]
mod bind;
#[cfg(feature = "std")]
mod compile;
#[cfg(feature = "std")]
mod error;
#[cfg(feature = "std")]
mod eval;
pub mod glob;
#[cfg(feature = "std")]
mod parse;
pub mod program;
#[cfg(feature = "std")]
mod token;
#[cfg(feature = "std")]
mod tree;
#[cfg(feature = "std")]
pub mod trigger;

#[cfg(feature = "std")]
pub use bind::Filters;
#[cfg(feature = "std")]
pub use compile::Unsupported;
#[cfg(feature = "std")]
pub use error::FilterError;
#[cfg(feature = "std")]
pub use tree::{Expr, Filter, Literal, Op, Spanned, Test};
