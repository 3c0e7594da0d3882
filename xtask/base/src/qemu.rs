//! Which QEMU is run.

use std::env;
use std::ffi::OsString;

/// Name of the program.
pub const PROGRAM: &str = "qemu-system-x86_64";

/// The QEMU to run: `TAKT_QEMU`, or the one in `PATH`.
#[must_use]
pub fn program() -> OsString {
    env::var_os("TAKT_QEMU").unwrap_or_else(|| PROGRAM.into())
}

/// The first line of `--version`, if there is a QEMU that runs.
#[must_use]
pub fn version() -> Option<String> {
    let output = std::process::Command::new(program())
        .arg("--version")
        .stdin(std::process::Stdio::null())
        .output()
        .ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    let line = text.lines().next()?.trim();
    (output.status.success() && !line.is_empty()).then(|| line.to_owned())
}
