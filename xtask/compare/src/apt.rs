//! [`Apt`]: asks apt for packages and downloads them. Never installs anything and never changes the system's own lists:
//! lists that have to be fetched go into a folder of ours, so nobody need be root.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use takt_base::tool;

/// Debian's release whose kernel is taken where the system's own apt has none. The anchors were measured with it.
const RELEASE: &str = "bookworm";

/// A way to ask apt.
#[derive(Clone, Debug)]
pub struct Apt {
    /// Where it gets packages from, for people.
    pub from: &'static str,
    options: Vec<String>,
    /// Whether it has lists of its own, which have to be fetched first.
    needs_update: bool,
}

/// What apt's lists say of a package.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stanza {
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: String,
    /// Checksum of its file.
    pub sha256: String,
    /// Names of the packages that it needs; of alternatives the first.
    pub depends: Vec<String>,
}

impl Apt {
    /// The system's, with the lists that it has.
    #[must_use]
    pub fn system() -> Self {
        Self {
            from: "the system's apt sources",
            options: Vec::new(),
            needs_update: false,
        }
    }

    /// The system's sources with fresh lists, which are kept in `dir`.
    #[must_use]
    pub fn refreshed(dir: &Path) -> Self {
        Self {
            from: "the system's apt sources",
            options: private(&dir.join("system")),
            needs_update: true,
        }
    }

    /// Debian's archive, whatever the system is; its signature is checked by `keyring`.
    ///
    /// # Errors
    ///
    /// If its description cannot be written.
    pub fn debian(dir: &Path, keyring: &Path) -> Result<Self> {
        let dir = dir.join("debian");
        let sources = dir.join("debian.sources");
        fs::create_dir_all(&dir)
            .and_then(|()| fs::write(&sources, debian_sources(keyring)))
            .with_context(|| format!("cannot write {}", sources.display()))?;
        let mut options = private(&dir);
        options.extend([
            format!("Dir::Etc::SourceList={}", sources.display()),
            "Dir::Etc::SourceParts=-".into(),
            "APT::Architecture=amd64".into(),
            "APT::Architectures=amd64".into(),
        ]);
        Ok(Self {
            from: "Debian's archive",
            options,
            needs_update: true,
        })
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        for option in &self.options {
            command.args(["-o", option]);
        }
        // apt gives its rights away where it can, and then cannot write into our folders.
        command.args(["-q", "-o", "APT::Sandbox::User=root"]);
        command.args([
            "-o",
            "Acquire::Retries=1",
            "-o",
            "Acquire::http::Timeout=30",
        ]);
        command
    }

    /// Fetches the lists, if they are ours.
    ///
    /// # Errors
    ///
    /// What apt said. A source that could not be had is none: then its packages are not found.
    pub fn update(&self) -> Result<()> {
        if self.needs_update {
            tool::output(self.command("apt-get").arg("update"))?;
        }
        Ok(())
    }

    /// What the lists say of a package: of the version that would be installed.
    ///
    /// # Errors
    ///
    /// If they do not have it.
    pub fn show(&self, package: &str) -> Result<Stanza> {
        let text =
            tool::output(
                self.command("apt-cache")
                    .args(["show", "--no-all-versions", package]),
            )?;
        parse(&text).with_context(|| format!("apt knows no package {package}"))
    }

    /// Downloads a package into `dir`, and gives its file. apt holds it against its checksum.
    ///
    /// # Errors
    ///
    /// What apt said.
    pub fn download(&self, package: &Stanza, dir: &Path) -> Result<PathBuf> {
        let into = takt_base::scratch::folder_in(dir)?;
        tool::output(
            self.command("apt-get")
                .arg("download")
                .arg(format!("{}={}", package.name, package.version))
                .current_dir(into.path()),
        )?;
        let file = fs::read_dir(into.path())?
            .flatten()
            .map(|entry| entry.path())
            .find(|path| path.extension().is_some_and(|is| is == "deb"))
            .context("apt-get was content, and yet there is no file")?;
        let sum = super::packages::sha256(&file)?;
        ensure!(
            sum == package.sha256,
            "{}: SHA256 is {sum}, and apt's lists say {}",
            package.name,
            package.sha256
        );
        let target = dir.join(file.file_name().context("a file without a name")?);
        fs::rename(&file, &target)?;
        Ok(target)
    }
}

/// Options by which apt keeps its lists in a folder of ours.
fn private(dir: &Path) -> Vec<String> {
    vec![
        format!("Dir::State={}", dir.join("state").display()),
        format!("Dir::Cache={}", dir.join("cache").display()),
        // Nothing is installed as far as this apt knows.
        "Dir::State::status=/dev/null".into(),
        "Acquire::Languages=none".into(),
    ]
}

fn debian_sources(keyring: &Path) -> String {
    let source = |path: &str, suites: &str| {
        format!(
            "Types: deb\nURIs: http://deb.debian.org/{path}\nSuites: {suites}\nComponents: main\nSigned-By: {}\n",
            keyring.display()
        )
    };
    [
        source("debian", &format!("{RELEASE} {RELEASE}-updates")),
        source("debian-security", &format!("{RELEASE}-security")),
    ]
    .join("\n")
}

/// The first stanza of `apt-cache show`.
fn parse(text: &str) -> Option<Stanza> {
    let stanza = text.split("\n\n").find(|part| !part.trim().is_empty())?;
    let field = |name: &str| {
        let mut lines = stanza.lines();
        lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
    };
    Some(Stanza {
        name: field("Package")?.into(),
        version: field("Version")?.into(),
        sha256: field("SHA256")?.into(),
        depends: field("Depends")
            .into_iter()
            .flat_map(|list| list.split(','))
            .filter_map(|one| one.split_whitespace().next())
            .map(|name| name.split(':').next().unwrap_or(name).to_owned())
            .collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stanza_is_read() {
        let text = "Package: rt-tests\nVersion: 2.4-1\nDepends: libc6 (>= 2.34), libnuma1 (>= 2.0.11), python3:any\n\
                    Description: x\n more: y\nSHA256: 2e5a\n\nPackage: rt-tests\nVersion: 1.0\nSHA256: 00\n";
        let stanza = parse(text).unwrap();
        assert_eq!(
            (&*stanza.name, &*stanza.version, &*stanza.sha256),
            ("rt-tests", "2.4-1", "2e5a")
        );
        assert_eq!(stanza.depends, ["libc6", "libnuma1", "python3"]);
        // One without a checksum could not be checked.
        assert!(parse("Package: x\nVersion: 1\n").is_none());
        assert!(parse("\n").is_none());
    }

    #[test]
    fn debians_archive_is_checked_by_its_keyring() {
        let text = debian_sources(Path::new("/k.gpg"));
        assert_eq!(text.matches("Signed-By: /k.gpg").count(), 2);
        assert!(text.contains("Suites: bookworm-security"));
        assert!(!text.to_lowercase().contains("trusted"));
    }
}
