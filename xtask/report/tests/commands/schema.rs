//! Databases of an older and of a newer schema, of other programs, and damaged ones.
#![allow(missing_docs, reason = "a test")]

use std::collections::BTreeSet;
use std::fs;
use std::io::Write;
use std::path::Path;

use crate::common::{done, entry, history, spool_many};
use rusqlite::Connection;
use takt_report::history::database::FILE;
use takt_report::history::{Database, schema};
use xtask::history::{Entry, spool};

/// What the program of version 1 made. It stands here and not in the program, which may be changed: what was written is not.
const VERSION_1: &str = "
    CREATE TABLE runs (
        id TEXT PRIMARY KEY,
        started INTEGER NOT NULL,
        git TEXT NOT NULL,
        result TEXT NOT NULL,
        accel TEXT NOT NULL,
        folder TEXT NOT NULL,
        setup TEXT NOT NULL,
        record TEXT NOT NULL
    );
    CREATE TABLE histograms (
        run TEXT NOT NULL REFERENCES runs (id),
        slot INTEGER NOT NULL,
        latency TEXT NOT NULL CHECK (latency IN ('irq', 'thread')),
        ns INTEGER NOT NULL,
        count INTEGER NOT NULL,
        PRIMARY KEY (run, slot, latency, ns)
    ) WITHOUT ROWID;
    PRAGMA application_id = 0x54414b54;
    PRAGMA user_version = 1;
";

/// Makes a database of version 1, as the program of that time did.
fn version_1(dir: &Path, entries: &[Entry]) {
    let connection = Connection::open(dir.join(FILE)).unwrap();
    connection.execute_batch(VERSION_1).unwrap();
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
    // Afterwards it is laid out like one that was made today.
    let fresh = tempfile::tempdir().unwrap();
    spool_many(fresh.path(), 1);
    drop(Database::open(fresh.path()).unwrap());
    assert_eq!(layout(dir.path()), layout(fresh.path()));
}

/// Tables and indices, as SQLite keeps their definitions.
fn layout(dir: &Path) -> BTreeSet<(String, String)> {
    let connection = Connection::open(dir.join(FILE)).unwrap();
    let mut read = connection
        .prepare("SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL")
        .unwrap();
    let words = |text: String| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let rows = read
        .query_map([], |row| Ok((row.get(0)?, words(row.get(1)?))))
        .unwrap();
    rows.collect::<Result<_, _>>().unwrap()
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
fn refused(dir: &Path, words: &str) -> String {
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
    stderr
}

#[test]
fn a_newer_schema_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    spool_many(dir.path(), 1);
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
fn marks_without_their_tables_and_tables_without_their_version_are_refused() {
    for (change, words) in [
        (
            "PRAGMA user_version = 0",
            "the version 0, which Takt never writes",
        ),
        (
            "PRAGMA user_version = -1",
            "the version -1, which Takt never writes",
        ),
        ("DROP TABLE histograms", "its tables are missing"),
        ("PRAGMA application_id = 0", "another program's"),
        (
            "PRAGMA application_id = 0; PRAGMA user_version = 0",
            "Takt did not write its tables",
        ),
    ] {
        let dir = tempfile::tempdir().unwrap();
        spool_many(dir.path(), 1);
        drop(Database::open(dir.path()).unwrap());
        let connection = Connection::open(dir.path().join(FILE)).unwrap();
        connection.execute_batch(change).unwrap();
        drop(connection);
        let stderr = refused(dir.path(), words);
        assert!(!stderr.contains("CREATE TABLE"), "{stderr}");
    }
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
