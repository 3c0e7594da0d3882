//! The static-footprint tracer of Takt: what an event is, how it gets into a ring, and how it is read again.
//!
//! * [`wire`] is the one description of the format, version 1, for target and host.
//! * [`ring`] is the writer: lock-free, per CPU, correct when an IRQ, an NMI or another thread of the CPU comes
//!   between any two of its steps. It is generic over [`ring::CpuRing`], so that the kernel supplies single
//!   instructions and the tests supply interrupts.
//! * [`mod@event`] declares event classes and events at compile time. A declared event costs no loaded byte: its
//!   name and its fields stand in sections that stay in the ELF file. An image includes `trace.x` of this crate in its
//!   linker script.
//! * [`control`] is how a host follows and controls the tracer of a running system: a block in memory, and settings.
//! * [`mod@named`] declares sets of values that have names, spelled once for target and host.
//! * [`profile`] and [`stack_max`] are the tables of the function profiler and of the stack tracer, which a host reads.
//!
//! `takt-decode` reads traces on the host and compiles filters.
//!
//! The crate contains no machine code. Its pieces of unsafe code are the attributes that put an event's id and metadata
//! into their sections, and the view of an array as bytes.
//!
//! Besides the ordinary tests there is one that needs a flag:
//! `RUSTFLAGS="--cfg loom" cargo test -p takt-tracer --release --test loom`.
#![no_std]
#![deny(unsafe_code)]

#[cfg(test)]
extern crate std;

pub mod control;
pub mod event;
pub mod filter;
pub mod frame;
pub mod named;
pub mod profile;
pub mod ring;
pub mod rules;
pub mod stack_max;
pub mod wire;

/// For macros: a path from the root is the caller's to say what it means.
#[doc(hidden)]
pub use core as __core;
