//! Where things are: the workspace, the build directory, the run folders.

use std::env;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use crate::input;

/// The top folder of Takt's own sources. `cargo run` says where this package is; when the binary is called directly, or by
/// the cargo of another package, it is where it was built.
#[must_use]
pub fn workspace() -> PathBuf {
    let top = |package: &Path| {
        package
            .ancestors()
            .find(|dir| is_takt(dir))
            .map(Path::to_path_buf)
    };
    let built = Path::new(env!("CARGO_MANIFEST_DIR"));
    let package = env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from);
    package
        .and_then(|package| top(&package))
        .or_else(|| top(built))
        .unwrap_or_else(|| built.parent().unwrap_or(built).to_path_buf())
}

/// Whether it is the top folder of Takt's sources.
#[must_use]
pub fn is_takt(dir: &Path) -> bool {
    dir.join("board/ld/takt.ld").is_file()
}

/// The top folder of whatever is worked on: Takt itself or an application outside of its sources. What `TAKT_PROJECT` says, else that
/// of the package that cargo runs, otherwise of the current folder; without any it is the current folder.
#[must_use]
pub fn project() -> PathBuf {
    if let Some(dir) = env::var_os("TAKT_PROJECT") {
        return dir.into();
    }
    let package = env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from);
    let here = package
        .or_else(|| env::current_dir().ok())
        .unwrap_or_else(|| ".".into());
    let top = here
        .ancestors()
        .find(|dir| dir.join("Cargo.lock").is_file());
    top.unwrap_or(&here).to_path_buf()
}

/// The cargo that runs us, or the one in `PATH`.
#[must_use]
pub fn cargo() -> OsString {
    env::var_os("CARGO").unwrap_or_else(|| "cargo".into())
}

/// Where cargo puts what it builds for the host.
#[must_use]
pub fn target() -> PathBuf {
    let target = env::var_os("CARGO_TARGET_DIR").map(PathBuf::from);
    workspace().join(target.unwrap_or_else(|| PathBuf::from("target")))
}

/// Where the packages of Linux PREEMPT_RT are kept.
#[must_use]
pub fn linux_rt() -> PathBuf {
    target().join("linux-rt")
}

/// Where the images of media are kept: `TAKT_MEDIA`, or a folder of the user's data. Without a home they are beside what is
/// built.
#[must_use]
pub fn media() -> PathBuf {
    media_by(|name| env::var_os(name).map(PathBuf::from)).unwrap_or_else(|| target().join("media"))
}

/// The same by these variables of the environment.
///
/// Source: XDG base directory specification 0.8: a relative path is to be ignored.
fn media_by(variable: impl Fn(&str) -> Option<PathBuf>) -> Option<PathBuf> {
    let absolute = |name| variable(name).filter(|dir| dir.is_absolute());
    let data =
        || absolute("XDG_DATA_HOME").or_else(|| Some(absolute("HOME")?.join(".local/share")));
    variable("TAKT_MEDIA")
        .filter(|dir| !dir.as_os_str().is_empty())
        .or_else(|| Some(data()?.join("takt/media")))
}

/// Where run folders are made unless the user says otherwise.
#[must_use]
pub fn runs() -> PathBuf {
    project().join("runs")
}

/// Where the history of runs is kept: what the user says, `TAKT_HISTORY`, or a hidden folder among the runs.
#[must_use]
pub fn history(given: Option<&Path>) -> PathBuf {
    named_history(given).unwrap_or_else(|| runs().join(".history"))
}

/// Whether the user says where the history is.
#[must_use]
pub fn is_history_named(given: Option<&Path>) -> bool {
    named_history(given).is_some()
}

fn named_history(given: Option<&Path>) -> Option<PathBuf> {
    let variable = || env::var_os("TAKT_HISTORY").filter(|dir| !dir.is_empty());
    given
        .map(Path::to_path_buf)
        .or_else(|| variable().map(PathBuf::from))
}

/// A path for people to read: from the current folder, if it lies there.
#[must_use]
pub fn shown(path: &Path) -> std::path::Display<'_> {
    let here = env::current_dir();
    here.as_ref()
        .ok()
        .and_then(|here| path.strip_prefix(here).ok())
        .filter(|rest| !rest.as_os_str().is_empty())
        .unwrap_or(path)
        .display()
}

/// A source file as people are told of it: below the project's folder, Takt's sources or a repository that cargo has from git
/// without their names, otherwise as it is.
#[must_use]
pub fn shown_source(file: &str) -> &str {
    let roots = [project(), workspace()];
    let inside = |root: &PathBuf| Path::new(file).strip_prefix(root).ok()?.to_str();
    roots
        .iter()
        .find_map(inside)
        .or_else(|| in_checkout(file))
        .unwrap_or(file)
}

/// What is behind cargo's folder of a repository at one commit.
fn in_checkout(file: &str) -> Option<&str> {
    let (_, inside) = file.split_once("/git/checkouts/")?;
    inside.splitn(3, '/').nth(2)
}

