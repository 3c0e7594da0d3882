//! The kernel image: building it, and what its ELF file says.

pub mod build;
pub mod elsewhere;
pub mod lean;
pub mod library;
pub mod small;
pub mod tasks;

pub use build::{Built, Recipe};
pub use lean::Kept;
