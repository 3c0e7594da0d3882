//! Programs of the system that do a step each.

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;

use anyhow::{Context, Result, bail};

use crate::term::last_lines;

/// What a program wrote to stdout.
///
/// # Errors
///
/// If it cannot be started or fails, with the end of what it said.
pub fn output(command: &mut Command) -> Result<String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command
        .env("LC_ALL", "C")
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("cannot run {name}"))?;
    if !output.status.success() {
        bail!("{name}: {}", last_words(&output.stderr));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Feeds `input` to a program and has it write to a file.
///
/// # Errors
///
/// If it cannot be started or fails.
pub fn filter(command: &mut Command, input: &[u8], target: &Path) -> Result<()> {
    let name = command.get_program().to_string_lossy().into_owned();
    let file =
        File::create(target).with_context(|| format!("cannot write {}", target.display()))?;
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(file)
        .stderr(Stdio::piped())
        .spawn()
        .with_context(|| format!("cannot run {name}"))?;
    let stdin = child.stdin.take();
    let output = thread::scope(|scope| {
        // A program that ends early says itself what is wrong.
        scope.spawn(|| stdin.map(|mut stdin| stdin.write_all(input)));
        child.wait_with_output()
    })?;
    if !output.status.success() {
        bail!("{name}: {}", last_words(&output.stderr));
    }
    Ok(())
}

/// The end of what a program said.
#[must_use]
pub fn last_words(said: &[u8]) -> String {
    let text = String::from_utf8_lossy(said);
    match &*last_lines(&text, 4) {
        [] => "it failed without a word".into(),
        lines => lines.join("\n  "),
    }
}
