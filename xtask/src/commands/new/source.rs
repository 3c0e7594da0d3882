//! Where an application has Takt from.

use std::path::{Path, PathBuf};

use anyhow::{Result, anyhow};

use takt_base::term::WithHelp;
use takt_base::{output, paths};
use takt_cli::New;

/// Takt's packages in an application, and where they are in its sources.
const PACKAGES: [(&str, &str); 5] = [
    ("takt-board", "board"),
    ("takt-kernel", "kernel"),
    ("takt-tracer", "tracer"),
    ("takt-test", "tests/harness"),
    ("takt-user", "kernel/user"),
];

/// Brings the tool up to date and runs it in the application's folder: there it would be built with the flags of an image.
/// Where it is built does not depend on where the user has cargo put what it builds.
pub(super) const RUNNER: &str = r#"(cd "$0" && cargo build --quiet --package xtask --target-dir target) && exec "$0/target/debug/xtask" runner "$@""#;

/// Where the packages are, and with them the tool.
pub(super) enum Source {
    /// Sources in a folder.
    Path(PathBuf),
    /// A git repository with them at its top. The tool is the one that is installed.
    Git {
        /// As cargo is given it.
        url: String,
        /// A commit; without one it is what `Cargo.lock` says, at first the newest.
        rev: Option<String>,
    },
}

impl Source {
    /// What the user says; otherwise the sources of this program.
    ///
    /// # Errors
    ///
    /// If cargo could not have it from there.
    pub(super) fn of(flags: &New) -> Result<Self> {
        let Some(url) = &flags.git else {
            return Ok(Self::Path(paths::workspace()));
        };
        if !url.contains("://") {
            return Err(anyhow!("cargo knows no repository `{url}`"))
                .help("give an address as https://…, ssh://git@… or file:///…");
        }
        Ok(Self::Git {
            url: url.clone(),
            rev: flags.rev.clone(),
        })
    }

    /// Takt's packages, and where cargo finds each: keys of an inline table.
    pub(super) fn dependencies(&self) -> Result<Vec<(&'static str, String)>> {
        let of = |(package, place)| Ok((package, self.dependency(place)?));
        PACKAGES.into_iter().map(of).collect()
    }

    fn dependency(&self, place: &str) -> Result<String> {
        // What JSON writes, TOML reads as the same.
        let key = |key, value: &str| Ok(format!("{key} = {}", serde_json::to_string(value)?));
        match self {
            Self::Path(takt) => key("path", utf8(&takt.join(place))?),
            Self::Git { url, rev: None } => key("git", url),
            Self::Git {
                url,
                rev: Some(rev),
            } => Ok::<_, anyhow::Error>(format!("{}, {}", key("git", url)?, key("rev", rev)?)),
        }
    }

    /// What cargo calls with an image.
    pub(super) fn runner(&self) -> Result<Vec<&str>> {
        Ok(match self {
            Self::Path(takt) => vec!["sh", "-c", RUNNER, utf8(takt)?],
            Self::Git { .. } => vec!["takt", "runner"],
        })
    }

    /// Cargo's words for the tool, where no runner is called: in a folder without the flags of an image. None if it is installed.
    pub(super) fn alias(&self) -> Result<String> {
        let Self::Path(takt) = self else {
            return Ok(String::new());
        };
        let manifest = takt.join("Cargo.toml");
        let words = ["run", "--quiet", "--package", "xtask", "--manifest-path"];
        let words: Vec<_> = words.into_iter().chain([utf8(&manifest)?, "--"]).collect();
        // What JSON writes, TOML reads as the same.
        let words = serde_json::to_string(&words)?;
        Ok(format!(
            "# Takt's commands, for this application.\n[alias]\nxtask = {words}\n\n"
        ))
    }

    /// What the tool is called by where no runner is.
    pub(super) const fn tool(&self) -> &'static str {
        match self {
            Self::Path(_) => "cargo xtask",
            Self::Git { .. } => "takt",
        }
    }

    /// Says how the tool is installed, if it has to be and is not.
    pub(super) fn tell_install(&self) -> Result<()> {
        if let Some(install) = self.installs().filter(|_| paths::which("takt").is_none()) {
            output::line(format_args!(
                "The program `takt` is not in PATH:\n  {install}"
            ))?;
        }
        Ok(())
    }

    /// How the tool is installed that [`Source::runner`] calls, if it has to be.
    fn installs(&self) -> Option<String> {
        let Self::Git { url, rev } = self else {
            return None;
        };
        let rev = rev.as_ref().map(|rev| format!(" --rev {rev}"));
        let rev = rev.unwrap_or_default();
        Some(format!("cargo install --git {url}{rev} xtask --bin takt"))
    }
}

/// A path as text.
///
/// # Errors
///
/// If it is none.
pub(super) fn utf8(path: &Path) -> Result<&str> {
    path.to_str()
        .ok_or_else(|| anyhow!("the name of {} is not UTF-8", path.display()))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;
    use std::process::Command;

    use super::*;

    fn git(url: &str, rev: Option<&str>) -> Result<Source> {
        Source::of(&New {
            path: "demo".into(),
            name: None,
            git: Some(url.into()),
            rev: rev.map(str::to_owned),
            c: false,
            tasks: false,
        })
    }

    #[test]
    fn packages_are_had_from_git_by_what_the_user_says() {
        let dependency = |rev| {
            let source = git("https://host/a \"takt\"", rev).unwrap();
            let text = format!("it = {{ {} }}", source.dependency("board").unwrap());
            let table: serde_json::Value = basic_toml::from_str(&text).unwrap();
            table["it"].clone()
        };
        let expected = serde_json::json!({ "git": "https://host/a \"takt\"" });
        assert_eq!(dependency(None), expected);
        let expected = serde_json::json!({ "git": "https://host/a \"takt\"", "rev": "v1" });
        assert_eq!(dependency(Some("v1")), expected);
    }

    #[test]
    fn what_is_no_address_is_refused() {
        for url in ["../takt", "/takt", "git@host:takt"] {
            let error = git(url, None).err().unwrap();
            assert!(format!("{error:?}").contains("file:///"), "{error:?}");
        }
    }

    /// The tool is found again wherever the user has cargo put what it builds.
    #[test]
    fn the_runner_runs_what_it_has_built() {
        let dir = tempfile::tempdir().unwrap();
        let cargo = dir.path().join("cargo");
        let script = "#!/bin/sh\nto=${CARGO_BUILD_TARGET_DIR:-target}\n\
            while [ $# -gt 0 ]; do [ \"$1\" = --target-dir ] && to=$2; shift; done\n\
            mkdir -p $to/debug && cp /bin/echo $to/debug/xtask\n";
        fs::write(&cargo, script).unwrap();
        fs::set_permissions(&cargo, fs::Permissions::from_mode(0o755)).unwrap();
        let output = Command::new("sh")
            .args(["-c", RUNNER])
            .arg(dir.path())
            .args(["ELF", "--list"])
            .env("PATH", format!("{}:/usr/bin:/bin", dir.path().display()))
            .env("CARGO_BUILD_TARGET_DIR", dir.path().join("elsewhere"))
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        assert_eq!(said, "runner ELF --list\n", "{output:?}");
    }
}
