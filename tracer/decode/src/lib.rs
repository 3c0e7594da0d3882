//! Reading traces on the host.
//!
//! ```text
//!  .takt.meta ──> EventTable ───────────────┐
//!                                           v
//!  trace.bin ──> FrameReader ──> TraceFile ──> Merge ──> Item::Record ──> Names ──> ftrace text, JSON lines
//!                (check sums)    (index)      (time order)
//! ```
//!
//! Input is not trusted: whatever the bytes are, the answer is records and [`Damage`] with its offset, never a panic,
//! and memory in proportion to the number of CPUs and of sub-buffers, not to the size of the trace. Damage never hides
//! what came before it, and reading goes on behind it where that is possible.
//!
//! [`filter`] is what a user types about events: filters and triggers, which run over records here or are compiled for the
//! target.

#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

mod damage;
mod file;
pub mod filter;
mod frames;
pub mod ftrace;
mod gaps;
mod irqs;
mod json;
mod merge;
mod meta;
mod names;
mod put;
mod record;
mod sub;
mod switches;
mod symbols;
mod template;
mod text;
mod types;
mod writer;

pub use damage::{Damage, Error, Fault, HeaderFault, MetaError};
pub use file::{CpuSummary, TraceFile};
pub use frames::{Entry, Frame, FrameReader, MAX_LOG_PAYLOAD};
pub use irqs::Irqs;
pub use json::{put_json_fields, put_json_string, write_json};
pub use merge::{Item, Merge};
pub use meta::{EventDef, EventTable, FieldDef, Role, Slot};
pub use names::{Names, Threads, TscClock};
pub use put::decimal as put_decimal;
pub use record::{Context, Record, Value};
pub use sub::SubBuffer;
pub use switches::Switches;
pub use text::{stack, write_header, write_item};
pub use types::{FieldType, Flags};
pub use writer::FrameWriter;
