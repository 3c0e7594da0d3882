//! [`Packages`]: the Debian packages that Linux PREEMPT_RT is made of. They are downloaded once, kept, checked each
//! time, and never installed.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, anyhow, bail};
use serde::{Deserialize, Serialize};

use super::apt::{Apt, Stanza};
use takt_base::input;
use takt_base::output;
use takt_base::paths::which;
use takt_base::term::{WithHelp, note};
use takt_base::tool;

/// The package that names the current kernel.
const META: &str = "linux-image-rt-amd64";
const BUSYBOX: &str = "busybox-static";
const RT_TESTS: &str = "rt-tests";
const KEYRING: &str = "debian-archive-keyring";
/// The file that says what was downloaded.
const MANIFEST: &str = "packages.json";

/// A package that is here.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Package {
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: String,
    /// Checksum of its file.
    pub sha256: String,
    /// Its file.
    pub file: PathBuf,
    /// Where it is from, and so who vouches for the checksum.
    pub from: String,
}

/// All of them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Packages {
    /// The kernel.
    pub kernel: Package,
    /// busybox, cyclictest and the libraries that it needs.
    pub others: Vec<Package>,
}

impl Packages {
    /// Finds them: in `dir`, where an earlier call has left them or the user has put them, else by apt, if
    /// `may_fetch`. `kernel` is a file that the user has.
    ///
    /// # Errors
    ///
    /// If some are missing in the end, with what to fetch.
    pub fn get(dir: &Path, kernel: Option<&Path>, may_fetch: bool) -> Result<Self> {
        for program in ["dpkg-deb", "tar", "sha256sum"] {
            if which(program).is_none() {
                return Err(anyhow!(
                    "{program} is missing: it unpacks Debian's packages"
                ))
                .help("run this on Debian or Ubuntu");
            }
        }
        let kernel = kernel.map(given).transpose()?;
        if let Some(found) = Self::kept(dir, kernel.as_ref())? {
            return Ok(found);
        }
        let missing = || {
            anyhow!(
                "the packages of Linux PREEMPT_RT are not in {}",
                dir.display()
            )
        };
        if !may_fetch {
            return Err(missing()).help(by_hand(dir));
        }
        Self::fetch(dir, kernel.as_ref())
            .map_err(|error| error.context(missing()))
            .help(by_hand(dir))
    }

    /// What is in `dir`, if it is all there.
    fn kept(dir: &Path, kernel: Option<&Package>) -> Result<Option<Self>> {
        if let Ok(text) = input::read_to_string(dir.join(MANIFEST)) {
            let packages: Self = serde_json::from_str(&text)
                .with_context(|| format!("{MANIFEST} is damaged"))
                .help(format!("remove {}; it is fetched again", dir.display()))?;
            let packages = packages.inside(dir);
            if packages.is_whole() {
                return Ok(Some(packages.with_kernel(kernel)));
            }
            note(format_args!(
                "the packages in {} are not what was fetched; they are fetched again",
                dir.display()
            ));
            return Ok(None);
        }
        Self::put_there(dir, kernel)
    }

