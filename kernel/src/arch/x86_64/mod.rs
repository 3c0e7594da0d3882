//! x86-64: per-CPU data, interrupt entry, context switch, local APIC, time stamp counter, paging, static keys.

pub mod apic;
pub mod descriptors;
#[cfg(feature = "latency-tracers")]
pub mod divert;
#[cfg(feature = "rules")]
pub(crate) mod divert_records;
pub mod exceptions;
pub mod frame;
#[cfg(feature = "latency-tracers")]
pub(crate) mod hidden;
pub mod interrupts;
pub mod jump_label;
pub mod marks;
pub mod msr;
pub mod paging;
pub mod percpu;
pub(crate) mod place;
pub mod port;
pub(crate) mod record;
pub(crate) mod resume;
pub(crate) mod sse;
pub mod stop;
pub mod switch;
#[cfg(feature = "latency-tracers")]
pub(crate) mod timed;
pub mod tsc;

mod entry;
