//! The kernel image: building it, and what its ELF file says.

pub mod build;
pub mod disassembly;
pub mod elf;
pub mod elsewhere;
pub mod events;
pub mod functions;
pub mod lean;
pub mod library;
pub mod signature;
pub mod small;
pub mod symbolize;
pub mod tasks;

pub use build::{Built, Recipe};
pub use elf::Elf;
pub use lean::Kept;
