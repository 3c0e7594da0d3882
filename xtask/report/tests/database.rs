//! The database of runs: killed while it is written, on a full disk, of an older and of a newer schema, damaged.
#![allow(missing_docs, reason = "a test")]

mod common;

use std::collections::BTreeSet;
use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::Duration;

use common::{collect, done, entry, history};
use rusqlite::Connection;
use takt_report::history::database::FILE;
use takt_report::history::{Database, schema};
use xtask::history::{Entry, spool};

fn spool_many(dir: &Path, nr: u64) -> Vec<Entry> {
    (0..nr)
        .map(|nr| {
            let mut entry = entry(&(0..60).map(|at| 300 + at * 7 + nr).collect::<Vec<_>>());
            entry.finished_unix_ns = nr;
            spool::write(dir, &entry).unwrap();
            entry
        })
        .collect()
}

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
    assert!(stderr.contains("still in the spool"), "{stderr}");
    assert_eq!(spool::files(dir.path()).unwrap().len(), 1);
    assert_eq!(count(dir.path()), 1);
    // With room again, all is there.
    let database = Database::open(dir.path()).unwrap();
    assert_eq!(database.ids().unwrap().len(), 2);
    assert_eq!(database.entry(&big.id).unwrap(), big);
    assert_eq!(database.entry(&first[0].id).unwrap(), first[0]);
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

/// Makes a database of version 1, as the program of that time did.
fn version_1(dir: &Path, entries: &[Entry]) {
    let connection = Connection::open(dir.join(FILE)).unwrap();
    connection.execute_batch(schema::FIRST).unwrap();
    connection
        .pragma_update(None, "application_id", schema::APPLICATION)
        .unwrap();
    connection.pragma_update(None, "user_version", 1).unwrap();
    for entry in entries {
        connection
            .execute(
                "INSERT INTO runs VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
                (
                    &entry.id,
                    entry.record.timing.started_unix_s as i64,
                    &entry.record.git,
                    entry.record.result.word(),
                    entry.record.accel.accel.name(),
                    entry.folder.to_string_lossy(),
                    serde_json::to_string(&entry.setup).unwrap(),
                    serde_json::to_string(&entry.record).unwrap(),
                ),
            )
            .unwrap();
        for (slot, buckets) in entry.histograms.iter().enumerate() {
            for (latency, buckets) in [("irq", &buckets.irq), ("thread", &buckets.thread)] {
                for &(ns, count) in buckets {
                    let row = (&entry.id, slot as i64, latency, ns as i64, count as i64);
                    connection
                        .execute("INSERT INTO histograms VALUES (?1, ?2, ?3, ?4, ?5)", row)
                        .unwrap();
                }
            }
        }
    }
}

#[test]
fn an_older_schema_is_brought_up_to_date() {
    let dir = tempfile::tempdir().unwrap();
    let old = [entry(&[300, 301, 305]), entry(&[300, 302])];
    version_1(dir.path(), &old);
    let new = entry(&[299]);
    spool::write(dir.path(), &new).unwrap();
    let database = Database::open(dir.path()).unwrap();
    // All have the same configuration, and the new column knows.
    let key = new.configuration().key();
    assert_eq!(database.ids_of(&key).unwrap().len(), 3);
    assert_eq!(database.ids().unwrap()[0], new.id);
    for entry in &old {
        let found = database.entry(&entry.id).unwrap();
        assert_eq!(found.histograms, entry.histograms);
        assert_eq!(found.record, entry.record);
        assert_eq!(
            found.finished_unix_ns,
            entry.record.timing.started_unix_s * 1_000_000_000
        );
    }
    let connection = Connection::open(dir.path().join(FILE)).unwrap();
    let version: u32 = connection
        .pragma_query_value(None, "user_version", |row| row.get(0))
        .unwrap();
    assert_eq!(version, schema::VERSION);
}

#[test]
fn a_migration_that_fails_changes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    version_1(dir.path(), &[entry(&[300])]);
    let connection = Connection::open(dir.path().join(FILE)).unwrap();
    connection
        .execute("UPDATE runs SET record = 'nonsense'", [])
        .unwrap();
    drop(connection);
    let before = fs::read(dir.path().join(FILE)).unwrap();
    let error = Database::open(dir.path()).unwrap_err();
    assert!(
        format!("{error:#}").contains("from version 1 to version 2"),
        "{error:#}"
    );
    assert_eq!(fs::read(dir.path().join(FILE)).unwrap(), before);
}

/// Demands that the history is refused with these words, and that neither it nor the spool is touched.
fn refused(dir: &Path, words: &str) {
    let entry = entry(&[7]);
    spool::write(dir, &entry).unwrap();
    let before = fs::read(dir.join(FILE)).unwrap();
    let (code, _, stderr) = done(history(dir, &["list"]));
    assert_eq!(code, Some(1), "{stderr}");
    assert!(
        stderr.contains(words) && stderr.contains("history.db"),
        "{stderr}"
    );
    assert!(stderr.contains("help: "), "{stderr}");
    assert_eq!(fs::read(dir.join(FILE)).unwrap(), before, "it was changed");
    assert_eq!(spool::files(dir).unwrap().len(), 1, "the run is lost");
}

#[test]
fn a_newer_schema_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    drop(Database::open(dir.path()).unwrap());
    let connection = Connection::open(dir.path().join(FILE)).unwrap();
    connection.pragma_update(None, "user_version", 99).unwrap();
    drop(connection);
    refused(dir.path(), "written by a newer Takt");
}

#[test]
fn what_is_no_database_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let mut file = fs::File::create(dir.path().join(FILE)).unwrap();
    file.write_all(&b"My thesis. ".repeat(1000)).unwrap();
    refused(dir.path(), "not a database");
}

#[test]
fn another_programs_database_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let connection = Connection::open(dir.path().join(FILE)).unwrap();
    connection
        .execute_batch("CREATE TABLE songs (name TEXT)")
        .unwrap();
    drop(connection);
    refused(dir.path(), "another program's");
}

#[test]
fn a_damaged_database_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    spool_many(dir.path(), 50);
    drop(Database::open(dir.path()).unwrap());
    let path = dir.path().join(FILE);
    let mut bytes = fs::read(&path).unwrap();
    let nr = bytes.len();
    // All pages but the first.
    bytes[4096 + 8..nr]
        .iter_mut()
        .for_each(|byte| *byte ^= 0x5a);
    fs::write(&path, bytes).unwrap();
    refused(dir.path(), "cannot be used");
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
