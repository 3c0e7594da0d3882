//! The versions of the database, as `PRAGMA user_version` counts them.
//!
//! | version | what |
//! |---|---|
//! | 1 | `runs` and `histograms`; runs are ordered by the second in which they began |
//! | 2 | `finished`, so that runs of one second have an order, and `configuration`, so that like is found by an index |
//!
//! A database is brought up to date in one transaction, so it is of one version or of the other, whatever happens.

use anyhow::{Context, Result, anyhow};
use rusqlite::{Connection, Transaction};
use xtask::history::{Configuration, Setup};
use xtask::report::record::RunRecord;
use xtask::term::WithHelp;

use super::advice;

/// The version that this program writes.
pub const VERSION: u32 = 2;

/// Tells our databases from other programs': `TAKT`.
pub const APPLICATION: i32 = 0x5441_4b54;

/// Version 1.
const FIRST: &str = "
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
";

/// From version 1 to version 2; the new columns are filled from the old.
const SECOND: &str = "
    ALTER TABLE runs ADD COLUMN finished INTEGER NOT NULL DEFAULT 0;
    ALTER TABLE runs ADD COLUMN configuration TEXT NOT NULL DEFAULT '';
    CREATE INDEX runs_by_configuration ON runs (configuration, finished);
    CREATE INDEX runs_by_time ON runs (finished);
";

/// Brings a database to [`VERSION`]; says whether there was nothing in it before.
///
/// # Errors
///
/// If it is of a newer version, of another program, or cannot be written; it is unchanged then.
pub fn update(connection: &mut Connection) -> Result<bool> {
    let found = version(connection)?;
    if found == VERSION {
        return Ok(false);
    }
    if found > VERSION {
        return Err(anyhow!(
            "it has version {found}, and this program knows versions up to {VERSION}: it was written by a newer Takt"
        ))
        .help("use that one, or name another folder by --history; nothing in it was changed");
    }
    let outdated = || match found {
        0 => "it has to be made".to_owned(),
        older => format!("cannot bring it from version {older} to version {VERSION}"),
    };
    updated(connection).with_context(outdated)
}

fn updated(connection: &mut Connection) -> Result<bool> {
    let transaction =
        connection.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
    // Another program may have been quicker.
    let found = version(&transaction)?;
    if found < 1 {
        create(&transaction)?;
    }
    if found < 2 {
        second(&transaction)?;
    }
    transaction.pragma_update(None, "user_version", VERSION)?;
    transaction.commit()?;
    Ok(found == 0)
}

/// The version; 0 is of a database in which nothing is yet.
fn version(connection: &Connection) -> Result<u32> {
    let pragma = |name: &str| connection.pragma_query_value(None, name, |row| row.get::<_, i64>(0));
    let (version, application) = (pragma("user_version")?, pragma("application_id")?);
    let is_ours = |name: &str| matches!(name, "runs" | "histograms");
    let mut read = connection.prepare("SELECT name FROM sqlite_master WHERE type = 'table'")?;
    let tables: Vec<String> = read
        .query_map([], |row| row.get(0))?
        .collect::<Result<_, _>>()?;
    let nr_ours = tables.iter().filter(|name| is_ours(name)).count();
    match (application == i64::from(APPLICATION), version) {
        (false, 0) if application == 0 && tables.is_empty() => Ok(0),
        (false, _) => Err(anyhow!(
            "it is another program's: Takt did not write its tables"
        )).help(advice::NOT_OURS),
        (true, 1..) if nr_ours == 2 => u32::try_from(version).context("its version is no version"),
        (true, 1..) => Err(anyhow!("it is damaged: its tables are missing")).help(advice::DAMAGED),
        (true, _) => Err(anyhow!(
            "it bears Takt's mark and the version {version}, which Takt never writes: another program has changed it"
        ))
        .help(advice::DAMAGED),
    }
}

fn create(transaction: &Transaction<'_>) -> Result<()> {
    transaction.pragma_update(None, "application_id", APPLICATION)?;
    Ok(transaction.execute_batch(FIRST)?)
}

fn second(transaction: &Transaction<'_>) -> Result<()> {
    transaction.execute_batch(SECOND)?;
    let mut read = transaction.prepare("SELECT id, started, setup, record FROM runs")?;
    let mut write =
        transaction.prepare("UPDATE runs SET finished = ?2, configuration = ?3 WHERE id = ?1")?;
    let mut rows = read.query([])?;
    while let Some(row) = rows.next()? {
        let id: String = row.get(0)?;
        let started: i64 = row.get(1)?;
        let damaged = || format!("run {id} is damaged");
        let setup: Setup = serde_json::from_str(&row.get::<_, String>(2)?).with_context(damaged)?;
        let record: RunRecord =
            serde_json::from_str(&row.get::<_, String>(3)?).with_context(damaged)?;
        // Nobody noted when it was over.
        let finished = started.saturating_mul(1_000_000_000);
        let key = Configuration::new(&record, &setup).key();
        write.execute((&id, finished, key))?;
    }
    Ok(())
}
