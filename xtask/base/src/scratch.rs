//! Temporary folders. Their names have the number of the process that made them, by which the next one finds and removes what a
//! killed one has left.

use std::env;
use std::path::Path;

use anyhow::{Context, Result};
use tempfile::TempDir;

use crate::paths;

/// How the names begin.
const OURS: &str = ".takt-";

/// A folder among the temporary ones, which is gone when it is dropped.
///
/// # Errors
///
/// If it cannot be made.
pub fn folder() -> Result<TempDir> {
    folder_in(&env::temp_dir())
}

/// The same in another place.
///
/// # Errors
///
/// If it cannot be made.
pub fn folder_in(parent: &Path) -> Result<TempDir> {
    paths::remove_left_over_of(parent, OURS);
    tempfile::Builder::new()
        .prefix(OURS)
        .suffix(&paths::passing_mark())
        .tempdir_in(parent)
        .with_context(|| format!("cannot make a temporary folder in {}", parent.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn what_a_killed_process_left_is_removed_and_nothing_else() {
        let parent = tempfile::tempdir().unwrap();
        let at = |name: &str| parent.path().join(name);
        let ours = folder_in(parent.path()).unwrap();
        for name in [".takt-a.tmp-4294967295", ".other.tmp-4294967295", "takt-b"] {
            fs::create_dir(at(name)).unwrap();
            fs::write(at(name).join("file"), "").unwrap();
        }
        let second = folder_in(parent.path()).unwrap();
        assert!(!at(".takt-a.tmp-4294967295").exists());
        for kept in [&at(".other.tmp-4294967295"), &at("takt-b"), ours.path()] {
            assert!(kept.exists(), "{}", kept.display());
        }
        let path = second.path().to_owned();
        drop(second);
        assert!(!path.exists());
    }
}
