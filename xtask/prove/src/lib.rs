//! A bound for every stretch of an image with interrupts off, or why there is none.
//!
//! All states are looked at that the CPU can come to with interrupts off, as far as they are known: instruction, calls under
//! way, interrupt flag, bits of registers and of words on the stack, flags. States are joined only where that forgets
//! something. What goes from one to the next is a graph; the longest way through it is the bound. A circle in it is a loop
//! without a bound, and with all else that is not understood a refusal, with its place. `docs/PROVE.md` says what is assumed.
//!
//! [`prove`] is the way in; `explore` makes the graph, by `cpu`'s and `flags`' knowledge of instructions on a `state` of
//! `value`s; `longest` finds the way.
#![forbid(unsafe_code)]

mod calls;
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

pub use explore::Refusal;
pub use marks::Mark;
pub use mutate::{Mutation, mutate};
pub use prove::{Growth, Proof, Refused, SCHEMA, Stretch, prove};
