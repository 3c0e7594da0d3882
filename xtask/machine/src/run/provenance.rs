//! Where a run comes from: source revision and host.

use std::path::Path;
use std::process::{Command, Stdio};

use takt_base::input;
use takt_base::paths;

/// What is written instead of a revision that is not known.
pub const UNKNOWN: &str = "unknown";

/// The workspace's revision, with `-dirty` if files differ from it; `unknown` without git.
#[must_use]
pub fn git_revision() -> String {
    git_revision_of(&paths::workspace())
}

/// The revision of the sources in this folder.
#[must_use]
pub fn git_revision_of(dir: &Path) -> String {
    let Some(revision) = git(dir, &["rev-parse", "--short=12", "HEAD"]) else {
        return UNKNOWN.into();
    };
    let is_dirty = git(dir, &["status", "--porcelain", "--untracked-files=no"])
        .is_none_or(|text| !text.is_empty());
    format!("{revision}{}", if is_dirty { "-dirty" } else { "" })
}

fn git(dir: &Path, args: &[&str]) -> Option<String> {
    let output = Command::new("git")
        .args(args)
        .current_dir(dir)
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output()
        .ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_owned())
}

/// The host's kernel.
#[must_use]
pub fn host_kernel() -> String {
    let read =
        |name: &str| input::read_to_string(format!("/proc/sys/kernel/{name}")).unwrap_or_default();
    format!("{} {}", read("ostype").trim(), read("osrelease").trim())
        .trim()
        .to_owned()
}
