//! Builds the targets with coverage counters.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use takt_base::paths::{self, cargo};
use takt_base::term::note;
use takt_image::build::TARGET;

/// LLVM's SanitizerCoverage as libFuzzer wants it, and every check that the compiler has. What it warns of is the
/// business of the lints.
const FLAGS: [&str; 9] = [
    "-Cpasses=sancov-module",
    "-Cllvm-args=-sanitizer-coverage-level=4",
    "-Cllvm-args=-sanitizer-coverage-inline-8bit-counters",
    "-Cllvm-args=-sanitizer-coverage-pc-table",
    "-Cllvm-args=-sanitizer-coverage-trace-compares",
    "-Cdebug-assertions",
    "-Coverflow-checks",
    "-Ccodegen-units=1",
    "-Awarnings",
];

/// The program, which is told its target by [`CHOICE`](super::run::CHOICE).
pub(super) fn program(dir: &Path) -> PathBuf {
    dir.join(TARGET).join("fuzz/takt-fuzz")
}

/// Builds the program, or finds that it is up to date.
///
/// `--target` is passed although it is the host's, so that build scripts and procedural macros do not get the flags.
///
/// # Errors
///
/// If cargo cannot be run or fails; its messages are on stderr by then.
pub(super) fn build(dir: &Path) -> Result<()> {
    if !program(dir).exists() {
        note("building the fuzz targets; the first time takes some minutes");
    }
    let flags = [&FLAGS[..], &["--cfg", "fuzzing"]].concat();
    let mut command = Command::new(cargo());
    command
        .args([
            "build",
            "--quiet",
            "--profile",
            "fuzz",
            "--package",
            "takt-fuzz",
        ])
        .args([
            "--features",
            "libfuzzer",
            "--target",
            TARGET,
            "--target-dir",
        ])
        .arg(dir)
        // Goes before RUSTFLAGS and every other source of flags.
        .env("CARGO_ENCODED_RUSTFLAGS", flags.join("\x1f"))
        .env_remove("RUSTC_WORKSPACE_WRAPPER")
        .current_dir(paths::workspace())
        .stdin(Stdio::null());
    if !command.status().context("cannot run cargo")?.success() {
        bail!("the fuzz targets do not build");
    }
    Ok(())
}
