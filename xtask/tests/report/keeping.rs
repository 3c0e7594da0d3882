//! The history's files: killed while one is written, damaged, edited, where nobody may write, and thousands of them.
#![allow(missing_docs, reason = "a test")]

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use crate::common::{
    COMMANDS, collect, done, entry, history, keep_many, run, two_runs, write_folder,
};
use takt_results::history::{Entry, History, Setup, store};

fn read(dir: &Path) -> Vec<Entry> {
    let history = History::open(dir).unwrap();
    let runs = history.runs().iter();
    runs.map(|place| history.entry(place).unwrap()).collect()
}

#[test]
fn runs_come_back_as_they_were_the_latest_first() {
    let dir = tempfile::tempdir().unwrap();
    let mut kept = keep_many(dir.path(), 3);
    kept.reverse();
    assert_eq!(read(dir.path()), kept);
    let all = [1, 1, 2, 70_000, u64::from(u32::MAX) * 4];
    store::write(dir.path(), &entry(&all)).unwrap();
    let run = read(dir.path())[0].run().unwrap();
    assert_eq!(run.distributions[0].thread, collect(&all));
}

/// What a writer that was killed leaves is no run, and the next one removes it.
#[test]
fn half_a_file_is_no_run_and_does_not_stay() {
    let dir = tempfile::tempdir().unwrap();
    keep_many(dir.path(), 1);
    // No process has this number.
    let half = dir.path().join(".0123456789abcdef.tmp-4194305");
    fs::write(&half, "{").unwrap();
    assert_eq!(read(dir.path()).len(), 1);
    store::write(dir.path(), &entry(&[1])).unwrap();
    assert!(!half.exists());
    assert_eq!(read(dir.path()).len(), 2);
}

#[test]
fn what_cannot_be_written_leaves_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let error = store::write(Path::new("/dev/full/history"), &entry(&[1])).unwrap_err();
    assert!(
        format!("{error:#}").contains("/dev/full/history"),
        "{error:#}"
    );
    // A folder where the file should be: it is written, and cannot get its name.
    let entry = entry(&[1]);
    let taken = store::write(dir.path(), &entry).unwrap();
    fs::remove_file(&taken).unwrap();
    fs::create_dir_all(taken.join("x")).unwrap();
    store::write(dir.path(), &entry).unwrap_err();
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
}

/// Changes a file's text.
fn change(path: &Path, was: &str, is: &str) {
    let text = fs::read_to_string(path).unwrap();
    assert!(text.contains(was), "no {was} in {text}");
    fs::write(path, text.replace(was, is)).unwrap();
}

#[test]
fn what_was_edited_is_read_and_said_to_be() {
    let dir = tempfile::tempdir().unwrap();
    let [old, _] = two_runs(dir.path());
    let place = store::RunFile::of(&old);
    let path = History::open(dir.path()).unwrap().path(&place);
    change(&path, "\"load\":\"none\"", "\"load\":\"mix\"");
    let (code, stdout, stderr) = done(history(dir.path(), &["list"]));
    assert_eq!((code, &*stderr), (Some(0), ""));
    let rows: Vec<_> = stdout
        .lines()
        .filter(|row| row.contains("edited"))
        .collect();
    assert!(
        matches!(*rows, [row] if row.contains("passed, edited") && row.contains(" mix ")),
        "{stdout}"
    );
    let (code, stdout, stderr) = done(history(dir.path(), &["show", &old.id]));
    assert_eq!(code, Some(0), "{stderr}");
    assert!(
        stdout.contains("mix") && stdout.contains("passed, edited"),
        "{stdout}"
    );
    assert!(stderr.contains(&format!("run {} was edited", old.id)));
}

#[test]
fn one_damaged_run_leaves_the_others() {
    for (was, is, says) in [
        (
            "\"max\":307",
            "\"max\":306",
            "max 306, hist.csv's greatest value is 307",
        ),
        ("\"kernel_cmdline\"", "\"kernel", "it is no JSON"),
        ("takt.history/2", "takt.history/9", "of a newer Takt"),
        ("\n{", "", "it is no JSON"),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let runs: Vec<_> = [300, 307, 310]
            .into_iter()
            .zip(1..)
            .map(|(ns, nr)| {
                let mut entry = entry(&[ns]);
                entry.finished_unix_ns = nr;
                (store::write(dir.path(), &entry).unwrap(), entry)
            })
            .collect();
        let (path, broken) = &runs[1];
        change(path, was, is);
        let (code, stdout, stderr) = done(history(dir.path(), &["list"]));
        assert_eq!(code, Some(0), "{stderr}");
        assert_eq!(stdout.lines().count(), 1 + 2, "{stdout}");
        let named = format!("left out: run {} is damaged: ", broken.id);
        assert!(
            stderr.contains(&named) && stderr.contains(says) && stderr.contains("; help: "),
            "{is}: {stderr}"
        );
        for (args, code) in [
            (&["plot", "thread-max"][..], 0),
            (&["compare", "latest~2", "latest"], 2),
            (&["show", "latest~1"], 1),
        ] {
            let (found, _, stderr) = done(history(dir.path(), args));
            assert_eq!(found, Some(code), "{args:?}: {stderr}");
        }
    }
}

