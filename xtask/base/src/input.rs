//! Reading files that anybody may have put there: only ordinary ones, so that no pipe is waited for and every file has an
//! end.

use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rustix::fs::OFlags;

/// Bytes of a file that is read as a whole, at most.
const MAX: u64 = 1 << 30;

/// Opens an ordinary file.
///
/// # Errors
///
/// If it cannot be opened, or is a pipe, a device, a folder.
pub fn open(path: impl AsRef<Path>) -> io::Result<File> {
    let file = OpenOptions::new()
        .read(true)
        // Opening a pipe would wait for whoever writes to it. To ordinary files this means nothing.
        .custom_flags(OFlags::NONBLOCK.bits().cast_signed())
        .open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("it is no ordinary file"));
    }
    Ok(file)
}

/// The bytes of an ordinary file.
///
/// # Errors
///
/// As [`open`], and if it cannot be read or is larger than 1 GiB.
pub fn read(path: impl AsRef<Path>) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open(path)?.take(MAX + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MAX {
        return Err(io::Error::other("it is larger than 1 GiB"));
    }
    Ok(bytes)
}

/// The text of an ordinary file.
///
/// # Errors
///
/// As [`read`], and if it is no UTF-8.
pub fn read_to_string(path: impl AsRef<Path>) -> io::Result<String> {
    String::from_utf8(read(path)?)
        .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error.utf8_error()))
}
