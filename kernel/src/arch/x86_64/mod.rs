//! x86-64: per-CPU data, interrupt entry, context switch, local APIC, time stamp counter, paging, static keys.

pub(crate) mod apic;
pub(crate) mod descriptors;
#[cfg(feature = "latency-tracers")]
pub(crate) mod divert;
#[cfg(feature = "rules")]
pub(crate) mod divert_records;
pub(crate) mod exceptions;
pub(crate) mod frame;
#[cfg(feature = "latency-tracers")]
pub(crate) mod hidden;
pub(crate) mod interrupts;
pub(crate) mod jump_label;
pub(crate) mod lock_prefix;
pub mod marks;
pub(crate) mod msr;
pub(crate) mod paging;
pub(crate) mod percpu;
pub(crate) mod place;
#[cfg(feature = "tasks")]
pub(crate) mod ports;
pub(crate) mod proof;
pub(crate) mod record;
pub(crate) mod resume;
#[cfg(feature = "tasks")]
pub(crate) mod ring3;
#[cfg(feature = "tasks")]
pub(crate) mod space;
pub(crate) mod sse;
pub(crate) mod stop;
pub(crate) mod switch;
#[cfg(feature = "latency-tracers")]
pub(crate) mod timed;
pub(crate) mod tsc;

mod entry;
#[cfg(feature = "tasks")]
mod entry_task;
#[cfg(feature = "tasks")]
mod ipc;
