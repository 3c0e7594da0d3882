//! The analysis of planted code whose bounds are known, and of random programs against their execution.

mod asm;
mod lives;
mod machine;
mod marked;
mod others;
mod planted;
mod random;
mod wholes;
