//! Protected tasks: the manifest that declares them, and how they come into the image.

mod build;
mod events;
pub mod manifest;
mod pack;
mod strings;

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

pub use manifest::Manifest;
use takt_guest::Elf;
pub use takt_guest::tasks::Names;

use takt_base::paths;

/// Tasks that are built and packed.
#[derive(Debug)]
pub(super) struct Packed {
    /// Rust that declares them, for `takt-board`.
    pub(super) source: PathBuf,
}

/// Builds the tasks of a manifest, with this of their log, and packs them.
///
/// # Errors
///
/// If the manifest makes no sense, or a task does not build or does not fit.
pub(super) fn pack(manifest: &Path, defmt_log: &str, verbose: bool) -> Result<Packed> {
    let read = Manifest::read(manifest)?;
    let dir = paths::target().join("image-tasks").join(name(manifest));
    std::fs::create_dir_all(&dir)
        .with_context(|| format!("cannot make the folder {}", dir.display()))?;
    let mut programs = Vec::new();
    for (number, task) in read.tasks.iter().enumerate() {
        if task.thread_of.is_some() {
            break;
        }
        let elf = build::build(&read, number, &dir, defmt_log, verbose)?;
        let name = &task.name;
        programs.push(pack::Program::read(&elf).with_context(|| format!("the task `{name}`"))?);
    }
    let source = pack::write(&read, &programs, &dir)?;
    Ok(Packed { source })
}

/// Looks at an image that has them.
///
/// # Errors
///
/// If an event of a task has the name of one of the kernel's.
pub(super) fn check(image: &Path) -> Result<()> {
    events::check(&takt_guest::events::table(&Elf::open(image)?)?)
}

/// A manifest of so many of the tasks that `latency-run -u` measures, each for a CPU.
///
/// # Errors
///
/// If it cannot be written.
pub fn timerlatu(nr: usize) -> Result<PathBuf> {
    let task = |number| {
        format!(
            "[[task]]\nname = \"timerlatu-{number}\"\npackage = \"takt-timerlat-user\"\nbin = \"timerlatu\"\n\
             features = [\"task\"]\npriority = 95\nstack = 4096\n\n"
        )
    };
    let text: String = (0..nr).map(task).collect();
    let dir = paths::target().join(format!("image-tasks/of/timerlatu-{nr}"));
    let path = dir.join("takt.app.toml");
    std::fs::create_dir_all(&dir)
        .with_context(|| format!("cannot make the folder {}", dir.display()))?;
    pack::update(&path, text.as_bytes())?;
    Ok(path)
}

/// Where cargo finds the packages of a manifest: beside it, or among Takt's own.
pub(super) fn folder(manifest: &Path) -> PathBuf {
    let beside = manifest.canonicalize().ok();
    let beside = beside.as_deref().and_then(Path::parent);
    let beside = beside.filter(|dir| dir.join("Cargo.toml").is_file());
    beside.map_or_else(paths::workspace, Path::to_owned)
}

/// A word for the tasks of a manifest, by which what is built of them is kept apart: the folder's name, and a number for its
/// place.
pub(super) fn name(manifest: &Path) -> String {
    use std::hash::{DefaultHasher, Hash, Hasher};
    let manifest = manifest
        .canonicalize()
        .unwrap_or_else(|_| manifest.to_owned());
    let mut hasher = DefaultHasher::new();
    manifest.hash(&mut hasher);
    let folder = manifest
        .parent()
        .and_then(Path::file_name)
        .unwrap_or_default();
    let folder: String = (folder.to_string_lossy().chars())
        .map(|it| if it.is_ascii_alphanumeric() { it } else { '-' })
        .collect();
    format!("{folder}-{:08x}", hasher.finish() as u32)
}