    /// What the user has put into `dir`: files by their packages' names.
    fn put_there(dir: &Path, kernel: Option<&Package>) -> Result<Option<Self>> {
        let mut kernels = Vec::new();
        let mut others = Vec::new();
        for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.extension().is_none_or(|is| is != "deb") {
                continue;
            }
            let package = given(&path)?;
            if package.name.starts_with("linux-image-") {
                kernels.push(package);
            } else {
                others.push(package);
            }
        }
        // The package META has a name and nothing else.
        kernels.retain(|package| package.name != META);
        others.sort_by(|a, b| a.name.cmp(&b.name));
        let has = |name: &str| others.iter().any(|package| package.name == name);
        if !has(BUSYBOX) || !has(RT_TESTS) {
            return Ok(None);
        }
        let kernel = match (kernel, &*kernels) {
            (Some(kernel), _) => kernel.clone(),
            (None, [one]) => one.clone(),
            (None, []) => return Ok(None),
            (None, [one, other, ..]) => {
                let names = format!("{} and {}", one.file.display(), other.file.display());
                return Err(anyhow!("there are several kernels: {names}"))
                    .help("say which: --kernel FILE.deb");
            }
        };
        Ok(Some(Self { kernel, others }))
    }

    /// Downloads them: by the system's apt, by the same with fresh lists, from Debian's archive; all of them from the
    /// same place, since they belong together.
    fn fetch(dir: &Path, kernel: Option<&Package>) -> Result<Self> {
        if which("apt-get").is_none() {
            bail!("there is no apt-get to fetch them with");
        }
        fs::create_dir_all(dir).with_context(|| format!("cannot make {}", dir.display()))?;
        let dir = &std::path::absolute(dir)?;
        let lists = dir.join("apt");
        let system = Apt::system();
        let refreshed = Apt::refreshed(&lists);
        let mut failures = Vec::new();
        for apt in [&system, &refreshed] {
            match Self::fetch_by(apt, dir, kernel) {
                Ok(packages) => return Ok(packages),
                Err(error) => failures.push(format!("{}: {error:#}", apt.from)),
            }
        }
        let from_debian = || {
            let keyring = keyring(&[&system, &refreshed], dir)?;
            Self::fetch_by(&Apt::debian(&lists, &keyring)?, dir, kernel)
        };
        from_debian().map_err(|error| {
            failures.push(format!("Debian's archive: {error:#}"));
            failures.dedup();
            anyhow!(failures.join("\n  "))
        })
    }

    fn fetch_by(apt: &Apt, dir: &Path, kernel: Option<&Package>) -> Result<Self> {
        apt.update()?;
        let rt_tests = apt.show(RT_TESTS)?;
        let libraries = rt_tests
            .depends
            .iter()
            .filter(|name| name.starts_with("lib"));
        let mut wanted = libraries
            .map(|name| apt.show(name))
            .collect::<Result<Vec<_>>>()?;
        wanted.extend([apt.show(BUSYBOX)?, rt_tests]);
        let kernel = match kernel {
            Some(kernel) => kernel.clone(),
            None => download(apt, &current_kernel(apt)?, dir)?,
        };
        let others = wanted
            .iter()
            .map(|package| download(apt, package, dir))
            .collect::<Result<_>>()?;
        let packages = Self { kernel, others };
        packages.keep(dir)?;
        Ok(packages)
    }

    /// Writes down what was downloaded, with names inside the folder.
    fn keep(&self, dir: &Path) -> Result<()> {
        let mut portable = self.clone();
        for package in portable.all_mut() {
            if let Ok(name) = package.file.strip_prefix(dir) {
                package.file = name.to_owned();
            }
        }
        let text = output::json_pretty(&portable)?;
        fs::write(dir.join(MANIFEST), text).with_context(|| format!("cannot write {MANIFEST}"))
    }

    /// With the files' names from here.
    fn inside(mut self, dir: &Path) -> Self {
        for package in self.all_mut() {
            package.file = dir.join(&package.file);
        }
        self
    }

    fn with_kernel(mut self, kernel: Option<&Package>) -> Self {
        if let Some(kernel) = kernel {
            self.kernel = kernel.clone();
        }
        self
    }

    fn all_mut(&mut self) -> impl Iterator<Item = &mut Package> {
        std::iter::once(&mut self.kernel).chain(&mut self.others)
    }

    /// All of them, the kernel first.
    pub fn all(&self) -> impl Iterator<Item = &Package> {
        std::iter::once(&self.kernel).chain(&self.others)
    }

    /// Whether each file is still what was downloaded.
    fn is_whole(&self) -> bool {
        self.all()
            .all(|package| sha256(&package.file).is_ok_and(|sum| sum == package.sha256))
    }
}

/// The kernel that the package META names.
fn current_kernel(apt: &Apt) -> Result<Stanza> {
    let meta = apt.show(META)?;
    let name = meta
        .depends
        .iter()
        .find(|name| name.starts_with("linux-image-"))
        .with_context(|| format!("{META} names no kernel"))?;
    apt.show(name)
}

fn download(apt: &Apt, package: &Stanza, dir: &Path) -> Result<Package> {
    let (name, version) = (&package.name, &package.version);
    note(format_args!("fetching {name} {version} from {}", apt.from));
    Ok(Package {
        name: name.clone(),
        version: version.clone(),
        sha256: package.sha256.clone(),
        file: apt.download(package, dir)?,
        from: apt.from.into(),
    })
}

