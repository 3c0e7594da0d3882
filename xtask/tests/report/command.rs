//! The command `report`: what it refuses, and what it leaves.
#![allow(missing_docs, reason = "a test")]

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::common::{done, run, two_runs, write_folder};

const PROGRAM: &str = env!("CARGO_BIN_EXE_xtask");

/// A program that looks at the history in this folder.
fn command(program: &str, dir: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(program);
    command
        .args(args)
        .env("TAKT_HISTORY", dir)
        .env("NO_COLOR", "1")
        .current_dir(dir);
    command
}

fn report(dir: &Path, args: &[&str]) -> Command {
    let mut command = command(PROGRAM, dir, &["report"]);
    command.args(args);
    command
}

#[test]
fn a_run_is_on_the_page_once() {
    let dir = tempfile::tempdir().unwrap();
    two_runs(dir.path());
    let page = dir.path().join("page.html");
    let (code, _, stderr) = done(report(
        dir.path(),
        &["latest", "latest~1", "latest", "-o", "page.html"],
    ));
    assert_eq!(code, Some(1), "{stderr}");
    assert!(
        stderr.contains("are one run") && stderr.contains("help: name each run once"),
        "{stderr}"
    );
    assert!(!page.exists());
    let (code, _, stderr) = done(report(
        dir.path(),
        &["latest", "latest~1", "-o", "page.html"],
    ));
    assert_eq!(code, Some(0), "{stderr}");
    assert!(fs::read_to_string(&page).unwrap().ends_with("</html>\n"));
}

#[test]
fn a_history_that_is_not_there_is_not_called_empty() {
    let dir = tempfile::tempdir().unwrap();
    let mut missing = report(dir.path(), &["latest"]);
    missing.env("TAKT_HISTORY", dir.path().join("none"));
    let (code, _, stderr) = done(missing);
    assert_eq!(code, Some(1), "{stderr}");
    assert!(stderr.contains("there is no such folder"), "{stderr}");
}

#[test]
fn several_write_one_page_at_once() {
    let dir = tempfile::tempdir().unwrap();
    two_runs(dir.path());
    for _ in 0..10 {
        let start = || {
            report(dir.path(), &["latest", "-o", "page.html"])
                .spawn()
                .unwrap()
        };
        for mut child in [start(), start(), start(), start()] {
            assert!(child.wait().unwrap().success());
        }
        let page = fs::read_to_string(dir.path().join("page.html")).unwrap();
        assert!(page.ends_with("</html>\n"));
    }
    let (code, stdout, _) = done(report(dir.path(), &["latest", "-o", "-"]));
    assert!(code == Some(0) && stdout.ends_with("</html>\n"));
}

#[test]
fn a_run_whose_folder_was_copied_is_one_run() {
    let dir = tempfile::tempdir().unwrap();
    let measured = run("none", "tcg+icount", &[353, 360]);
    for name in ["original", "copy"] {
        write_folder(&dir.path().join(name), &measured);
    }
    let (code, _, stderr) = done(report(dir.path(), &["original", "copy", "-o", "page.html"]));
    assert_eq!(code, Some(1), "{stderr}");
    assert!(stderr.contains("original and copy are one run"), "{stderr}");
}

#[test]
fn on_a_full_disk_nothing_is_left_and_what_was_there_stays() {
    let dir = tempfile::tempdir().unwrap();
    two_runs(dir.path());
    for earlier in [None, Some("an earlier page")] {
        let out = tempfile::tempdir().unwrap();
        let page = out.path().join("page.html");
        if let Some(text) = earlier {
            fs::write(&page, text).unwrap();
        }
        // No file may become larger than this, as where the disk is full.
        let script = "trap '' XFSZ; ulimit -f 8; exec \"$0\" report latest -o \"$1\"";
        let mut limited = command("sh", dir.path(), &["-c", script, PROGRAM]);
        limited.arg(&page);
        let (code, _, stderr) = done(limited);
        assert_eq!(code, Some(1), "{stderr}");
        assert!(stderr.contains("cannot write"), "{stderr}");
        let left: Vec<_> = fs::read_dir(out.path()).unwrap().collect();
        assert_eq!(left.len(), usize::from(earlier.is_some()), "{left:?}");
        assert_eq!(fs::read_to_string(&page).ok().as_deref(), earlier);
    }
}
