//! What to do about an error of SQLite's: the advice hangs on what went wrong.

use anyhow::Error;
use rusqlite::{ErrorCode, ffi};
use xtask::term::Help;

/// For files that are not ours to write, or not with this program.
pub(super) const NOT_OURS: &str =
    "nothing in it was changed; move it away, or name another folder by --history";

/// For files that are ours and broken.
pub(super) const DAMAGED: &str = "put it back from a backup, or see what `sqlite3 history.db .recover` can save; once it \
                                  is moved away the next run begins a new one";

/// For a run in a sound file.
pub(super) const DAMAGED_RUN: &str =
    "put history.db back from a backup; the other runs can be used without";

/// For a history that nobody can write to.
const READ_ONLY: &str = "copy its folder to where you may write, and name that by --history";

/// For a history whose writer was killed, and that nobody can write to.
const TORN: &str = "whoever wrote it last was killed, and what that left has to be undone before it can be read: copy its \
                    folder, history.db-journal too, to where you may write, and name that by --history";

/// Adds advice, unless somebody who knew more has done so.
pub(super) fn add(error: Error) -> Error {
    if error.downcast_ref::<Help>().is_some() {
        return error;
    }
    let advice = match sqlite(&error) {
        Some(it) if it.extended_code == ffi::SQLITE_READONLY_ROLLBACK => TORN,
        Some(it) => of(it.code),
        None => NOT_OURS,
    };
    error.context(Help(advice.into()))
}

/// What SQLite calls it, if it was SQLite.
pub(super) fn code(error: &Error) -> Option<ErrorCode> {
    sqlite(error).map(|it| it.code)
}

fn sqlite(error: &Error) -> Option<&ffi::Error> {
    let mut causes = error.chain();
    causes.find_map(|cause| cause.downcast_ref::<rusqlite::Error>()?.sqlite_error())
}

fn of(code: ErrorCode) -> &'static str {
    match code {
        ErrorCode::DiskFull => "make room on its file system; nothing in it was changed",
        ErrorCode::SystemIoFailure => {
            "its file system failed: is it full, over a quota, or broken? Nothing in it was changed"
        }
        ErrorCode::ReadOnly => READ_ONLY,
        ErrorCode::CannotOpen | ErrorCode::PermissionDenied => {
            "it has to be a file that you may read, in a folder that you may enter: ls -l shows that; or name another \
             folder by --history"
        }
        ErrorCode::DatabaseCorrupt => DAMAGED,
        ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked => {
            "another program has kept it busy for long: try again when that is done"
        }
        _ => NOT_OURS,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rusqlite::Connection;

    fn advice(error: Error) -> String {
        let error = add(error.context("what was done"));
        error.downcast_ref::<Help>().unwrap().0.clone()
    }

    #[test]
    fn a_full_database_is_for_making_room() {
        let connection = Connection::open_in_memory().unwrap();
        connection.execute_batch("CREATE TABLE t (x)").unwrap();
        connection.pragma_update(None, "max_page_count", 3).unwrap();
        let fill = connection.execute("INSERT INTO t VALUES (zeroblob(100000))", []);
        let advice = advice(fill.unwrap_err().into());
        assert!(advice.contains("make room"), "{advice}");
    }

    #[test]
    fn only_what_is_not_ours_is_to_be_moved_away() {
        let of = |code| advice(rusqlite::Error::SqliteFailure(ffi::Error::new(code), None).into());
        assert!(of(ffi::SQLITE_NOTADB).contains("move it away"));
        assert!(of(ffi::SQLITE_READONLY_ROLLBACK).contains("history.db-journal too"));
        for code in [
            ffi::SQLITE_FULL,
            ffi::SQLITE_IOERR_WRITE,
            ffi::SQLITE_READONLY_DIRECTORY,
            ffi::SQLITE_CANTOPEN,
            ffi::SQLITE_BUSY,
        ] {
            assert!(!of(code).contains("move it away"), "{}", of(code));
        }
        let known = Error::msg("x").context(Help("known better".into()));
        assert_eq!(advice(known), "known better");
    }
}
