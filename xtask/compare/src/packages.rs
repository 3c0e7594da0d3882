//! [`Packages`]: the Debian packages that Linux PREEMPT_RT is made of: pinned ones, which are downloaded once, kept,
//! checked each time, and never installed; or those of the user.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, anyhow, ensure};
use serde::{Deserialize, Serialize};

use takt_base::paths::which;
use takt_base::term::{WithHelp, note};
use takt_base::tool;

/// Debian's kernel, busybox, cyclictest and their libraries, in the form of [`fetch`]. The anchors were measured with
/// them. The kernel stands first.
const PINNED: &[&str] = &[
    "3e6b285dae1142e20c9c348f82f1c594a6a9ae1f6abefc661c044118e4857252 debian-security/pool/updates/main/l/linux-signed-amd64/linux-image-6.1.0-48-rt-amd64_6.1.172-1_amd64.deb",
    "3d3fdbe91d4660c873e14b092c213fe81c1da6362daa236eb25d0171eb108744 debian/pool/main/b/busybox/busybox-static_1.35.0-4+deb12u1+b1_amd64.deb",
    "ba4f88f73dbc3ae9055f3c20f4523bfdbaf1ad13ff95e258924f77d20b4fbedf debian/pool/main/g/glibc/libc6_2.36-9+deb12u14_amd64.deb",
    "639e1ab6bd66ead40db8a22c332d7199679fa22db261cac34444eb8eb4c17dda debian/pool/main/n/numactl/libnuma1_2.0.16-1_amd64.deb",
    "2e5a8efcfb731a5774947ce8a4e73adf8e01eaf0378ee6ac3d35e008d59d699e debian/pool/main/r/rt-tests/rt-tests_2.4-1_amd64.deb",
];
/// A moment at which the archive had all that is pinned. A newer list has a newer moment, and so another folder.
const MOMENT: &str = "20260521T000000Z";
/// The archive: where it is, and of which moment if it says so.
const NOW: (&str, &str) = ("http://deb.debian.org/", "");
/// The same, with every version that there ever was; it is slow.
const THEN: (&str, &str) = ("https://snapshot.debian.org/archive/", MOMENT);
/// Comes with every apt. It has apt's proxies, and holds what it gets against a check sum.
const APT_HELPER: &str = "/usr/lib/apt/apt-helper";

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
    /// Where it is from.
    pub from: String,
}

/// All of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packages {
    /// The kernel.
    pub kernel: Package,
    /// busybox, cyclictest and the libraries that it needs.
    pub others: Vec<Package>,
}

