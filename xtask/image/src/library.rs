//! Builds what programs in C are linked with.
//!
//! It is one LTO'd object, as `cargo rustc --crate-type staticlib` builds `takt-c`, and gcc links it with the image's own
//! scripts and arguments. As an ordinary library that crate is checked and documented with the rest.

use std::path::PathBuf;

use anyhow::{Result, anyhow};
use serde_json::Value;

use super::Recipe;
use super::build::parse;

/// What a program in C is built with, where cargo has put it.
pub struct Library {
    /// The static library.
    pub archive: PathBuf,
    /// `takt.h`.
    pub header: PathBuf,
    /// defmt's linker script.
    pub defmt: PathBuf,
}

/// Builds the library, or finds that it is up to date.
///
/// # Errors
///
/// As [`Recipe::build`].
pub fn build(verbose: u8) -> Result<Library> {
    let recipe = Recipe {
        package: "takt-c".into(),
        kind: "--lib",
        name: "takt_c".into(),
        ..Recipe::takt(verbose)
    };
    let messages: Vec<_> = parse(&recipe.run_cargo()?).collect();
    let lacks = |what: &str| anyhow!("cargo built the library, but told no {what}");
    Ok(Library {
        archive: archive(&messages, &recipe.name).ok_or_else(|| lacks("archive"))?,
        header: written(&messages, "takt-c", "takt.h").ok_or_else(|| lacks("header"))?,
        defmt: written(&messages, "defmt", "defmt.x").ok_or_else(|| lacks("linker script"))?,
    })
}

/// The archive that was built of the target `name`.
fn archive(messages: &[Value], name: &str) -> Option<PathBuf> {
    messages
        .iter()
        .filter(|message| message["target"]["name"] == name)
        .filter_map(|message| message["filenames"].as_array())
        .flatten()
        .filter_map(|file| file.as_str().map(PathBuf::from))
        .find(|file| file.extension().is_some_and(|it| it == "a"))
}

/// A file that the build script of a package writes.
fn written(messages: &[Value], package: &str, file: &str) -> Option<PathBuf> {
    let is_of = |message: &&Value| {
        let id = message["package_id"].as_str().unwrap_or_default();
        message["reason"] == "build-script-executed" && id.contains(&format!("#{package}@"))
    };
    messages
        .iter()
        .filter(is_of)
        .filter_map(|message| Some(PathBuf::from(message["out_dir"].as_str()?).join(file)))
        .find(|path| path.is_file())
}
