//! Which on-target tests an image has, by its sources: it is not built where none of them is asked for.

use std::collections::BTreeSet;
use std::path::Path;
use std::{fs, iter};

use anyhow::{Context, Result};

use takt_base::{input, paths};

/// Names that the tests of an image may have whose sources are in this folder of `tests/src/bin`: those of all its functions.
///
/// # Errors
///
/// If a source cannot be read.
pub(super) fn names(folder: &str) -> Result<BTreeSet<String>> {
    let mut names = BTreeSet::new();
    let folder = paths::workspace().join("tests/src/bin").join(folder);
    add(&folder, "", &mut names)?;
    Ok(names)
}

/// Adds those of a module's folder.
fn add(folder: &Path, module: &str, names: &mut BTreeSet<String>) -> Result<()> {
    let cannot = || format!("cannot read {}", folder.display());
    for entry in fs::read_dir(folder).with_context(cannot)? {
        let path = entry.with_context(cannot)?.path();
        let stem = path.file_stem().unwrap_or_default().to_string_lossy();
        let inner = match &*stem {
            "main" | "mod" => module.to_owned(),
            stem => format!("{module}{stem}::"),
        };
        if path.is_dir() {
            add(&path, &inner, names)?;
        } else {
            let text = input::read_to_string(&path)
                .with_context(|| format!("cannot read {}", path.display()))?;
            for within in modules(&text) {
                names.extend(functions(&text).map(|name| format!("{inner}{within}{name}")));
            }
        }
    }
    Ok(())
}

/// The modules that a source may have its functions in: none of its own, and those that begin in it.
fn modules(text: &str) -> impl Iterator<Item = String> {
    let begun = text.lines().filter_map(|line| {
        let name = line.trim_start().strip_prefix("mod ")?.strip_suffix(" {")?;
        Some(format!("{name}::"))
    });
    iter::once(String::new()).chain(begun)
}

fn functions(text: &str) -> impl Iterator<Item = &str> {
    let rests = text
        .lines()
        .filter_map(|line| line.trim_start().strip_prefix("fn "));
    rests.filter_map(|rest| rest.split(['(', '<', ' ']).next())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_have_the_names_of_their_modules() {
        let names = names("ontarget").unwrap();
        for name in [
            "day::day_at_100_hz",
            "latency::counted::lengths_are_counts",
            "faults_in_interrupts::of_a_device::page_fault",
        ] {
            assert!(names.contains(name), "{name} is not among {names:?}");
        }
    }
}
