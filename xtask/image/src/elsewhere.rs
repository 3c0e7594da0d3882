//! Building the image of an application outside of this repository: by its own files, in its own folder.

use std::env;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, anyhow};
use serde_json::Value;

use super::build::{BOOTSTRAP, FUNCTION_RUSTFLAGS, TARGET, disturbs};
use super::lean;
use takt_base::paths;
use takt_base::term::WithHelp;
use takt_guest::words;

/// The feature of images whose functions can be traced, by the name that it has in an application.
const FUNCTION_ELSEWHERE: &str = "takt-board/function";

/// The features of an application that the user names, and those that these words for the kernel's command line want.
#[must_use]
pub fn features(named: &[String], words: &str) -> Vec<String> {
    let wanted = words::want_functions(words).then(|| FUNCTION_ELSEWHERE.into());
    named.iter().cloned().chain(wanted).collect()
}

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
    fn has_functions(&self) -> bool {
        let is_function = |name: &String| name == "function" || name == FUNCTION_ELSEWHERE;
        self.features.iter().any(is_function)
    }

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
        let mut cargo = cargo_in(dir);
        cargo.args(["build", "--message-format=json-render-diagnostics"]);
        if self.has_functions() {
            // What is built so lies apart: what allows the flags changes what build scripts find, and the application's own
            // image stays what it is.
            cargo
                .env(BOOTSTRAP.0, BOOTSTRAP.1)
                .args(["--config", &function_flags()])
                .arg("--target-dir")
                .arg(target_of(dir)?.join("function"));
        }
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
        let output = cargo.output().context("cannot run cargo")?;
        if !output.status.success() {
            return Err(anyhow!("the application of {shown} does not build")).help(
                "what is wrong stands above; docs/APPLICATION.md has what an application needs",
            );
        }
        match &*executables(&output.stdout) {
            [one] => {
                lean::tell(&lean::make(one)?);
                Ok(one.clone())
            }
            [] => Err(anyhow!("{shown} has no image"))
                .help("a binary or an example: --bin NAME, --example NAME"),
            several => {
                let names: Vec<_> = several.iter().filter_map(|path| path.file_name()).collect();
                Err(anyhow!("{shown} has several images: {names:?}")).help("say which: --bin NAME")
            }
        }
    }
}

/// Cargo's setting of the compiler flags for function tracing. Cargo puts them behind those of the application's own files.
fn function_flags() -> String {
    let flags: Vec<_> = FUNCTION_RUSTFLAGS
        .split_whitespace()
        .map(|flag| format!("\"{flag}\""))
        .collect();
    format!("target.{TARGET}.rustflags=[{}]", flags.join(","))
}

/// Cargo in an application's folder, with the flags that are there and no others.
fn cargo_in(dir: &Path) -> Command {
    let mut cargo = Command::new(paths::cargo());
    for (name, _) in env::vars_os() {
        let name = name.to_string_lossy().into_owned();
        if name == "RUSTFLAGS" || disturbs(&name) && name != "CARGO_TARGET_DIR" {
            cargo.env_remove(name);
        }
    }
    cargo
        .current_dir(dir)
        .stdin(Stdio::null())
        .stderr(Stdio::inherit());
    cargo
}

/// Where cargo puts what it builds of the application in this folder, whatever says so.
fn target_of(dir: &Path) -> Result<PathBuf> {
    let output = cargo_in(dir)
        .args(["metadata", "--no-deps", "--format-version=1"])
        .output()
        .context("cannot run cargo")?;
    let said: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
    let target = said["target_directory"].as_str().map(PathBuf::from);
    target.with_context(|| {
        format!(
            "cargo does not say where the images of {} are",
            dir.display()
        )
    })
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
    fn functions_are_traced_where_words_want_it() {
        let features = |words| features(&["own".into()], words);
        assert_eq!(features("smp=2 ftrace=wakeup"), ["own"]);
        let with = features("ftrace=function_graph");
        assert_eq!(with, ["own", FUNCTION_ELSEWHERE]);
        let elsewhere = Elsewhere {
            manifest: Path::new("Cargo.toml"),
            package: None,
            what: None,
            features: &with,
        };
        assert!(elsewhere.has_functions());
        let setting: Value = basic_toml::from_str(&function_flags()).unwrap();
        let flags = setting["target"][TARGET]["rustflags"].as_array().unwrap();
        let flags: Vec<_> = flags.iter().filter_map(Value::as_str).collect();
        assert!(flags.starts_with(&["-Z", "patchable-function-entry=5"]));
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
