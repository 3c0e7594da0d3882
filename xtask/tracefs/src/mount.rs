//! What `tracefs mount` needs of a folder and of the system. What mounts is a program of its own, `takt-mount`.

use std::fs::{self, File, OpenOptions};
use std::path::Path;

use anyhow::{Context, Result, anyhow, bail};
use takt_base::term::WithHelp;

/// Refuses what cannot be mounted on, before anything is started.
///
/// # Errors
///
/// If `dir` is not an empty folder, or the system has no FUSE.
pub fn check(dir: &Path) -> Result<()> {
    let mut entries = fs::read_dir(dir).with_context(|| {
        format!(
            "cannot mount on {}: it has to be an empty folder",
            dir.display()
        )
    })?;
    if entries.next().is_some() {
        bail!("cannot mount on {}: it is not empty", dir.display());
    }
    open_fuse()
        .map(drop)
        .help("without FUSE the same files are there in: cargo xtask tracefs shell")
}

fn open_fuse() -> Result<File> {
    let opened = OpenOptions::new().read(true).write(true).open("/dev/fuse");
    opened
        .map_err(|error| anyhow!("this machine has no FUSE: /dev/fuse cannot be opened ({error})"))
}
