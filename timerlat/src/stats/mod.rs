//! Statistics of a run: what the guest measures and the host reports.
//!
//! The guest owns one `static TAKT_STATUS: Status` ([`Status`]). It is `repr(C)`, made of atomics
//! only and all zeros at rest, so it lies in `.bss`, costs no byte in the image and has an address
//! that the host finds as an ELF symbol. The host reads it straight out of the guest's RAM, live
//! or after the guest died (`view`, with feature `std`), with [`core::mem::offset_of!`] as the only
//! description of the layout.
//!
//! | module | content |
//! |---|---|
//! | [`histogram`] | [`Histogram`]: exact to 1 ns below [`histogram::LINEAR`], 1/256 above |
//! | [`kinds`] | enums that stand in a [`Status`] as numbers |
//! | [`latency`] | [`LatencyStats`]: count, current, minimum, maximum, sum, histogram |
//! | [`machine`] | `Machine`: what else bears on the latencies, raw |
//! | [`status`] | [`Status`] and its parts |
//! | `exact` (`std`) | `ExactHistogram`: percentiles, merging |
//! | `view` (`std`) | `StatusView`: a [`Status`] read from foreign memory |
//!
//! # Context
//!
//! Each variable has a single writer: the interrupt handler of a CPU, or the one measured thread.
//! So an update is a relaxed load and a relaxed store, never a locked instruction, and all of it
//! may be called from interrupt context. A reader on another CPU, or the host, may see an update
//! half done (a count without its sum); what it reads after the end of the run is consistent.
//!
//! # Units
//!
//! All latencies are whole nanoseconds. Nothing is divided before it is put into a bucket.

pub mod histogram;
pub mod kinds;
pub mod latency;
pub mod machine;
pub mod status;

#[cfg(any(feature = "std", test))]
pub mod exact;
#[cfg(any(feature = "std", test))]
pub mod view;

pub use histogram::Histogram;
pub use kinds::{FrequencySource, Measure, RunState, ThreadState};
pub use latency::LatencyStats;
pub use status::{CpuStatus, SlotStats, Status, StopReason, ThreadInfo, TraceCounters};

#[cfg(any(feature = "std", test))]
pub use exact::ExactHistogram;
#[cfg(any(feature = "std", test))]
pub use view::StatusView;

/// CPUs that the status block has room for; no fewer than the kernel has, which the workload's build checks.
pub const MAX_CPUS: usize = 8;

/// Measured threads that the status block has room for. A slot is a CPU in timerlat and a thread
/// in cyclictest.
pub const MAX_SLOTS: usize = 8;

/// Threads that the status block has room for: every value of the one-byte thread id. No fewer than the kernel has,
/// which the workload's build checks.
pub const MAX_THREADS: usize = 256;

/// Bytes of a thread's name, padded with zeros.
pub const NAME_LEN: usize = 16;
