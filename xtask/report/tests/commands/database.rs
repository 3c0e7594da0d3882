//! The database of runs: killed while it is written, on a full disk, filled from the spool.
#![allow(missing_docs, reason = "a test")]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use crate::common::{collect, done, entry, history, spool_many};
use rusqlite::Connection;
use takt_report::history::Database;
use takt_report::history::database::FILE;
use xtask::history::{Entry, spool};
use xtask::report::csv;

fn ids(entries: &[Entry]) -> BTreeSet<&str> {
    entries.iter().map(|entry| entry.id.as_str()).collect()
}

/// Runs in the database file, as SQLite itself counts them.
fn count(dir: &Path) -> i64 {
    let Ok(connection) = Connection::open(dir.join(FILE)) else {
        return 0;
    };
    connection
        .query_row("SELECT count(*) FROM runs", [], |row| row.get(0))
        .unwrap_or(0)
}

#[test]
fn what_is_spooled_is_in_the_database_once() {
    let dir = tempfile::tempdir().unwrap();
    let entries = spool_many(dir.path(), 3);
    let kept = spool::files(dir.path()).unwrap();
    let copies: Vec<_> = kept.iter().map(|path| fs::read(path).unwrap()).collect();
    let database = Database::open(dir.path()).unwrap();
    assert_eq!(database.ids().unwrap().len(), 3);
    assert!(spool::files(dir.path()).unwrap().is_empty());
    for entry in &entries {
        assert_eq!(&database.entry(&entry.id).unwrap(), entry);
    }
    // Killed between the commit and the removal of the files: they are there again.
    drop(database);
    for (path, copy) in kept.iter().zip(copies) {
        fs::write(path, copy).unwrap();
    }
    let database = Database::open(dir.path()).unwrap();
    assert_eq!(database.ids().unwrap().len(), 3);
    assert_eq!(&database.entry(&entries[1].id).unwrap(), &entries[1]);
    assert!(spool::files(dir.path()).unwrap().is_empty());
}

#[test]
fn killed_while_writing_nothing_is_lost_or_doubled() {
    const NR: u64 = 400;
    let dir = tempfile::tempdir().unwrap();
    let entries = spool_many(dir.path(), NR);
    let left = || spool::files(dir.path()).unwrap().len();
    let mut in_the_middle = 0;
    for _ in 0..40 {
        let before = left();
        if before == 0 {
            break;
        }
        let mut child = history(dir.path(), &["list", "-n", "1"]).spawn().unwrap();
        // Killed as soon as it has taken some over.
        while left() > before.saturating_sub(10) && child.try_wait().unwrap().is_none() {
            thread::sleep(Duration::from_micros(200));
        }
        child.kill().unwrap();
        child.wait().unwrap();
        let (spooled, in_database) = (left() as i64, count(dir.path()));
        if spooled > 0 && in_database > 0 {
            in_the_middle += 1;
        }
        // One may be in both: taken over, and its file not removed yet.
        assert!(
            (NR as i64..=NR as i64 + 1).contains(&(spooled + in_database)),
            "{spooled} in the spool and {in_database} in the database"
        );
    }
    assert!(
        in_the_middle >= 3,
        "killed in the middle {in_the_middle} times only"
    );
    let database = Database::open(dir.path()).unwrap();
    let found = database.ids().unwrap();
    assert_eq!(found.len() as u64, NR);
    assert_eq!(
        found.iter().map(String::as_str).collect::<BTreeSet<_>>(),
        ids(&entries)
    );
    for entry in &entries {
        assert_eq!(&database.entry(&entry.id).unwrap(), entry);
    }
}

/// Where SQLite keeps what was there before, while it writes. It is gone once the writing is on the disk.
fn journal(dir: &Path) -> PathBuf {
    dir.join(format!("{FILE}-journal"))
}