/// The keys of Debian's archive: the system's, or those that the system's own archive vouches for.
fn keyring(apts: &[&Apt], dir: &Path) -> Result<PathBuf> {
    let place = "usr/share/keyrings/debian-archive-keyring.gpg";
    let installed = Path::new("/").join(place);
    if installed.exists() {
        return Ok(installed);
    }
    let mut last = anyhow!("no apt");
    for apt in apts {
        let found = apt
            .show(KEYRING)
            .and_then(|package| apt.download(&package, dir));
        match found {
            Ok(file) => {
                let into = dir.join("apt/keyring");
                unpack(&file, &into)?;
                return Ok(into.join(place));
            }
            Err(error) => last = error,
        }
    }
    Err(last.context("its signature cannot be checked without the package debian-archive-keyring"))
}

/// A package that the user has.
fn given(file: &Path) -> Result<Package> {
    let field = |name: &str| -> Result<String> {
        let text = tool::output(Command::new("dpkg-deb").arg("-f").arg(file).arg(name))
            .with_context(|| format!("{} is no Debian package", file.display()))?;
        Ok(text.trim().to_owned())
    };
    Ok(Package {
        name: field("Package")?,
        version: field("Version")?,
        sha256: sha256(file)?,
        file: file.to_owned(),
        from: "a file of the user's".into(),
    })
}

/// Unpacks a package into a folder.
///
/// # Errors
///
/// If it is none, or the folder cannot be written.
pub fn unpack(file: &Path, into: &Path) -> Result<()> {
    fs::create_dir_all(into).with_context(|| format!("cannot make {}", into.display()))?;
    tool::output(Command::new("dpkg-deb").arg("-x").arg(file).arg(into))
        .with_context(|| format!("cannot unpack {}", file.display()))
        .map(drop)
}

/// The SHA-256 of a file.
///
/// # Errors
///
/// If it cannot be read.
pub fn sha256(file: &Path) -> Result<String> {
    let text = tool::output(Command::new("sha256sum").arg("--").arg(file))?;
    // A name that had to be quoted is told by a backslash in front of the sum.
    let sum = text.trim_start_matches('\\').split_whitespace().next();
    sum.map(str::to_owned).context("sha256sum says nothing")
}

/// What to do where nothing can be fetched.
fn by_hand(dir: &Path) -> String {
    format!(
        "on a Debian machine that has the network, type\n    \
         apt-get download {BUSYBOX} {RT_TESTS} libc6 libnuma1 $(apt-cache depends {META} | sed -n 's/.*Depends: //p')\n  \
         and put the files into {}, or name their folder: --packages DIR",
        dir.display()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn package(dir: &Path, name: &str) -> Package {
        let file = dir.join(format!("{name}.deb"));
        fs::write(&file, name).unwrap();
        Package {
            name: name.into(),
            version: "1".into(),
            sha256: sha256(&file).unwrap(),
            file,
            from: "a test".into(),
        }
    }

    #[test]
    fn what_was_kept_is_found_and_checked() {
        let dir = tempfile::tempdir().unwrap();
        let packages = Packages {
            kernel: package(dir.path(), "kernel"),
            others: vec![package(dir.path(), "other")],
        };
        packages.keep(dir.path()).unwrap();
        let text = fs::read_to_string(dir.path().join(MANIFEST)).unwrap();
        assert!(text.contains("\"kernel.deb\""), "{text}");
        assert_eq!(Packages::kept(dir.path(), None).unwrap(), Some(packages));

        fs::write(dir.path().join("other.deb"), "tampered").unwrap();
        assert_eq!(Packages::kept(dir.path(), None).unwrap(), None);
        fs::write(dir.path().join(MANIFEST), "{").unwrap();
        assert!(Packages::kept(dir.path(), None).is_err());
    }

    #[test]
    fn a_file_that_is_no_package_is_named() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("busybox-static_1.deb"), "nothing").unwrap();
        let error = Packages::get(dir.path(), None, false).unwrap_err();
        assert!(format!("{error:#}").contains("busybox-static_1.deb is no Debian package"));
    }

    #[test]
    fn without_the_network_it_is_said_what_to_fetch() {
        let dir = tempfile::tempdir().unwrap();
        let error = Packages::get(&dir.path().join("none"), None, false).unwrap_err();
        let text = format!("{error:#}");
        assert!(
            text.contains("apt-get download busybox-static rt-tests"),
            "{text}"
        );
        assert!(text.contains("--packages DIR"), "{text}");
    }
}
