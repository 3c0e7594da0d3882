//! What other programs say of our traces, taken apart: for the end-to-end tests, which hold it against our own text.
//!
//! | module | content |
//! |---|---|
//! | [`text`] | the lines of ftrace's text |
//! | [`trace_cmd`], [`babeltrace`], [`perfetto`] | what `trace-cmd`, `babeltrace2` and Perfetto's schema make of the same events |
#![forbid(unsafe_code)]

pub mod babeltrace;
pub mod perfetto;
pub mod text;
pub mod trace_cmd;

use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use takt_base::paths;

/// What a tool prints on stdout and on stderr.
///
/// # Errors
///
/// If it cannot be run or fails.
pub fn say(program: &str, args: &[&str]) -> Result<(String, String)> {
    let output = Command::new(program)
        .args(args)
        .env("LC_ALL", "C.UTF-8")
        .env("TZ", "UTC")
        .current_dir(paths::workspace())
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("cannot run {program}"))?;
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    ensure!(
        output.status.success(),
        "{program} {args:?}: {}\n{stderr}",
        output.status
    );
    Ok((String::from_utf8_lossy(&output.stdout).into_owned(), stderr))
}