#[test]
fn a_run_that_is_being_written_when_its_writer_is_killed_is_there_whole_or_not_at_all() {
    const NR_BUCKETS: u64 = 20_000;
    let dir = tempfile::tempdir().unwrap();
    let first = spool_many(dir.path(), 1);
    drop(Database::open(dir.path()).unwrap());
    let (mut nr_torn, mut attempt) = (0, 0);
    while nr_torn < 8 {
        attempt += 1;
        assert!(attempt < 80, "killed while writing {nr_torn} times only");
        let run = entry(&(attempt..attempt + NR_BUCKETS).collect::<Vec<_>>());
        spool::write(dir.path(), &run).unwrap();
        let mut child = history(dir.path(), &["list"]).spawn().unwrap();
        let started = Instant::now();
        while !journal(dir.path()).exists() && child.try_wait().unwrap().is_none() {
            assert!(
                started.elapsed() < Duration::from_secs(30),
                "it writes nothing"
            );
        }
        // Each time at another place: while rows are inserted, while pages are written, while they are synced.
        thread::sleep(Duration::from_millis(attempt % 12 * 3));
        child.kill().unwrap();
        child.wait().unwrap();
        let is_torn = journal(dir.path()).exists();
        nr_torn += u64::from(is_torn);
        let connection = Connection::open(dir.path().join(FILE)).unwrap();
        let ask = |query: &str| -> i64 {
            let parameters: &[&dyn rusqlite::ToSql] =
                if query.contains('?') { &[&run.id] } else { &[] };
            connection
                .query_row(query, parameters, |row| row.get(0))
                .unwrap()
        };
        let is_there = ask("SELECT count(*) FROM runs WHERE id = ?1") == 1;
        let rows = ask("SELECT count(*) FROM histograms WHERE run = ?1");
        assert_eq!(rows, if is_there { NR_BUCKETS as i64 + 1 } else { 0 });
        assert!(!(is_torn && is_there), "its journal would have been gone");
        let sound: String = connection
            .query_row("PRAGMA integrity_check", [], |row| row.get(0))
            .unwrap();
        assert_eq!(sound, "ok");
        drop(connection);
        let is_spooled = !spool::files(dir.path()).unwrap().is_empty();
        assert!(is_there || is_spooled, "the run is lost");
        let database = Database::open(dir.path()).unwrap();
        assert_eq!(database.entry(&run.id).unwrap(), run);
        assert_eq!(database.entry(&first[0].id).unwrap(), first[0]);
        assert_eq!(database.ids().unwrap().len() as u64, attempt + 1);
    }
}

#[test]
fn on_a_full_disk_the_run_stays_in_the_spool() {
    let dir = tempfile::tempdir().unwrap();
    let first = spool_many(dir.path(), 1);
    drop(Database::open(dir.path()).unwrap());
    let big = entry(&(0..20_000).collect::<Vec<_>>());
    spool::write(dir.path(), &big).unwrap();
    // No file may become larger than this any more, as where the disk is full.
    let size = fs::metadata(dir.path().join(FILE)).unwrap().len();
    let blocks = size / 512 + 40;
    let list = history(dir.path(), &["list"]);
    let mut limited = Command::new("sh");
    limited
        .args([
            "-c",
            &format!("trap '' XFSZ; ulimit -f {blocks}; exec \"$0\" history list"),
        ])
        .arg(list.get_program())
        .env("TAKT_HISTORY", dir.path())
        .env("NO_COLOR", "1");
    let (code, _, stderr) = done(limited);
    assert_eq!(code, Some(1), "{stderr}");
    assert!(
        stderr.contains("cannot be taken into the history"),
        "{stderr}"
    );
    assert!(
        stderr.contains("still in the spool") && !stderr.contains("move it away"),
        "{stderr}"
    );
    assert_eq!(spool::files(dir.path()).unwrap().len(), 1);
    assert_eq!(count(dir.path()), 1);
    // With room again, all is there.
    let database = Database::open(dir.path()).unwrap();
    assert_eq!(database.ids().unwrap().len(), 2);
    assert_eq!(database.entry(&big.id).unwrap(), big);
    assert_eq!(database.entry(&first[0].id).unwrap(), first[0]);
}

#[test]
fn an_entry_that_was_changed_stays_in_the_spool() {
    let mut entry = entry(&[353, 353, 360]);
    let run = entry.run().unwrap();
    let hist = csv::write(&run.record.slots, &run.distributions);
    entry.record.sum = Some(entry.record.sum_with(&hist));
    let text = serde_json::to_string(&entry).unwrap();
    assert_eq!(Entry::parse(&text).unwrap(), entry);
    // Figures that the histogram contradicts, with a check sum and without; and what the check sum alone tells.
    let bare = text.replace(&format!(",\"sum\":{}", entry.record.sum.unwrap()), "");
    assert_ne!(bare, text);
    for (text, was, is, says) in [
        (
            &text,
            "\"max\":360",
            "\"max\":353",
            "max 353, hist.csv's greatest value is 360",
        ),
        (
            &bare,
            "\"max\":360",
            "\"max\":353",
            "max 353, hist.csv's greatest value is 360",
        ),
        (
            &text,
            "\"missed\":0",
            "\"missed\":2",
            "the check sum is another one",
        ),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let path = spool::write(dir.path(), &entry).unwrap();
        assert!(text.contains(was));
        fs::write(&path, text.replacen(was, is, 1)).unwrap();
        let (code, _, stderr) = done(history(dir.path(), &["list"]));
        assert_eq!(code, Some(0), "{stderr}");
        assert!(
            stderr.contains("is not taken into the history") && stderr.contains(says),
            "{stderr}"
        );
        // Nothing has been kept, so nothing is made.
        assert!(path.exists() && !dir.path().join(FILE).exists());
        let (code, _, stderr) = done(history(dir.path(), &["show"]));
        assert_eq!(code, Some(1), "{stderr}");
        assert!(
            stderr.contains("no run of the spool could be taken"),
            "{stderr}"
        );
    }
}

