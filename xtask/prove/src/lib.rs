//! A bound for every stretch of an image with interrupts off, or why there is none.
//!
//! All states are looked at that the CPU can come to with interrupts off, as far as they are known: instruction, calls under
//! way, interrupt flag, bits of registers and of words on the stack, flags. States are joined only where that forgets
//! something. What goes from one to the next is a graph; the longest way through it is the bound. A circle in it is a loop
//! without a bound, and with all else that is not understood a refusal, with its place. `docs/PROVE.md` says what is assumed.
//!
//! [`prove`] is the way in; `explore` makes the graph, by `cpu`'s and `flags`' knowledge of instructions on a `state` of
//! `value`s; `longest` finds the way.
//!
//! # What is done where nothing is known
//! Nothing is guessed:
//! * Each root, a function or an interrupt's entry, is looked at by itself, on all CPUs of the host: first with many states
//!   at the same place, and where there are too many of them anew with fewer. Where two states are joined, what differs is
//!   forgotten.
//! * A loop goes round as often as its counter says. Where a mark counts the rounds of one, the ways are cut: the longest to
//!   a round, n times the longest from one to the next, and the longest from one to the end. A circle that is left is *a
//!   loop without a bound*.
//! * A function is looked at anew in each call with interrupts off. One that calls itself is refused.
//! * An indirect branch goes where its constant, its table or a mark in the sources says; else it is refused.
//! * A function that switches interrupts off is looked at from its beginning with nothing known, unless all that call it
//!   were looked at and none does so with interrupts on. Calls with interrupts on are passed over, unless what is called may
//!   come back with interrupts off: then they are followed. A `cli` that is reached in no such way is looked at with nothing
//!   known, but in compiled code, where nobody comes to it: those are listed.
//! * Behind what is refused nothing is known, neither there nor in the functions that would be come back to: what begins
//!   there is looked at so as well.
//! * A store to an address that is not known may be to each frame of which an address has left the registers and words that
//!   are followed. What was read or written by a pointer shows that it is not null.
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

mod calls;
mod config;
mod cost;
mod cpu;
mod explore;
mod flags;
mod hash;
mod image;
mod live;
mod longest;
mod looked;
mod marks;
mod mutate;
mod prove;
mod state;
#[cfg(test)]
mod tests;
mod value;
mod waits;

pub use config::Config;
pub use explore::{Off, Refusal};
pub use marks::Mark;
pub use mutate::{Mutation, mutate};
pub use prove::{Growth, Proof, Refused, SCHEMA, Stretch, Way, Whole, prove, whole};
