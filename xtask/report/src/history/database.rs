//! [`Database`]: one SQLite file with the runs, each written in a transaction of its own.

use std::fmt;
use std::path::PathBuf;

use anyhow::{Context, Result, anyhow};
use rusqlite::{Connection, OptionalExtension, TransactionBehavior};
use xtask::history::{Entry, Histograms, SCHEMA, spool};
use xtask::term::{Help, note, one_line};

use super::advice;

/// The file in the history's folder.
pub const FILE: &str = "history.db";

/// The history of runs.
#[derive(Debug)]
pub struct Database {
    pub(super) connection: Connection,
    pub(super) path: PathBuf,
}

/// Of a run, not of the database.
#[derive(Debug)]
struct Damaged(String);

impl fmt::Display for Damaged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Database {
    /// Takes in a run, unless it is there already; says whether it was not.
    ///
    /// # Errors
    ///
    /// If it cannot be written; nothing of it is there then.
    pub fn insert(&mut self, entry: &Entry) -> Result<bool> {
        let transaction = self
            .connection
            .transaction_with_behavior(TransactionBehavior::Immediate)?;
        let is_new = transaction.execute(
            "INSERT OR IGNORE INTO runs
                (id, started, git, result, accel, folder, setup, record, finished, configuration)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)",
            (
                &entry.id,
                entry.record.timing.started_unix_s as i64,
                &entry.record.git,
                entry.record.result.word(),
                entry.record.accel.accel.name(),
                entry.folder.to_string_lossy(),
                serde_json::to_string(&entry.setup)?,
                serde_json::to_string(&entry.record)?,
                entry.finished_unix_ns as i64,
                entry.configuration().key(),
            ),
        )? != 0;
        if is_new {
            let mut insert = transaction.prepare(
                "INSERT INTO histograms (run, slot, latency, ns, count) VALUES (?1, ?2, ?3, ?4, ?5)",
            )?;
            for (slot, buckets) in entry.histograms.iter().enumerate() {
                for (latency, buckets) in [("irq", &buckets.irq), ("thread", &buckets.thread)] {
                    for &(ns, count) in buckets {
                        insert.execute((
                            &entry.id,
                            slot as i64,
                            latency,
                            ns as i64,
                            count as i64,
                        ))?;
                    }
                }
            }
        }
        transaction.commit()?;
        Ok(is_new)
    }

    /// Whether there are runs that have yet to be taken in.
    pub(super) fn has_spooled(&self) -> bool {
        let dir = self.path.parent();
        dir.is_some_and(|dir| spool::files(dir).is_ok_and(|files| !files.is_empty()))
    }

    /// The ids of all runs, the latest first.
    ///
    /// # Errors
    ///
    /// If the database cannot be read, here and below.
    pub fn ids(&self) -> Result<Vec<String>> {
        self.select_ids("SELECT id FROM runs ORDER BY finished DESC, rowid DESC", [])
    }

    /// The ids of all runs of a configuration, by its key, the latest first.
    ///
    /// # Errors
    ///
    /// As [`ids`](Self::ids).
    pub fn ids_of(&self, configuration: &str) -> Result<Vec<String>> {
        self.select_ids(
            "SELECT id FROM runs WHERE configuration = ?1 ORDER BY finished DESC, rowid DESC",
            [configuration],
        )
    }

    fn select_ids(&self, query: &str, parameters: impl rusqlite::Params) -> Result<Vec<String>> {
        let mut statement = self.connection.prepare(query)?;
        let rows = statement.query_map(parameters, |row| row.get(0))?;
        rows.collect::<Result<_, _>>()
            .map_err(|error| self.unreadable(error))
    }

    /// A run.
    ///
    /// # Errors
    ///
    /// If it is not there, or damaged.
    pub fn entry(&self, id: &str) -> Result<Entry> {
        let row = self
            .connection
            .query_row(
                "SELECT folder, setup, record, finished FROM runs WHERE id = ?1",
                [id],
                |row| {
                    Ok((
                        row.get::<_, String>(0)?,
                        row.get::<_, String>(1)?,
                        row.get::<_, String>(2)?,
                        row.get::<_, i64>(3)?,
                    ))
                },
            )
            .optional()
            .map_err(|error| self.unreadable(error))?;
        let (folder, setup, record, finished) =
            row.with_context(|| format!("there is no run {id} in the history"))?;
        let record: xtask::report::record::RunRecord =
            serde_json::from_str(&record).map_err(|error| self.damaged(id, error))?;
        let histograms = (0..record.slots.len())
            .map(|slot| self.histograms(id, slot))
            .collect::<Result<_>>()?;
        let entry = Entry {
            schema: SCHEMA.into(),
            id: id.into(),
            finished_unix_ns: finished as u64,
            folder: folder.into(),
            setup: serde_json::from_str(&setup).map_err(|error| self.damaged(id, error))?,
            record,
            histograms,
        };
        entry.check().map_err(|error| self.damaged(id, error))?;
        Ok(entry)
    }

    /// Where many runs are looked at: a run, or nothing and a note if it is damaged.
    ///
    /// # Errors
    ///
    /// If the database cannot be read.
    pub fn sound_entry(&self, id: &str) -> Result<Option<Entry>> {
        match self.entry(id) {
            Err(error) if error.downcast_ref::<Damaged>().is_some() => {
                note(format_args!("left out: {}", one_line(&error)));
                Ok(None)
            }
            found => found.map(Some),
        }
    }

    fn damaged(&self, id: &str, why: impl Into<anyhow::Error>) -> anyhow::Error {
        let damaged = Damaged(format!("run {id} is damaged in {}", self.path.display()));
        why.into()
            .context(damaged)
            .context(Help(advice::DAMAGED_RUN.into()))
    }

    fn histograms(&self, id: &str, slot: usize) -> Result<Histograms> {
        let mut statement = self.connection.prepare(
            "SELECT ns, count FROM histograms WHERE run = ?1 AND slot = ?2 AND latency = ?3 ORDER BY ns",
        )?;
        let mut of = |latency: &str| -> Result<Vec<(u64, u64)>> {
            let rows = statement.query_map((id, slot as i64, latency), |row| {
                Ok((row.get::<_, i64>(0)? as u64, row.get::<_, i64>(1)? as u64))
            })?;
            rows.collect::<Result<_, _>>()
                .map_err(|error| self.unreadable(error))
        };
        Ok(Histograms {
            irq: of("irq")?,
            thread: of("thread")?,
        })
    }

    fn unreadable(&self, error: rusqlite::Error) -> anyhow::Error {
        let said = format!("the history {} cannot be read", self.path.display());
        advice::add(anyhow!(error).context(said))
    }
}