#[test]
fn one_damaged_run_leaves_the_others() {
    let dir = tempfile::tempdir().unwrap();
    let entries = spool_many(dir.path(), 3);
    drop(Database::open(dir.path()).unwrap());
    let broken = &entries[1].id;
    let connection = Connection::open(dir.path().join(FILE)).unwrap();
    for change in [
        "UPDATE histograms SET count = count + 1 WHERE run = ?1",
        "UPDATE runs SET record = substr(record, 1, 100) WHERE id = ?1",
    ] {
        assert_ne!(connection.execute(change, [broken]).unwrap(), 0);
        let (code, stdout, stderr) = done(history(dir.path(), &["list"]));
        assert_eq!(code, Some(0), "{stderr}");
        assert_eq!(stdout.lines().count(), 1 + 2, "{stdout}");
        assert!(
            stderr.contains(&format!("left out: run {broken} is damaged"))
                && stderr.contains("; help: "),
            "{stderr}"
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
fn a_pipe_in_the_spool_keeps_no_one_waiting() {
    let dir = tempfile::tempdir().unwrap();
    spool_many(dir.path(), 1);
    let pipe = dir.path().join("spool/pipe.json");
    let made = Command::new("mkfifo").arg(&pipe).status().unwrap();
    assert!(made.success());
    let (code, stdout, stderr) = done(history(dir.path(), &["list"]));
    assert_eq!((code, &*stderr), (Some(0), ""));
    assert_eq!(stdout.lines().count(), 1 + 1);
}

#[test]
fn a_spool_that_cannot_be_written_leaves_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let error = spool::write(Path::new("/dev/full/history"), &entry(&[1])).unwrap_err();
    assert!(
        format!("{error:#}").contains("/dev/full/history"),
        "{error:#}"
    );
    // A folder where the file should be: it is written, and cannot get its name.
    let entry = entry(&[1]);
    let taken = dir
        .path()
        .join(spool::FOLDER)
        .join(format!("{}.json", entry.id));
    fs::create_dir_all(taken.join("x")).unwrap();
    spool::write(dir.path(), &entry).unwrap_err();
    let left = fs::read_dir(dir.path().join(spool::FOLDER))
        .unwrap()
        .count();
    assert_eq!(left, 1, "the temporary file is still there");
}

#[test]
fn what_is_no_run_stays_in_the_spool() {
    let dir = tempfile::tempdir().unwrap();
    spool_many(dir.path(), 1);
    let stray = dir.path().join(spool::FOLDER).join("0000.json");
    let mut wrong = entry(&[1, 2, 3]);
    wrong.histograms[0].thread[0].1 += 1;
    fs::write(&stray, serde_json::to_string(&wrong).unwrap()).unwrap();
    let (code, stdout, stderr) = done(history(dir.path(), &["list", "--json"]));
    assert_eq!(code, Some(0), "{stderr}");
    assert!(
        stderr.contains("0000.json") && stderr.contains("it stays where it is"),
        "{stderr}"
    );
    let list: serde_json::Value = serde_json::from_str(&stdout).unwrap();
    assert_eq!(list["runs"].as_array().unwrap().len(), 1);
    assert!(stray.exists());
}

#[test]
fn histograms_come_back_as_they_were() {
    let dir = tempfile::tempdir().unwrap();
    let entry = entry(&[1, 1, 2, 70_000, u64::from(u32::MAX) * 4]);
    spool::write(dir.path(), &entry).unwrap();
    let database = Database::open(dir.path()).unwrap();
    let run = database.entry(&entry.id).unwrap().run().unwrap();
    assert_eq!(
        run.distributions[0].thread,
        collect(&[1, 1, 2, 70_000, u64::from(u32::MAX) * 4])
    );
}
