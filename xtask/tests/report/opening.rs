//! Looking at a history: it makes nothing, and what is wrong is said with what to do.
#![allow(missing_docs, reason = "a test")]

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::common::{COMMANDS, done, history, two_runs};

fn is_empty(dir: &Path) -> bool {
    fs::read_dir(dir).unwrap().next().is_none()
}

#[test]
fn a_named_history_that_is_not_there_is_an_error_and_is_not_made() {
    let dir = tempfile::tempdir().unwrap();
    let nowhere = dir.path().join("nowhere/history");
    for args in COMMANDS {
        let mut by_flag = history(dir.path(), args);
        by_flag.arg("--history").arg(&nowhere);
        let mut by_variable = history(dir.path(), args);
        by_variable.env("TAKT_HISTORY", &nowhere);
        for command in [by_flag, by_variable] {
            let (code, stdout, stderr) = done(command);
            assert_eq!((code, &*stdout), (Some(1), ""), "{stderr}");
            assert!(
                stderr.contains("there is no history in") && stderr.contains("nowhere"),
                "{stderr}"
            );
            assert!(stderr.contains("help: a run begins one"), "{stderr}");
            assert!(is_empty(dir.path()), "something was made by {args:?}");
        }
    }
    fs::write(dir.path().join("file"), "").unwrap();
    let mut list = history(dir.path(), &["list"]);
    list.env("TAKT_HISTORY", dir.path().join("file"));
    let (code, _, stderr) = done(list);
    assert!(
        code == Some(1) && stderr.contains("it is no folder"),
        "{stderr}"
    );
}

#[test]
fn where_no_run_was_kept_there_are_none_yet_and_nothing_is_made() {
    let dir = tempfile::tempdir().unwrap();
    let top = tempfile::tempdir().unwrap();
    fs::write(top.path().join("Cargo.lock"), "").unwrap();
    let here = |args: &[&str]| history(dir.path(), args);
    // The folder that it is in when nobody names one.
    let usual = |args: &[&str]| {
        let mut command = history(dir.path(), args);
        command
            .env_remove("TAKT_HISTORY")
            .env("CARGO_MANIFEST_DIR", top.path());
        command
    };
    for in_history in [&here as &dyn Fn(&[&str]) -> Command, &usual] {
        let (code, stdout, stderr) = done(in_history(&["list"]));
        assert_eq!(code, Some(0), "{stderr}");
        assert!(
            stdout.contains("no runs yet; cargo xtask latency-run makes one"),
            "{stdout}"
        );
        let (code, stdout, _) = done(in_history(&["list", "--json"]));
        assert!(
            code == Some(0) && stdout.contains("\"runs\": []"),
            "{stdout}"
        );
        for args in &COMMANDS[1..] {
            let (code, _, stderr) = done(in_history(args));
            assert_eq!(code, Some(1), "{stderr}");
            assert!(
                stderr.contains("the history is empty") && stderr.contains("help: make a run"),
                "{stderr}"
            );
        }
    }
    assert!(is_empty(dir.path()) && !top.path().join("runs").exists());
}

#[test]
fn a_filter_that_lets_nothing_through_is_no_empty_history() {
    let dir = tempfile::tempdir().unwrap();
    two_runs(dir.path());
    let (code, stdout, _) = done(history(dir.path(), &["list", "--config", "load=mix"]));
    assert_eq!(
        (code, &*stdout),
        (Some(0), "no runs of such a configuration\n")
    );
}

#[test]
fn every_refused_name_or_number_says_what_to_do() {
    let dir = tempfile::tempdir().unwrap();
    two_runs(dir.path());
    let svg = &["plot", "thread-max", "-o", "x.pdf"];
    for (args, words) in [
        (
            &["show", "latest~99"] as &[&str],
            "help: the first one is latest~1",
        ),
        (
            &["show", ""],
            "help: a run is named by the first digits of its id",
        ),
        (&["compare", "", "latest"], "help: a run is named by"),
        (&["show", "zz"], "help: a run is named by"),
        (
            &["list", "--config", "load"],
            "help: as in --config load=mix",
        ),
        (&["merge", "latest", "latest"], "help: name each run once"),
        (svg, "help: -o x.svg"),
    ] {
        let (code, _, stderr) = done(history(dir.path(), args));
        assert_eq!(code, Some(1), "{args:?}: {stderr}");
        assert!(stderr.contains(words), "{args:?}: no `{words}` in {stderr}");
    }
    for args in [&["list", "-n", "0"] as &[&str], &["merge", "latest"]] {
        let (code, stdout, stderr) = done(history(dir.path(), args));
        assert_eq!((code, &*stdout), (Some(1), ""), "{stderr}");
        assert!(
            stderr.contains("0 is not in 1..") || stderr.contains("2 values required"),
            "{stderr}"
        );
    }
}