#[test]
fn what_is_no_run_is_passed_over() {
    let dir = tempfile::tempdir().unwrap();
    let kept = keep_many(dir.path(), 1);
    fs::write(dir.path().join("notes.txt"), "mine").unwrap();
    fs::create_dir(dir.path().join("spool")).unwrap();
    let (code, stdout, stderr) = done(history(dir.path(), &["list"]));
    assert_eq!((code, &*stderr, stdout.lines().count()), (Some(0), "", 2));
    // A pipe by a run's name keeps no one waiting.
    let pipe = dir
        .path()
        .join("00000000000000000009-0123456789abcdef.jsonl");
    assert!(
        Command::new("mkfifo")
            .arg(&pipe)
            .status()
            .unwrap()
            .success()
    );
    let (code, _, stderr) = done(history(dir.path(), &["list"]));
    assert!(
        code == Some(1) && stderr.contains("it is no ordinary file") && stderr.contains("help: "),
        "{stderr}"
    );
    let (code, ..) = done(history(dir.path(), &["show", &kept[0].id]));
    assert_eq!(code, Some(0));
}

/// Where the user who runs the tests, or nobody in place of root, may not write.
#[test]
fn a_history_that_cannot_be_written_is_read() {
    let dir = tempfile::tempdir().unwrap();
    let there = dir.path().join("history");
    two_runs(&there);
    // Nobody has to come as far as this. Another process copies it: what this one has open for writing, a child of
    // another test may still have when it is to be run.
    let program = dir.path().join("xtask");
    let copied = Command::new("cp")
        .arg(env!("CARGO_BIN_EXE_xtask"))
        .arg(&program)
        .status();
    assert!(copied.unwrap().success());
    fs::set_permissions(dir.path(), Permissions::from_mode(0o755)).unwrap();
    fs::set_permissions(&there, Permissions::from_mode(0o555)).unwrap();
    let picture = tempfile::tempdir().unwrap();
    fs::set_permissions(picture.path(), Permissions::from_mode(0o777)).unwrap();
    let run = |args: &[&str]| {
        let mut command = Command::new(&program);
        command
            .arg("history")
            .args(args)
            .env("TAKT_HISTORY", &there)
            .env("NO_COLOR", "1")
            .current_dir(picture.path());
        if dir.path().metadata().unwrap().uid() == 0 {
            command.uid(65534).gid(65534);
        }
        done(command)
    };
    for args in COMMANDS {
        let (code, _, stderr) = run(args);
        assert!(matches!(code, Some(0 | 2)) && stderr.is_empty(), "{stderr}");
    }
    fs::set_permissions(&there, Permissions::from_mode(0o000)).unwrap();
    let (code, _, stderr) = run(&["list"]);
    assert!(
        code == Some(1) && stderr.contains("help: it has to be a folder that you may read"),
        "{stderr}"
    );
    fs::set_permissions(&there, Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn the_oldest_are_removed_with_their_folders_in_runs() {
    let top = tempfile::tempdir().unwrap();
    fs::write(top.path().join("Cargo.lock"), "").unwrap();
    let there = top.path().join("runs/.history");
    let runs = [300, 301, 302, 303, 304].map(|ns| run("none", "tcg+icount", &[ns]));
    // Where each run was put: in runs/, there and replaced by another, elsewhere.
    let folders = ["runs/a", "runs/b", "c", "runs/d", "runs/e"].map(|it| top.path().join(it));
    let kept: Vec<_> = (1..)
        .zip(runs.iter().zip(&folders))
        .map(|(nr, (run, folder))| {
            write_folder(folder, run);
            let mut entry = Entry::new(run, folder, Setup::default()).unwrap();
            entry.finished_unix_ns = nr;
            store::write(&there, &entry).unwrap();
            entry
        })
        .collect();
    write_folder(&folders[1], &runs[0]);
    let prune = |args: &[&str]| {
        let mut command = history(&there, &[&["prune"], args].concat());
        command.env("CARGO_MANIFEST_DIR", top.path());
        done(command)
    };
    let (code, stdout, stderr) = prune(&["--keep", "2", "-n"]);
    assert_eq!(code, Some(0), "{stderr}");
    assert!(
        stdout.ends_with("3 runs would be removed, 2 would be kept\n"),
        "{stdout}"
    );
    assert_eq!(read(&there).len(), 5);
    assert!(folders.iter().all(|it| it.exists()));
    let (code, stdout, stderr) = prune(&["--keep", "2"]);
    assert_eq!(code, Some(0), "{stderr}");
    assert!(
        stdout.contains(&kept[0].id[..8]) && stdout.ends_with("3 runs removed, 2 kept\n"),
        "{stdout}"
    );
    assert_eq!(read(&there), [kept[4].clone(), kept[3].clone()]);
    assert_eq!(
        folders.map(|it| it.exists()),
        [false, true, true, true, true]
    );
    let (_, stdout, _) = prune(&[]);
    assert_eq!(stdout, "0 runs removed, 2 kept\n");
}
