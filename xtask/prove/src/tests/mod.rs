//! The analysis of planted code whose bounds are known, and of random programs against their execution.

mod asm;
mod machine;
mod marked;
mod planted;
mod random;
