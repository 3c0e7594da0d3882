//! Building the image of an application outside of this repository: by its own files, in its own folder.

use std::env;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, anyhow};
use serde_json::Value;

use super::build::disturbs;
use crate::paths;
use crate::term::WithHelp;

/// What is built of which application.
#[derive(Clone, Copy, Debug)]
pub struct Elsewhere<'a> {
    /// Its `Cargo.toml`.
    pub manifest: &'a Path,
    /// The package, if it has several.
    pub package: Option<&'a str>,
    /// The kind and the name of what is built, as cargo's flags have them, if it has several.
    pub what: Option<(&'a str, &'a str)>,
    /// Cargo features.
    pub features: &'a [String],
}

impl Elsewhere<'_> {
    /// Builds it; gives the ELF file. Cargo says itself what it does.
    ///
    /// # Errors
    ///
    /// If it does not build, or there is more than one to be had.
    pub fn build(&self) -> Result<PathBuf> {
        let shown = self.manifest.display();
        let manifest = self
            .manifest
            .canonicalize()
            .with_context(|| format!("there is no {shown}"))?;
        let dir = manifest.parent().unwrap_or(&manifest);
        let mut cargo = Command::new(paths::cargo());
        for (name, _) in env::vars_os() {
            let name = name.to_string_lossy().into_owned();
            // The application's own flags are in its folder.
            if name == "RUSTFLAGS" || disturbs(&name) && name != "CARGO_TARGET_DIR" {
                cargo.env_remove(name);
            }
        }
        cargo.args(["build", "--message-format=json-render-diagnostics"]);
        for (flag, value) in self
            .package
            .map(|name| ("--package", name))
            .into_iter()
            .chain(self.what)
        {
            cargo.args([flag, value]);
        }
        if !self.features.is_empty() {
            cargo.args(["--features", &self.features.join(",")]);
        }
        let output = cargo
            .current_dir(dir)
            .stdin(Stdio::null())
            .stderr(Stdio::inherit())
            .output()
            .context("cannot run cargo")?;
        if !output.status.success() {
            return Err(anyhow!("the application of {shown} does not build")).help(
                "what is wrong stands above; docs/APPLICATION.md has what an application needs",
            );
        }
        match &*executables(&output.stdout) {
            [one] => Ok(one.clone()),
            [] => Err(anyhow!("{shown} has no image"))
                .help("a binary or an example: --bin NAME, --example NAME"),
            several => {
                let names: Vec<_> = several.iter().filter_map(|path| path.file_name()).collect();
                Err(anyhow!("{shown} has several images: {names:?}")).help("say which: --bin NAME")
            }
        }
    }
}

/// The executables in cargo's JSON messages.
fn executables(messages: &[u8]) -> Vec<PathBuf> {
    messages
        .split(|&byte| byte == b'\n')
        .filter_map(|line| serde_json::from_slice::<Value>(line).ok())
        // What is run while building has none.
        .filter_map(|message| Some(message["executable"].as_str()?.into()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn executables_are_found_among_the_messages() {
        let messages = b"{\"executable\":null}\nno json\n{\"executable\":\"/a/demo\"}\n{}\n";
        assert_eq!(executables(messages), [PathBuf::from("/a/demo")]);
    }

    #[test]
    fn an_application_that_is_not_there_is_named() {
        let elsewhere = Elsewhere {
            manifest: Path::new("/nowhere/Cargo.toml"),
            package: None,
            what: None,
            features: &[],
        };
        let error = elsewhere.build().unwrap_err().to_string();
        assert_eq!(error, "there is no /nowhere/Cargo.toml");
    }
}
