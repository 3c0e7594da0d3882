//! Opening the history: it is made with the first run that is taken in, never by looking at it.
//!
//! Each spooled run is taken over in a transaction of its own, and its file removed after that is on the disk. A run is
//! known by its id, so one that is taken over twice is there once. Whoever is killed in between loses and doubles nothing.
//! Where nobody may write, what is in the database can be read all the same.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use rusqlite::{Connection, ErrorCode, OpenFlags};
use xtask::history::{Entry, spool};
use xtask::term::{WithHelp, note, one_line};
use xtask::{input, paths};

use super::database::{Database, FILE};
use super::{advice, schema};

/// How long another program may keep the database busy.
const PATIENCE: Duration = Duration::from_secs(30);

impl Database {
    /// Opens the history in this folder, brings it up to date and takes in what is in the spool. A spooled file that is no
    /// run's is noted and left alone. Where there are no runs there is no database, and none is made.
    ///
    /// # Errors
    ///
    /// If it cannot be read, is damaged, or is of a newer version; or if it cannot be written although it could be, as on a
    /// full disk. Nothing is overwritten then.
    pub fn open(dir: &Path) -> Result<Self> {
        let path = dir.join(FILE);
        // Before the database is looked at: whoever makes it empties the spool afterwards.
        let spooled = read(spool::files(dir)?);
        let size = match fs::metadata(&path) {
            Ok(meta) => Some(meta.len()),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
            Err(error) => {
                return Err(error)
                    .with_context(|| format!("the history {} cannot be read", path.display()))
                    .help("the history is a folder that you may read and enter: ls -ld shows that; or name another one by --history");
            }
        };
        match size {
            None if spooled.is_empty() => return Self::empty(path),
            // Whoever makes it and is killed, or finds the disk full, leaves what it was made for in the spool.
            Some(0) if spooled.is_empty() => {
                return Err(anyhow!("the history {} is empty (0 bytes)", path.display())).help(
                    "Takt leaves such a file only beside runs in the spool, and there are none, so what was in it is \
                     lost: put it back from a backup, or remove it, and the next run begins a new one",
                );
            }
            _ => {}
        }
        let mut database = match Self::connect(path.clone(), size) {
            // It is not there, and nobody can make it: only the folder can be the reason.
            Err(error) if size.is_none() && advice::code(&error) == Some(ErrorCode::CannotOpen) => {
                note_left_out(&path, spooled.len());
                return Self::empty(path);
            }
            connected => connected?,
        };
        database.import(spooled)?;
        Ok(database)
    }

    /// A history without runs, which is nowhere.
    fn empty(path: PathBuf) -> Result<Self> {
        let mut connection = Connection::open_in_memory()?;
        schema::update(&mut connection)?;
        Ok(Self { connection, path })
    }

    /// The database in a file of this size, or in none yet.
    fn connect(path: PathBuf, size: Option<u64>) -> Result<Self> {
        let mut flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        flags.set(OpenFlags::SQLITE_OPEN_CREATE, size.is_none());
        let connected = Connection::open_with_flags(&path, flags)
            .map_err(anyhow::Error::from)
            .and_then(|mut connection| {
                let is_new = prepare(&mut connection)?;
                Ok((connection, is_new))
            });
        let (connection, is_new) = connected
            .with_context(|| format!("the history {} cannot be used", path.display()))
            .map_err(advice::add)?;
        if is_new && size == Some(0) {
            note(format_args!(
                "{} was empty (0 bytes): whoever made it did not come to an end, or what was in it is lost; it begins again with the \
                 runs in the spool",
                paths::shown(&path)
            ));
        }
        Ok(Self { connection, path })
    }

    /// Takes in these entries of the spool.
    fn import(&mut self, mut entries: Vec<(PathBuf, Entry)>) -> Result<()> {
        entries.sort_by_key(|(_, entry)| entry.finished_unix_ns);
        let mut left = entries.len();
        for (path, entry) in entries {
            match self.insert(&entry) {
                Err(error) if advice::code(&error) == Some(ErrorCode::ReadOnly) => {
                    note_left_out(&self.path, left);
                    return Ok(());
                }
                inserted => inserted
                    .with_context(|| {
                        format!(
                            "{} cannot be taken into the history {}",
                            path.display(),
                            self.path.display()
                        )
                    })
                    .map_err(advice::add)
                    .help("the run is still in the spool, and the next command tries again")?,
            };
            left -= 1;
            // Should this fail, the run is there already the next time.
            let _ = fs::remove_file(&path);
        }
        Ok(())
    }
}

/// The entries in these files; what is no entry is noted.
fn read(spooled: Vec<PathBuf>) -> Vec<(PathBuf, Entry)> {
    let mut entries = Vec::new();
    for path in spooled {
        let read = input::read_to_string(&path)
            .map_err(anyhow::Error::from)
            .and_then(|text| Entry::parse(&text));
        match read {
            Ok(entry) => entries.push((path, entry)),
            // Another program that looks at the history has just taken it in.
            Err(_) if !path.exists() => {}
            Err(error) => note(format_args!(
                "{} is not taken into the history: {}; it stays where it is",
                paths::shown(&path),
                one_line(&error)
            )),
        }
    }
    entries
}

fn note_left_out(path: &Path, nr: usize) {
    note(format_args!(
        "{} cannot be written, so what is in the spool stays there and is left out here: {nr} run{}",
        paths::shown(path),
        if nr == 1 { "" } else { "s" }
    ));
}

/// What every connection needs, and the current schema; says whether the database has been made just now.
fn prepare(connection: &mut Connection) -> Result<bool> {
    connection.busy_timeout(PATIENCE)?;
    // A run that was reported as kept is on the disk.
    connection.pragma_update(None, "synchronous", "FULL")?;
    connection.pragma_update(None, "foreign_keys", true)?;
    let is_new = schema::update(connection)?;
    let sound: String = connection.query_row("PRAGMA quick_check(1)", [], |row| row.get(0))?;
    if sound != "ok" {
        return Err(anyhow!("it is damaged: {sound}")).help(advice::DAMAGED);
    }
    Ok(is_new)
}
