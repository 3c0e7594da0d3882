//! [`Ram`]: the guest's RAM as a file that both sides have open.
//!
//! Read and written by ordinary file access at physical addresses: no mapping, so nothing of what
//! the guest does at the same time can be undefined behaviour here.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use std::time::Duration;

use anyhow::{Context, Result};
use takt_timerlat::stats::view::Memory;

use takt_base::paths;

/// Guest RAM in MiB.
pub const RAM_MIB: u64 = 64;

/// A file of the size of the guest's RAM. Its name is gone as soon as QEMU has it open, or when
/// this is dropped at the latest.
#[derive(Debug)]
pub struct Ram {
    file: File,
    path: PathBuf,
    size: u64,
    has_name: AtomicBool,
}

impl Ram {
    /// Makes the file: in `/dev/shm` if there is room, so that no disk is written to, else in
    /// `dir`.
    ///
    /// # Errors
    ///
    /// If it cannot be made in either place.
    pub fn create(dir: &Path) -> Result<Self> {
        Self::create_sized(dir, RAM_MIB)
    }

    /// The same for a guest with that many MiB.
    ///
    /// # Errors
    ///
    /// As [`create`](Self::create).
    pub fn create_sized(dir: &Path, mib: u64) -> Result<Self> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Relaxed);
        let name = format!("takt-{}-{number}.ram", std::process::id());
        let shm = Path::new("/dev/shm");
        remove_stale(shm);
        if has_room(shm, mib)
            && let Ok(ram) = Self::create_at(&shm.join(&name), mib)
        {
            return Ok(ram);
        }
        let path = dir.join(name);
        Self::create_at(&path, mib).with_context(|| {
            format!(
                "cannot make the file for the guest's RAM, {}",
                path.display()
            )
        })
    }

    fn create_at(path: &Path, mib: u64) -> io::Result<Self> {
        let open = || {
            OpenOptions::new()
                .read(true)
                .write(true)
                .create_new(true)
                .mode(0o600)
                .open(path)
        };
        let file = match open() {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                // Left by a process of the same number that died: nobody else uses our number.
                fs::remove_file(path)?;
                open()
            }
            other => other,
        }?;
        let ram = Self {
            file,
            path: path.to_owned(),
            size: mib << 20,
            has_name: AtomicBool::new(true),
        };
        ram.file.set_len(ram.size)?;
        Ok(ram)
    }

    /// Opens the RAM of a guest that somebody else has started.
    ///
    /// # Errors
    ///
    /// If the file cannot be opened, or is none.
    pub fn open(path: &Path) -> io::Result<Self> {
        let file = OpenOptions::new().read(true).write(true).open(path)?;
        if file.metadata()?.len() != RAM_MIB << 20 {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "not the size of a guest's RAM",
            ));
        }
        Ok(Self {
            file,
            path: path.to_owned(),
            size: RAM_MIB << 20,
            has_name: AtomicBool::new(false),
        })
    }

    /// The file, for its number and for locking it.
    #[must_use]
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Where QEMU finds it.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Takes the name away: nothing is left behind then, whatever happens to us. To be called once
    /// QEMU has it open.
    pub fn unlink(&self) {
        if self.has_name.swap(false, Relaxed) {
            // If it cannot be removed, it is gone already.
            let _ = fs::remove_file(&self.path);
        }
    }

    /// Makes all of it zero.
    ///
    /// # Errors
    ///
    /// If the file does not let it be.
    pub fn clear(&self) -> io::Result<()> {
        self.file.set_len(0)?;
        self.file.set_len(self.size)
    }

    /// Writes `bytes` to the guest's memory.
    ///
    /// # Errors
    ///
    /// If they do not fit or the file cannot be written.
    pub fn write_at(&self, address: u64, bytes: &[u8]) -> io::Result<()> {
        let end = address.checked_add(bytes.len() as u64);
        if end.is_none_or(|end| end > self.size) {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.file.write_all_at(bytes, address)
    }
}

impl Memory for Ram {
    fn read_exact_at(&self, address: u64, buf: &mut [u8]) -> io::Result<()> {
        self.file.read_exact_at(buf, address)
    }
}

impl Memory for &Ram {
    fn read_exact_at(&self, address: u64, buf: &mut [u8]) -> io::Result<()> {
        Ram::read_exact_at(self, address, buf)
    }
}

impl Drop for Ram {
    fn drop(&mut self) {
        self.unlink();
    }
}

/// Removes what was left by processes that were killed before QEMU had opened their file. That takes
/// a second; the minute is for those whose numbers we cannot see, in another container.
fn remove_stale(dir: &Path) {
    const OLD: Duration = Duration::from_secs(60);
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let pid = name
            .to_str()
            .and_then(|name| name.strip_prefix("takt-")?.strip_suffix(".ram"))
            .and_then(|name| name.split_once('-')?.0.parse::<u32>().ok());
        let is_old = || {
            let changed = entry.metadata().and_then(|meta| meta.modified()).ok();
            changed.is_some_and(|at| at.elapsed().is_ok_and(|age| age > OLD))
        };
        if pid.is_some_and(paths::is_process_gone) && is_old() {
            let _ = fs::remove_file(entry.path());
        }
    }
}

/// Whether a file system can hold the guest's RAM with something to spare.
fn has_room(dir: &Path, mib: u64) -> bool {
    free_bytes(dir).is_some_and(|free| free > (mib << 20) * 5 / 4)
}

/// Bytes that are free where `path` is.
#[must_use]
pub fn free_bytes(path: &Path) -> Option<u64> {
    let stat = rustix::fs::statvfs(path).ok()?;
    Some(stat.f_bavail.saturating_mul(stat.f_frsize))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::SystemTime;

    #[test]
    fn only_what_the_dead_left_long_ago_goes_away() {
        let dir = tempfile::tempdir().unwrap();
        let make = |name: &str, age: u64| {
            let file = File::create(dir.path().join(name)).unwrap();
            let made = SystemTime::now() - Duration::from_secs(age);
            file.set_modified(made).unwrap();
        };
        let own = format!("takt-{}-0.ram", std::process::id());
        make("takt-4294967295-0.ram", 100);
        make("takt-4294967294-0.ram", 0);
        make(&own, 100);
        make("takt.ram", 100);
        remove_stale(dir.path());
        let entries = fs::read_dir(dir.path()).unwrap();
        let mut left: Vec<_> = entries
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        left.sort();
        let mut expected = [own, "takt-4294967294-0.ram".into(), "takt.ram".into()];
        expected.sort();
        assert_eq!(left, expected);
    }
}
