//! Filters: `prev_prio < 10 && next_comm == "ctrl"`, in the language of ftrace's event filters.
//!
//! ```text
//!  text ──parse──> Filter (syntax tree) ──bind──> Filters (with the fields of each event) ──matches──> yes or no
//! ```
//!
//! A filter is numbers and strings of an event's fields, compared by `==`, `!=`, `<`, `<=`, `>`, `>=`, `&` (a bit that
//! both have) and `~` (a pattern of `*`, `?` and `[a-z]`), joined by `!`, `&&` and `||`, which bind in that order, and
//! parentheses. Fields have the names that ftrace shows ([`Format`](crate::ftrace::Format)), besides them `common_type`, `common_flags`,
//! `common_preempt_count`, `common_pid`, `CPU` and `COMM`, which an event's own field hides. Numbers are decimal or
//! hexadecimal (`0x`); names of enumerations and flags stand for their values. A filter that begins with an event
//! (`sched_switch: …`, `sched:sched_switch: …`, or a system, `sched: …`) is for that one and lets others through.
//!
//! What is not understood is a [`FilterError`] with its place. The target works out a filter as a
//! [`program`](takt_tracer::filter::program), which [`Filters::compile`] makes. What is to be done about an event is a
//! [`trigger`].

mod bind;
mod compile;
mod error;
mod eval;
mod parse;
mod token;
mod tree;
pub mod trigger;

pub use bind::Filters;
pub use compile::Unsupported;
pub use error::FilterError;
pub use tree::{Expr, Filter, Literal, Op, Spanned, Test};
