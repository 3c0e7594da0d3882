//! Fuzz targets: everything that reads what somebody else has written.
//!
//! `cargo xtask fuzz` builds them with coverage counters and runs each for a bounded time. A target is a function that
//! takes any bytes and panics if a property does not hold; a panic inside of what it calls, a time-out and memory
//! beyond [`MEMORY`] count as well. [`targets`] are such functions, `src/main.rs` hands one of them to libFuzzer.
//!
//! No input is kept in the repository: each target makes its seeds itself, with the writers of the formats.
//!
//! | module | content |
//! |---|---|
//! | [`targets`] | one module for each target: `run` and `seeds` |
//! | `sample` | a small trace, and repairing checksums that mutation has broken |
//! | `image` | an ELF file with the symbols of an image |
#![forbid(unsafe_code)]

mod image;
mod sample;
pub mod targets;

use std::env;
use std::fs;
use std::path::PathBuf;

/// What a target may have allocated at any time, in bytes. The longest inputs are some thousand bytes.
pub const MEMORY: usize = 256 << 20;

/// The variable with the folder that [`start`] writes the seeds to.
pub const SEEDS: &str = "TAKT_FUZZ_SEEDS";

/// The allocator that keeps to [`MEMORY`]: libFuzzer's own limit needs a sanitizer's runtime.
#[cfg(feature = "libfuzzer")]
#[global_allocator]
static ALLOCATOR: cap::Cap<std::alloc::System> = cap::Cap::new(std::alloc::System, MEMORY);

/// The variable with the name of the target that the program runs.
pub const TARGET: &str = "TAKT_FUZZ_TARGET";

/// A target.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// Its module's name.
    pub name: &'static str,
    /// Takes any bytes, and panics if a property does not hold.
    pub run: fn(&[u8]),
    /// Inputs to begin with.
    pub seeds: fn() -> Vec<Vec<u8>>,
}

/// The target that [`TARGET`] names.
///
/// # Panics
///
/// If there is none.
#[must_use]
pub fn chosen() -> Target {
    let name = env::var(TARGET).unwrap_or_default();
    let target = targets::ALL.iter().find(|it| it.name == name);
    *target.unwrap_or_else(|| panic!("{TARGET} names no fuzz target: `{name}`"))
}

/// Writes the seeds of a target to the folder that [`SEEDS`] names, if it is set. libFuzzer reads them afterwards.
///
/// # Panics
///
/// If they cannot be written.
pub fn start(target: &Target) {
    let seeds = (target.seeds)();
    let Some(dir) = env::var_os(SEEDS).map(PathBuf::from) else {
        return;
    };
    fs::create_dir_all(&dir).expect("the folder for the seeds can be made");
    for (number, seed) in seeds.iter().enumerate() {
        fs::write(dir.join(format!("seed-{number:02}")), seed).expect("a seed can be written");
    }
}