/// Whether there is no process of this number, so that what bears its name is left over.
#[must_use]
pub fn is_process_gone(pid: u32) -> bool {
    !Path::new(&format!("/proc/{pid}")).exists()
}

/// Marks in the names of what is there only while a process is at work; behind them comes its number.
const PASSING: [&str; 2] = [".tmp-", ".old-"];

/// Behind a name of what is there only while this process is at work: a mark, the process's number and where that number is its,
/// since several machines and containers may work in one folder.
#[must_use]
pub fn passing_mark() -> String {
    format!("{}{}@{}", PASSING[0], std::process::id(), machine())
}

/// Where processes' numbers are as they are to us: the machine's name and its namespace of processes.
///
/// Source: namespaces(7), pid_namespaces(7).
fn machine() -> &'static str {
    static NAME: OnceLock<String> = OnceLock::new();
    NAME.get_or_init(|| {
        let name = input::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        let namespace = fs::metadata("/proc/self/ns/pid").map_or(0, |it| it.ino());
        format!("{}.{namespace}", name.trim().replace('/', "_"))
    })
}

/// Whether a hidden name has, behind a mark, the number of a process of this machine that is no more: what bears it was left
/// over.
#[must_use]
pub fn is_left_over(name: &OsStr) -> bool {
    let Some(name) = name.to_str().filter(|name| name.starts_with('.')) else {
        return false;
    };
    let pid = |mark: &&str| {
        let whose = name.rsplit_once(mark)?.1;
        let (pid, on) = whose.split_once('@').unwrap_or((whose, machine()));
        pid.parse().ok().filter(|_| on == machine())
    };
    PASSING.iter().find_map(pid).is_some_and(is_process_gone)
}

/// Removes what killed processes left over in a folder. What cannot be removed is for the next to try.
pub fn remove_left_over(parent: &Path) {
    remove_left_over_of(parent, ".");
}

/// The same of what has names that begin so, in a folder where others have theirs as well.
pub fn remove_left_over_of(parent: &Path, prefix: &str) {
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let is_meant = name.as_encoded_bytes().starts_with(prefix.as_bytes());
        if is_meant && is_left_over(&name) {
            let path = entry.path();
            let _ = if entry.file_type().is_ok_and(|it| it.is_dir()) {
                fs::remove_dir_all(path)
            } else {
                fs::remove_file(path)
            };
        }
    }
}

/// Finds a program in `PATH`.
#[must_use]
pub fn which(program: &str) -> Option<PathBuf> {
    if program.contains('/') {
        let path = PathBuf::from(program);
        return is_executable(&path).then_some(path);
    }
    let dirs = env::var_os("PATH")?;
    env::split_paths(&dirs)
        .map(|dir| dir.join(program))
        .find(|path| is_executable(path))
}

fn is_executable(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    path.metadata()
        .is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_of_media_are_kept_among_the_users_data() {
        let by = |set: &[(&str, &str)]| {
            let value = |name: &str| set.iter().find(|it| it.0 == name);
            media_by(|name| value(name).map(|it| it.1.into()))
        };
        let home = ("HOME", "/home/a");
        for (set, expected) in [
            (&[home][..], Some("/home/a/.local/share/takt/media")),
            (&[home, ("XDG_DATA_HOME", "/d")], Some("/d/takt/media")),
            (
                &[home, ("XDG_DATA_HOME", "d"), ("TAKT_MEDIA", "")],
                Some("/home/a/.local/share/takt/media"),
            ),
            (&[home, ("TAKT_MEDIA", "kept")], Some("kept")),
            (&[("HOME", "")], None),
            (&[], None),
        ] {
            assert_eq!(by(set).as_deref(), expected.map(Path::new), "{set:?}");
        }
    }

    #[test]
    fn only_what_this_machines_processes_left_is_left_over() {
        for (name, expected) in [
            (".a.tmp-4294967295".to_owned(), true),
            (format!(".a.old-4294967295@{}", machine()), true),
            (".a.tmp-4294967295@elsewhere".into(), false),
            // The same machine, another container.
            (format!(".a.tmp-4294967295@{}0", machine()), false),
            (format!(".a{}", passing_mark()), false),
            ("a.tmp-4294967295".into(), false),
        ] {
            assert_eq!(is_left_over(OsStr::new(&name)), expected, "{name}");
        }
    }

    #[test]
    fn source_files_are_shown_without_where_they_are_kept() {
        let own = workspace().join("board/src/start.rs");
        assert_eq!(shown_source(own.to_str().unwrap()), "board/src/start.rs");
        let kept = "/cargo/git/checkouts/takt-c774d914f8a7c956/7bfccdf/board/src/start.rs";
        assert_eq!(shown_source(kept), "board/src/start.rs");
        assert_eq!(shown_source("/a/b.rs"), "/a/b.rs");
    }
}