impl Packages {
    /// Finds them: those that the user has put into `dir`, if it is the user's, else the pinned ones, which are kept in a folder of
    /// it and fetched if `may_fetch`. `kernel` is a file that the user has.
    ///
    /// # Errors
    ///
    /// If some are missing in the end, with what to fetch.
    pub fn get(dir: &Path, is_users: bool, kernel: Option<&Path>, may_fetch: bool) -> Result<Self> {
        for program in ["dpkg-deb", "tar", "sha256sum"] {
            if which(program).is_none() {
                return Err(anyhow!(
                    "{program} is missing: it unpacks Debian's packages"
                ))
                .help("run this on Debian or Ubuntu");
            }
        }
        let kernel = kernel.map(given).transpose()?;
        if is_users && let Some(found) = Self::put_there(dir, kernel.as_ref())? {
            return Ok(found);
        }
        let pinned = &PINNED[usize::from(kernel.is_some())..];
        let mut others = fetch(pinned, dir, may_fetch)?;
        let kernel = kernel.unwrap_or_else(|| others.remove(0));
        Ok(Self { kernel, others })
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
        others.sort_by(|a, b| a.name.cmp(&b.name));
        let has = |name: &str| others.iter().any(|package| package.name == name);
        if !has("busybox-static") || !has("rt-tests") {
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

    /// All of them, the kernel first.
    pub fn all(&self) -> impl Iterator<Item = &Package> {
        std::iter::once(&self.kernel).chain(&self.others)
    }
}

/// The packages of a list: each line has a SHA-256 and a path in Debian's archive, as it was at one moment. They are kept
/// below `dir`, and fetched if `may_fetch` and they are not there or not what they were. Their check sums say that they are
/// the right ones, wherever they came from.
///
/// # Errors
///
/// If one cannot be had, with where all of them are.
pub fn fetch(list: &[&str], dir: &Path, may_fetch: bool) -> Result<Vec<Package>> {
    let dir = dir.join(MOMENT);
    fetch_from(&[NOW, THEN], list, &dir, may_fetch)
        .map_err(|error| match error.is::<Another>() {
            true => error,
            false => error.context(format!(
                "the packages of Linux PREEMPT_RT are not in {}",
                dir.display()
            )),
        })
        .help(by_hand(list, &dir))
}

/// The same from these places.
fn fetch_from(
    places: &[(&str, &str)],
    list: &[&str],
    dir: &Path,
    may_fetch: bool,
) -> Result<Vec<Package>> {
    let one = |line: &&str| {
        let (sum, path) = line.split_once(' ').context("no line of a list")?;
        let name = path.rsplit('/').next().unwrap_or_default();
        let file = dir.join(name);
        let is_right = |file: &Path| sha256(file).is_ok_and(|is| is == sum);
        if !is_right(&file) {
            ensure!(may_fetch, "{} is missing or changed", file.display());
            fs::create_dir_all(dir).with_context(|| format!("cannot make {}", dir.display()))?;
            note(format_args!("fetching {name}"));
            // Another run may fetch it, too: each has a file of its own until it is whole.
            let whole = dir.join(format!(".{name}.tmp-{}", std::process::id()));
            let fetched = download(places, path, sum, &whole).and_then(|()| {
                ensure!(is_right(&whole), Another(name.to_owned()));
                fs::rename(&whole, &file).with_context(|| format!("cannot name {}", file.display()))
            });
            // What is left of one that was refused.
            let _ = fs::remove_file(&whole);
            fetched?;
        }
        Ok(Package {
            from: "Debian's archive".into(),
            ..given(&file)?
        })
    };
    list.iter().map(one).collect()
}

/// A package that came is not the one that is pinned.
#[derive(Debug)]
struct Another(String);

impl std::error::Error for Another {}

impl fmt::Display for Another {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} is not the package that is pinned", self.0)
    }
}

/// Downloads a file from the first place that has it.
fn download(places: &[(&str, &str)], path: &str, sum: &str, target: &Path) -> Result<()> {
    let mut failures = Vec::new();
    for place in places {
        let mut command = Command::new(APT_HELPER);
        // apt gives its rights away where it can, and then cannot write into our folders.
        for option in [
            "APT::Sandbox::User=root",
            "Acquire::Retries=1",
            "Acquire::http::Timeout=30",
        ] {
            command.args(["-o", option]);
        }
        command.args(["download-file", &url(*place, path)]);
        command.arg(target).arg(format!("SHA256:{sum}"));
        match tool::output(&mut command) {
            Ok(_) => return Ok(()),
            Err(error) => failures.push(format!("{error:#}")),
        }
    }
    let all = failures.join("\n  ");
    // apt's words, whatever the language is: it is told to speak English.
    match all.contains("Hash Sum mismatch") {
        true => Err(Another(format!("{path}\n  {all}\n ")).into()),
        false => Err(anyhow!(all)),
    }
}

