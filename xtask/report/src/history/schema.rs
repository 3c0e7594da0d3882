//! The versions of the database, as `PRAGMA user_version` counts them.
//!
//! | version | what |
//! |---|---|
//! | 1 | `runs` and `histograms`; runs are ordered by the second in which they began |
//! | 2 | `finished`, so that runs of one second have an order, and `configuration`, so that like is found by an index |
//!
//! A database is brought up to date in one transaction, so it is of one version or of the other, whatever happens.

use anyhow::{Context, Result, bail};
use rusqlite::{Connection, Transaction};
use xtask::history::{Configuration, Setup};
use xtask::report::record::RunRecord;

/// The version that this program writes.
pub const VERSION: u32 = 2;

/// Tells our databases from other programs': `TAKT`.
pub const APPLICATION: i32 = 0x5441_4b54;

/// Version 1.
pub const FIRST: &str = "
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

/// Brings a database to [`VERSION`].
///
/// # Errors
///
/// If it is of a newer version, of another program, or cannot be written; it is unchanged then.
pub fn update(connection: &mut Connection) -> Result<()> {
    let found = version(connection)?;
    if found == VERSION {
        return Ok(());
    }
    if found > VERSION {
        bail!(
            "it has version {found}, and this program knows versions up to {VERSION}: it was written by a newer Takt"
        );
    }
    let transaction =
        connection.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
    // Another program may have been quicker.
    let found = version(&transaction)?;
    if found < 1 {
        create(&transaction)?;
    }
    if found < 2 {
        second(&transaction).context("cannot bring it from version 1 to version 2")?;
    }
    transaction.pragma_update(None, "user_version", VERSION)?;
    Ok(transaction.commit()?)
}

fn version(connection: &Connection) -> Result<u32> {
    let pragma = |name: &str| connection.pragma_query_value(None, name, |row| row.get::<_, i64>(0));
    let version = pragma("user_version")?;
    let is_empty = connection.query_row("SELECT count(*) FROM sqlite_master", [], |row| {
        row.get::<_, i64>(0)
    })? == 0;
    if !is_empty && pragma("application_id")? != i64::from(APPLICATION) {
        bail!("it is another program's");
    }
    u32::try_from(version).context("its version is no version")
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
