//! Builds a task: a static ELF of its own, linked to where the kernel maps nothing.
//!
//! The code is position-independent, since it lies above 4 GiB; the addresses are final all the same.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use takt_abi::{FIRST_REGION, REGION};

use super::Manifest;
use crate::build::{self, TARGET, disturbs};
use takt_base::paths;
use takt_base::term::write_stderr;

/// Frame pointers, for backtraces. All tasks have the same: cargo builds what they are made of once for all of them.
const RUSTFLAGS: &str = "-C relocation-model=pic -C force-frame-pointers=yes -C target-cpu=x86-64";

/// What the linker is told, beside a task's address and what its manifest gives it.
const LINK: [&str; 9] = [
    "-nostartfiles",
    "-nostdlib",
    "-static",
    "-no-pie",
    "-Wl,--build-id=none",
    "-Wl,--gc-sections",
    "-Wl,-z,max-page-size=4096",
    "-Wl,-z,noexecstack",
    "-Wl,-Ttask.ld",
];

/// Where a task's region begins.
pub(super) fn base(number: usize) -> u64 {
    (FIRST_REGION + number * REGION) as u64
}

/// Builds task `number` of a manifest; gives its ELF file, below `dir`.
pub(super) fn build(
    manifest: &Manifest,
    number: usize,
    dir: &Path,
    defmt_log: &str,
    verbose: bool,
) -> Result<PathBuf> {
    let task = &manifest.tasks[number];
    let bin = task.bin.as_ref().unwrap_or(&task.name);
    let mut cargo = Command::new(paths::cargo());
    for (name, _) in std::env::vars_os() {
        if disturbs(&name.to_string_lossy()) {
            cargo.env_remove(name);
        }
    }
    cargo.args(["rustc", "--package", &task.package, "--bin", bin]);
    cargo.args(["--target", TARGET, "--profile", "image", "--target-dir"]);
    cargo.arg(dir.join(&task.name));
    cargo.arg("--message-format=json-render-diagnostics");
    if !task.features.is_empty() {
        cargo.args(["--features", &task.features.join(",")]);
    }
    cargo.arg("--");
    for arg in LINK {
        cargo.arg(format!("-Clink-arg={arg}"));
    }
    let given = manifest.given(task);
    for (name, value) in given.chain([("task_base".to_owned(), base(number))]) {
        cargo.arg(format!("-Clink-arg=-Wl,--defsym=__{name}={value:#x}"));
    }
    cargo
        .envs(build::variables(false, defmt_log))
        .env("RUSTFLAGS", RUSTFLAGS)
        .current_dir(super::folder(&manifest.path))
        .stdin(Stdio::null())
        .stdout(Stdio::piped());
    if !verbose {
        cargo.stderr(Stdio::piped());
    }
    let output = cargo
        .spawn()
        .and_then(std::process::Child::wait_with_output)
        .context("cannot run cargo")?;
    if !output.status.success() {
        write_stderr(&String::from_utf8_lossy(&output.stderr));
        bail!("the task `{}` does not build", task.name);
    }
    build::find_executable(&output.stdout, bin)
        .with_context(|| format!("cargo built no executable named `{bin}`"))
}
