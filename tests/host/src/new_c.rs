//! A program in C, from `new --c` on.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

use super::Stage;
use super::stage::{Done, is_kept_from_cargo};
use takt_base::setup;

/// What a program is told that does wrong, and the end of one that runs over its stack. Its `main` returns the number of the
/// first line that is told something else.
const ERRORS: &str = include_str!("c_errors.c");

/// `make` in the program's folder.
fn make(dir: &Path, words: &[&str]) -> Result<Done> {
    let mut command = Command::new("make");
    for (name, _) in std::env::vars_os() {
        if is_kept_from_cargo(&name) {
            command.env_remove(name);
        }
    }
    let output = command
        .args(words)
        .env("NO_COLOR", "1")
        .current_dir(dir)
        .output()
        .context("cannot run make")?;
    Ok(Done::of(&output))
}

/// It runs, with its log and its trace; what it does wrong it is told; its `main` says whether it has failed.
pub(super) fn runs_and_is_told_errors(stage: &Stage) -> Result<()> {
    setup::ensure_make(stage.may_install())?;
    let dir = stage.path().join("in-c");
    stage
        .xtask(&["new", "--c", &dir.to_string_lossy()])?
        .code(0)?
        .says("make run")?;
    make(
        &dir,
        &["CFLAGS=-std=c11 -O2 -g -Wall -Wextra -Werror", "run"],
    )?
    .code(0)?
    .says("INFO  reading: 16 ")?
    .says("tracing_mark_write: main begins")?
    .says("tracing_mark_write: sampled: 16")?
    .complains("the guest ended well; run folder runs/in-c-001")?;
    // Not into a folder that has something in it.
    stage
        .xtask(&["new", "--c", &dir.to_string_lossy()])?
        .code(1)?
        .complains("is not empty")?;
    let main = dir.join("main.c");
    fs::write(&main, ERRORS)?;
    make(&dir, &["run", "ARGS=-e none"])?
        .code(2)?
        .says("INFO  all errors were told")?
        .says("stack overflow of thread 'deep'")?;
    fs::write(&main, "int main(void) { return 3; }\n")?;
    make(&dir, &["run", "ARGS=-e none"])?
        .code(2)?
        .says("ERROR main returned 3 ")?
        .complains("the guest reported a failure")?;
    Ok(())
}