/// Where a file of the archive is in a place.
fn url((base, moment): (&str, &str), path: &str) -> String {
    match path.split_once('/') {
        Some((archive, path)) if !moment.is_empty() => format!("{base}{archive}/{moment}/{path}"),
        _ => format!("{base}{path}"),
    }
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
fn by_hand(list: &[&str], dir: &Path) -> String {
    let paths = list.iter().filter_map(|line| line.split_once(' '));
    let urls: String = paths
        .map(|(_, path)| format!("\n    {}", url(THEN, path)))
        .collect();
    format!(
        "on a machine that has the network, fetch these files and put them into {}; or put packages of your own into a \
         folder, and name it: --packages DIR{urls}",
        dir.display()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Makes a package in an archive, and gives its line of a list.
    fn line(archive: &Path, name: &str) -> String {
        let root = archive.join("root");
        fs::create_dir_all(root.join("DEBIAN")).unwrap();
        let control = format!(
            "Package: {name}\nVersion: 1.0\nArchitecture: all\nMaintainer: none\nDescription: fake\n"
        );
        fs::write(root.join("DEBIAN/control"), control).unwrap();
        fs::create_dir_all(archive.join("debian/pool")).unwrap();
        let path = format!("debian/pool/{name}_1.0.deb");
        let file = archive.join(&path);
        let mut build = Command::new("dpkg-deb");
        build.args(["-Znone", "--build"]).arg(&root).arg(&file);
        tool::output(&mut build).unwrap();
        format!("{} {path}", sha256(&file).unwrap())
    }

    #[test]
    fn packages_are_fetched_once_checked_and_fetched_again_if_they_changed() {
        let stage = tempfile::tempdir().unwrap();
        let (archive, kept) = (stage.path().join("archive"), stage.path().join("kept"));
        fs::create_dir(&archive).unwrap();
        let lines = ["kernel", "other"].map(|name| line(&archive, name));
        let list = lines.each_ref().map(|line| &**line);
        let base = |name: &str| format!("copy:{}/", stage.path().join(name).display());
        let (gone, there) = (base("gone"), base("archive"));
        let get = |may_fetch| fetch_from(&[(&gone, ""), (&there, "")], &list, &kept, may_fetch);

        let error = get(false).unwrap_err();
        assert!(error.to_string().contains("kernel_1.0.deb is missing"));
        // The first place does not have them any more.
        let packages = get(true).unwrap();
        let names = packages.iter().map(|package| &*package.name);
        assert_eq!(names.collect::<Vec<_>>(), ["kernel", "other"]);
        assert_eq!(packages[1].from, "Debian's archive");

        fs::rename(&archive, stage.path().join("away")).unwrap();
        assert_eq!(get(true).unwrap(), packages);
        fs::write(&packages[1].file, "tampered").unwrap();
        assert!(get(false).is_err());
        let error = format!("{:#}", get(true).unwrap_err());
        assert!(error.contains("No such file"), "{error}");

        fs::rename(stage.path().join("away"), &archive).unwrap();
        assert_eq!(get(true).unwrap(), packages);
    }

    #[test]
    fn a_package_with_another_checksum_is_refused() {
        let stage = tempfile::tempdir().unwrap();
        let (archive, kept) = (stage.path().join("archive"), stage.path().join("kept"));
        fs::create_dir(&archive).unwrap();
        let line = line(&archive, "other");
        fs::write(archive.join("debian/pool/other_1.0.deb"), "another").unwrap();
        let there = format!("copy:{}/", archive.display());
        let error = fetch_from(&[(&there, "")], &[&line], &kept, true).unwrap_err();
        assert!(format!("{error:#}").contains("SHA256"), "{error:#}");
        assert!(!kept.join("other_1.0.deb").exists());
    }

    #[test]
    fn a_moment_of_the_archive_stands_behind_its_name() {
        let path = "debian-security/pool/x.deb";
        assert_eq!(url(("h/", ""), path), "h/debian-security/pool/x.deb");
        assert_eq!(url(("h/", "T"), path), "h/debian-security/T/pool/x.deb");
    }

    #[test]
    fn a_file_that_is_no_package_is_named() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("busybox-static_1.deb"), "nothing").unwrap();
        let error = Packages::get(dir.path(), true, None, false).unwrap_err();
        assert!(format!("{error:#}").contains("busybox-static_1.deb is no Debian package"));
    }

    #[test]
    fn without_the_network_it_is_said_what_to_fetch() {
        let dir = tempfile::tempdir().unwrap();
        let error = Packages::get(&dir.path().join("none"), false, None, false).unwrap_err();
        let text = format!("{error:#}");
        let rt_tests = "/debian/20260521T000000Z/pool/main/r/rt-tests/rt-tests_2.4-1_amd64.deb";
        assert!(text.contains(rt_tests), "{text}");
        assert!(text.contains("--packages DIR"), "{text}");
    }
}
