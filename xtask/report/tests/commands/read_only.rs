//! A history where nobody may write: it can be read.
#![allow(missing_docs, reason = "a test")]

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use crate::common::{COMMANDS, done, entry, two_runs};
use takt_report::history::database::FILE;
use xtask::history::spool;

/// A folder in which the user who runs the tests, or nobody in place of root, may not write.
struct ReadOnly {
    dir: tempfile::TempDir,
    is_root: bool,
}

impl ReadOnly {
    /// With what this puts there.
    fn new(fill: impl FnOnce(&Path)) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let made = Self {
            is_root: dir.path().metadata().unwrap().uid() == 0,
            dir,
        };
        let history = made.history();
        fs::create_dir(&history).unwrap();
        fill(&history);
        // Nobody has to come as far as this. Another process copies it: what this one has open for writing, a child of
        // another test may still have when it is to be run.
        let copied = Command::new("cp")
            .arg(env!("CARGO_BIN_EXE_takt-report"))
            .arg(made.program())
            .status();
        assert!(copied.unwrap().success());
        fs::set_permissions(made.dir.path(), Permissions::from_mode(0o755)).unwrap();
        made.permit(0o555, 0o444);
        made
    }

    fn history(&self) -> std::path::PathBuf {
        self.dir.path().join("history")
    }

    fn program(&self) -> std::path::PathBuf {
        self.dir.path().join("takt-report")
    }

    fn permit(&self, folder: u32, file: u32) {
        let path = self.history().join(FILE);
        if path.exists() {
            fs::set_permissions(path, Permissions::from_mode(file)).unwrap();
        }
        fs::set_permissions(self.history(), Permissions::from_mode(folder)).unwrap();
    }

    fn run(&self, args: &[&str]) -> (Option<i32>, String, String) {
        let mut command = Command::new(self.program());
        command
            .arg("history")
            .args(args)
            .env("TAKT_HISTORY", self.history())
            .env("NO_COLOR", "1")
            .current_dir("/");
        if self.is_root {
            command.uid(65534).gid(65534);
        }
        done(command)
    }
}

impl Drop for ReadOnly {
    fn drop(&mut self) {
        self.permit(0o755, 0o644);
    }
}

#[test]
fn what_nobody_may_write_can_be_read() {
    let there = ReadOnly::new(|dir| drop(two_runs(dir)));
    let picture = tempfile::tempdir().unwrap();
    fs::set_permissions(picture.path(), Permissions::from_mode(0o777)).unwrap();
    let picture = picture.path().join("x.svg");
    // The folder alone, the file alone, both.
    for (folder, file) in [(0o555, 0o666), (0o755, 0o444), (0o555, 0o444)] {
        there.permit(folder, file);
        let (code, stdout, stderr) = there.run(&["list"]);
        assert_eq!((code, &*stderr), (Some(0), ""), "{stdout}");
        assert_eq!(stdout.lines().count(), 3, "{stdout}");
        for args in &COMMANDS[1..4] {
            let (code, _, stderr) = there.run(args);
            assert!(matches!(code, Some(0 | 2)) && stderr.is_empty(), "{stderr}");
        }
        let (code, _, stderr) = there.run(&["plot", "thread-max", "-o", picture.to_str().unwrap()]);
        assert_eq!(code, Some(0), "{stderr}");
    }
}

#[test]
fn what_cannot_be_taken_in_is_left_out_and_said_to_be() {
    let there = ReadOnly::new(|dir| {
        two_runs(dir);
        spool::write(dir, &entry(&[1])).unwrap();
    });
    for (folder, file) in [(0o555, 0o666), (0o555, 0o444)] {
        there.permit(folder, file);
        let (code, stdout, stderr) = there.run(&["list"]);
        assert_eq!((code, stdout.lines().count()), (Some(0), 3), "{stderr}");
        assert!(
            stderr.contains("cannot be written") && stderr.contains("left out here: 1 run\n"),
            "{stderr}"
        );
    }
    let there = ReadOnly::new(|dir| drop(spool::write(dir, &entry(&[1])).unwrap()));
    let (code, stdout, stderr) = there.run(&["list"]);
    assert!(
        code == Some(0)
            && stdout.contains("no runs yet")
            && stderr.contains("left out here: 1 run\n"),
        "{stdout}{stderr}"
    );
}

#[test]
fn what_has_to_be_written_and_cannot_says_so() {
    let there = ReadOnly::new(|dir| {
        two_runs(dir);
        let connection = rusqlite::Connection::open(dir.join(FILE)).unwrap();
        connection
            .execute_batch(
                "DROP INDEX runs_by_configuration; DROP INDEX runs_by_time;
                 ALTER TABLE runs DROP COLUMN configuration; ALTER TABLE runs DROP COLUMN finished;
                 PRAGMA user_version = 1;",
            )
            .unwrap();
    });
    let (code, _, stderr) = there.run(&["list"]);
    assert_eq!(code, Some(1), "{stderr}");
    for words in [
        "from version 1 to version 2",
        "readonly",
        "help: copy its folder",
    ] {
        assert!(stderr.contains(words), "no `{words}` in {stderr}");
    }
    assert!(!stderr.contains("move it away"), "{stderr}");
    // Nor may it be read.
    there.permit(0o755, 0o000);
    let (code, _, stderr) = there.run(&["list"]);
    assert!(
        code == Some(1) && stderr.contains("help: it has to be a file that you may read"),
        "{stderr}"
    );
}

/// On a file system of its own, which is full or may only be read. Where the kernel lets nobody mount, what a full one
/// says is tested with SQLite alone (`advice`).
#[test]
fn a_full_file_system_and_a_read_only_one_are_told_apart() {
    let dir = tempfile::tempdir().unwrap();
    two_runs(dir.path());
    let script = r#"
        set -e
        mount -t tmpfs -o size=256k takt "$1"
        cp -r "$2/." "$1"
        cp "$3" "$1/spool"
        echo mounted
        export TAKT_HISTORY="$1" NO_COLOR=1
        dd if=/dev/zero of="$1/filled" bs=4k 2>/dev/null || true
        "$0" history list >&2 || echo "full: $?"
        mount -o remount,ro "$1"
        "$0" history list
    "#;
    let big = tempfile::tempdir().unwrap();
    let run = spool::write(big.path(), &entry(&(0..5_000).collect::<Vec<_>>())).unwrap();
    let place = tempfile::tempdir().unwrap();
    let mut unshared = Command::new("unshare");
    unshared
        .args(["--map-root-user", "--mount", "sh", "-c", script])
        .arg(env!("CARGO_BIN_EXE_takt-report"))
        .args([place.path(), dir.path(), &run]);
    let (code, stdout, stderr) = done(unshared);
    if !stdout.starts_with("mounted") {
        eprintln!("nothing can be mounted here: {stderr}");
        return;
    }
    assert_eq!(code, Some(0), "{stderr}");
    assert!(stdout.contains("full: 1"), "{stdout}{stderr}");
    for words in [
        "disk is full",
        "help: make room on its file system",
        "still in the spool",
    ] {
        assert!(stderr.contains(words), "no `{words}` in {stderr}");
    }
    assert!(!stderr.contains("move it away"), "{stderr}");
    assert_eq!(stdout.lines().count(), 5, "{stdout}");
    assert!(stderr.contains("left out here: 1 run\n"), "{stderr}");
}
