//! Event classes and events, declared at compile time.
//!
//! A **class** ([`event_class!`](crate::event_class)) is a layout: its fields, their types and how they are printed.
//! It has the code that packs the fields, once. An **event** ([`event!`](crate::event!)) is an instance of a class with
//! a name and an id. It adds no code of its own and no loaded data: its id is the address of a symbol in a section
//! that is not loaded, its name and format stand in another such section, and what remains is the place where it is
//! emitted.
//!
//! ```
//! takt_tracer::event_class! {
//!     /// A thread becomes runnable.
//!     pub class Wakeup = "sched_wakeup", core8 {
//!         tid: 8 tid,
//!         target: 32 u,
//!     }
//!     print "comm={tid:comm} pid={tid:pid} target_cpu={target}";
//! }
//! takt_tracer::event! {
//!     /// Emitted after the thread was put into its run queue.
//!     pub sched_wakeup: Wakeup = core "sched:sched_wakeup";
//! }
//! # struct NoSink;
//! # impl takt_tracer::event::Sink for NoSink {
//! #     fn rec_bytes(_: usize, _: &[u32], _: Option<&[u8]>) {} fn rec_bytes_ctx(_: usize, _: &[u32], _: Option<&[u8]>) {}
//! # }
//! use takt_tracer::event::Event;
//! let tid: u8 = 7;
//! <sched_wakeup::Event as Event>::Class::emit::<NoSink>(sched_wakeup::Event::id(), tid, 0u32);
//! ```
//!
//! # Context
//! Emitting is as safe as the [`Sink`]: IRQ-safe and NMI-safe with a ring behind it.

pub mod builtin;
mod declare;
mod dynamic;
mod meta;
mod pack;
mod place;
mod sink;
mod symbol;

pub use dynamic::{Element, bounded};
pub use meta::{Meta, text_len};
pub use pack::{Id, Packed, Value};
pub use place::{Kind, Layout, Place, Placer};
pub use sink::Sink;
pub use symbol::Symbol;

/// A class of events: layout, fields, print format.
pub trait EventClass {
    /// How the record's word is divided.
    const LAYOUT: Layout;
    /// Extra words of its records; a record has `8 + 4 * EXTRA` bytes, and a dynamic field besides.
    const EXTRA: usize;
    /// The class's part of the metadata text.
    const TEXT: &'static str;
}

/// An event: an instance of a class.
pub trait Event {
    /// Its class.
    type Class: EventClass;
    /// Its name, `system:event`.
    const NAME: &'static str;

    /// Its id: the address of its symbol in a section that is not loaded.
    fn id() -> Id;
}
