//! The tracer and the host product are made of crates that one can carry: none is longer than [`MAX_LINES`], and from the tracer up to
//! `xtask` there are no more than [`MAX_LEVELS`] levels. That no two import each other cargo sees to.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// Lines of a crate's sources, its unit tests among them.
const MAX_LINES: usize = 10_000;
/// Levels above the tracer.
const MAX_LEVELS: usize = 5;
/// Folders of the tracer and of the host product.
const HOST: [&str; 4] = ["xtask", "tracer", "tests/host", "tests/viewers"];

/// A package: its folder, and which packages of the workspace it imports.
struct Crate {
    folder: String,
    imports: BTreeSet<String>,
}

/// All packages of the workspace by their names.
fn crates(top: &Path) -> BTreeMap<String, Crate> {
    let output = Command::new(env!("CARGO"))
        .args([
            "metadata",
            "--no-deps",
            "--offline",
            "--format-version",
            "1",
        ])
        .current_dir(top)
        .output()
        .expect("cargo runs");
    let metadata: Value = serde_json::from_slice(&output.stdout).expect("cargo's metadata");
    let text = |value: &Value| value.as_str().expect("a text").to_owned();
    let packages = metadata["packages"].as_array().expect("packages");
    let of = |package: &Value| {
        let manifest = text(&package["manifest_path"]);
        let folder = Path::new(&manifest).parent().expect("a folder");
        let folder = folder.strip_prefix(top).expect("a folder of the workspace");
        // What is optional is for the target.
        let imported =
            |it: &&Value| it["kind"].is_null() && it["path"].is_string() && it["optional"] == false;
        let dependencies = package["dependencies"].as_array().expect("dependencies");
        let imports = dependencies.iter().filter(imported);
        let it = Crate {
            folder: folder.display().to_string(),
            imports: imports.map(|it| text(&it["name"])).collect(),
        };
        (text(&package["name"]), it)
    };
    packages.iter().map(of).collect()
}

/// Levels from `from` up to `to`; `None` if it does not stand on it at all.
fn levels(crates: &BTreeMap<String, Crate>, from: &str, to: &str) -> Option<usize> {
    if from == to {
        return Some(0);
    }
    let below = crates[to].imports.iter();
    below
        .filter_map(|it| levels(crates, from, it))
        .max()
        .map(|it| it + 1)
}

/// Lines of Rust below a folder.
fn lines(folder: &Path) -> usize {
    let entries = fs::read_dir(folder).expect("a folder of sources");
    let paths = entries.map(|entry| entry.expect("an entry").path());
    let of = |path: PathBuf| match path.extension() {
        _ if path.is_dir() => lines(&path),
        Some(rs) if rs == "rs" => {
            let text = fs::read_to_string(&path).expect("a source file");
            text.lines().count()
        }
        _ => 0,
    };
    paths.map(of).sum()
}

/// The workspace's folder.
fn top() -> PathBuf {
    let top = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    top.canonicalize().expect("the workspace")
}

#[test]
fn from_the_tracer_to_xtask_there_are_five_levels() {
    let crates = crates(&top());
    let levels = levels(&crates, "takt-tracer", "xtask").expect("xtask stands on the tracer");
    assert!(levels <= MAX_LEVELS, "{levels} levels");
}

#[test]
fn no_crate_of_the_host_is_too_long_for_one() {
    let top = top();
    let is_of_host = |folder: &str| HOST.iter().any(|it| Path::new(folder).starts_with(it));
    let crates = crates(&top).into_values();
    let folders: Vec<_> = crates
        .map(|it| it.folder)
        .filter(|it| is_of_host(it))
        .collect();
    assert!(folders.len() > HOST.len(), "{folders:?}");
    for folder in folders {
        // Tests of a package's own are a crate of their own.
        for crate_ in ["src", "tests"] {
            let path = top.join(&folder).join(crate_);
            let nr = if path.is_dir() { lines(&path) } else { 0 };
            assert!(nr <= MAX_LINES, "{folder}/{crate_} has {nr} lines");
        }
    }
}
