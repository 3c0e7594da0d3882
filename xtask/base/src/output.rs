//! What commands write: to stdout, to a file, to a folder.

use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, StdoutLock, Write};
use std::iter;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, anyhow};
use rustix::fs::Access;
use serde::Serialize;

use crate::term;

use crate::paths;
use crate::term::WithHelp;

/// Buffered stdout.
pub type Output = BufWriter<StdoutLock<'static>>;

/// Runs `print` on a buffered stdout. A reader that has seen enough is no error. What was written
/// before an error comes out.
///
/// # Errors
///
/// Those of `print`, or that stdout cannot be written.
pub fn to_stdout(print: impl FnOnce(&mut Output) -> Result<()>) -> Result<ExitCode> {
    let mut out = BufWriter::new(io::stdout().lock());
    let printed = print(&mut out);
    let flushed = out.flush().map_err(anyhow::Error::from);
    match printed.and(flushed) {
        Err(error) if is_broken_pipe(&error) => Ok(ExitCode::SUCCESS),
        Err(error) if is_bare(&error) => Err(error.context("cannot write to stdout")),
        result => result.map(|()| ExitCode::SUCCESS),
    }
}

/// Whether nobody has said what it is that failed: only writing is left to be said.
fn is_bare(error: &anyhow::Error) -> bool {
    let outermost = error.chain().next();
    outermost.is_some_and(|it| it.is::<io::Error>() || it.is::<serde_json::Error>())
}

/// Prints a line to stdout. A reader that has seen enough is no error.
///
/// # Errors
///
/// If stdout cannot be written.
pub fn line(text: impl fmt::Display) -> Result<()> {
    to_stdout(|out| Ok(writeln!(out, "{text}")?)).map(drop)
}

/// Prints a text to stdout. A reader that has seen enough is no error.
///
/// # Errors
///
/// If stdout cannot be written.
pub fn print(text: &str) -> Result<ExitCode> {
    to_stdout(|out| Ok(out.write_all(text.as_bytes())?))
}

/// A JSON document, in one line. Every one that is printed or kept is written by this, or by [`json_pretty`]: neither has
/// control characters as they are, on which a terminal would act.
///
/// # Errors
///
/// If it cannot be JSON.
pub fn json(document: &(impl Serialize + ?Sized)) -> serde_json::Result<String> {
    serde_json::to_string(document).map(|text| escape_json_controls(text) + "\n")
}

/// The same for people.
///
/// # Errors
///
/// As [`json`].
pub fn json_pretty(document: &(impl Serialize + ?Sized)) -> serde_json::Result<String> {
    serde_json::to_string_pretty(document).map(|text| escape_json_controls(text) + "\n")
}

/// Escapes DEL, the C1 control characters and those that change the direction of a JSON text. JSON allows them raw, but a terminal that
/// shows them acts on them. They can only be inside of strings, where an escape means the same.
#[must_use]
pub fn escape_json_controls(json: String) -> String {
    if !json.contains(is_raw_control) {
        return json;
    }
    let mut out = String::with_capacity(json.len() + 8);
    for c in json.chars() {
        if is_raw_control(c) {
            out.push_str(&format!("\\u{:04x}", u32::from(c)));
        } else {
            out.push(c);
        }
    }
    out
}

/// Control characters that a serializer of JSON leaves as they are.
fn is_raw_control(c: char) -> bool {
    !c.is_ascii_control() && term::is_control(c) || c == '\u{7f}'
}

/// Whether the user means stdout by the name of a file.
#[must_use]
pub fn is_stdout(file: &Path) -> bool {
    file == Path::new("-")
}

/// Writes a text to the file that the user named: `-` is stdout.
///
/// # Errors
///
/// If it cannot be written.
pub fn to_named(file: &Path, text: &str) -> Result<()> {
    if is_stdout(file) {
        return print(text).map(drop);
    }
    fs::write(file, text).with_context(|| format!("cannot write {}", file.display()))
}

/// Refuses a file that [`to_named`] could not write in the end, before anything is measured. Makes none.
///
/// # Errors
///
/// If it cannot be written.
pub fn check_writable(file: &Path) -> Result<()> {
    let cannot_write = || format!("cannot write {}", file.display());
    if is_stdout(file) {
        return Ok(());
    }
    if let Ok(there) = file.metadata() {
        refuse_disk(file, &there)?;
        // Opening a pipe and closing it again would be the end for its reader.
        let is_plain = there.is_file() || there.is_dir();
        let open = || OpenOptions::new().append(true).open(file).map(drop);
        return is_plain
            .then(open)
            .unwrap_or(Ok(()))
            .with_context(cannot_write);
    }
    let dir = match file.parent() {
        Some(dir) if dir != Path::new("") => dir,
        _ => Path::new("."),
    };
    rustix::fs::access(dir, Access::WRITE_OK)
        .map_err(io::Error::from)
        .with_context(cannot_write)
}

/// A disk is not written to as if it were a file: whoever names one has mistyped something.
fn refuse_disk(path: &Path, there: &fs::Metadata) -> Result<()> {
    if there.file_type().is_block_device() {
        return Err(anyhow!("{} is a disk", path.display()))
            .help("name a file; `image --usb DEVICE` writes to a USB stick");
    }
    Ok(())
}

/// Runs `write` on a buffered file, which is complete or not there: it gets its name at the end. What was written before
/// an error stays, under the name with `.part` behind it. What is there and no ordinary file (a device, a pipe, a link to
/// one) is not replaced, but written to.
///
/// # Errors
///
/// Those of `write`, or that the file cannot be written.
pub fn to_file(
    path: &Path,
    write: impl FnOnce(&mut BufWriter<File>) -> Result<()>,
) -> Result<ExitCode> {
    let keep = |part: &Path| format!("what could be written is in {}", part.display());
    by_part(path, part_of, write, |part, error| {
        error.context(keep(part))
    })
    .map(|()| ExitCode::SUCCESS)
}

/// What [`to_file`] does; `failed` is told of a part that could not be written.
fn by_part(
    path: &Path,
    part_of: impl FnOnce(&Path) -> PathBuf,
    write: impl FnOnce(&mut BufWriter<File>) -> Result<()>,
    failed: impl FnOnce(&Path, anyhow::Error) -> anyhow::Error,
) -> Result<()> {
    let cannot = || format!("cannot write {}", path.display());
    let there = fs::metadata(path).ok();
    there
        .as_ref()
        .map_or(Ok(()), |there| refuse_disk(path, there))?;
    if there.is_some_and(|there| !there.is_file()) {
        let mut out = BufWriter::new(
            File::options()
                .write(true)
                .open(path)
                .with_context(cannot)?,
        );
        write(&mut out).with_context(cannot)?;
        return out.flush().with_context(cannot);
    }
    let path = &resolved(path);
    let part = &part_of(path);
    let mut out = BufWriter::new(File::create(part).with_context(cannot)?);
    let written = write(&mut out);
    let flushed = out.flush().with_context(cannot);
    written.and(flushed).map_err(|error| failed(part, error))?;
    fs::rename(part, path).with_context(cannot)
}

/// A link stays one, and what it leads to is replaced.
fn resolved(path: &Path) -> PathBuf {
    fs::canonicalize(path).unwrap_or_else(|_| path.to_owned())
}

/// The name under which a file is written.
fn part_of(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".part");
    name.into()
}

/// Makes the folder that is written in the place of another: what bears such a name already is somebody's.
fn new_part_of(path: &Path) -> io::Result<PathBuf> {
    let plain = part_of(path);
    let numbered = (2..).map(|n: u32| {
        let mut name = plain.clone().into_os_string();
        name.push(format!("-{n}"));
        name.into()
    });
    for part in iter::once(plain.clone()).chain(numbered) {
        match fs::create_dir(&part) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            made => return made.map(|()| part),
        }
    }
    Err(io::ErrorKind::AlreadyExists.into())
}

/// A hidden name beside a file's that no other process writes under.
fn own_part_of(path: &Path) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    path.with_file_name(format!(".{name}{}", paths::passing_mark()))
}

/// Writes a file with these bytes, which is complete or not there, as [`to_file`].
///
/// # Errors
///
/// If it cannot be written.
pub fn write_whole(path: &Path, bytes: &[u8]) -> Result<()> {
    to_file(path, |out| Ok(out.write_all(bytes)?)).map(drop)
}

/// Writes a file with these bytes, which is complete or not there; of one that could not be written nothing is left. Of
/// several programs that write it at once the last one's is there.
///
/// # Errors
///
/// If it cannot be written.
pub fn write_or_nothing(path: &Path, bytes: &[u8]) -> Result<()> {
    let write = |out: &mut BufWriter<File>| Ok(out.write_all(bytes)?);
    by_part(path, own_part_of, write, |part, error| {
        // Bytes that can be made again are no loss; a part that cannot be removed is overwritten by the next.
        let _ = fs::remove_file(part);
        error.context(format!("cannot write {}", path.display()))
    })
}

/// Runs `write` on a folder, which is complete or not there, as in [`to_file`]. One that is there is left alone if there is
/// anything in it. The folders above it are made if they are missing.
///
/// # Errors
///
/// Those of `write`, or that the folder cannot be made.
pub fn to_folder(path: &Path, write: impl FnOnce(&Path) -> Result<()>) -> Result<ExitCode> {
    // A slash at the end would put the part inside.
    let path: PathBuf = path.components().collect();
    let path = path.as_path();
    let cannot = || format!("cannot write {}", path.display());
    let is_there = path.symlink_metadata().is_ok();
    if is_there && fs::read_dir(path).with_context(cannot)?.next().is_some() {
        return Err(anyhow!("{} is not empty", path.display()))
            .help("name another folder, or empty this one");
    }
    if let Some(above) = path.parent() {
        fs::create_dir_all(above).with_context(|| format!("cannot make {}", above.display()))?;
    }
    let part = &new_part_of(path).with_context(cannot)?;
    write(part).with_context(|| format!("what could be written is in {}", part.display()))?;
    fs::rename(part, path).with_context(cannot)?;
    Ok(ExitCode::SUCCESS)
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        let io = cause.downcast_ref::<io::Error>().map(io::Error::kind);
        let json = cause
            .downcast_ref::<serde_json::Error>()
            .and_then(serde_json::Error::io_error_kind);
        io.or(json) == Some(io::ErrorKind::BrokenPipe)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A name of the guest's or an argument may hold anything.
    #[test]
    fn documents_have_no_control_characters() {
        let hostile = "a\u{7f}\u{9b}31m\u{1b}]0;x\u{7}\u{202e}";
        for text in [json(hostile), json_pretty(&[hostile])].map(Result::unwrap) {
            let raw = text.trim_end_matches('\n').chars();
            assert!(
                !raw.clone().any(|c| term::is_control(c) && c != '\n'),
                "{text:?}"
            );
            assert!(
                text.ends_with('\n') && text.contains("\\u007f\\u009b31m\\u001b]0;x\\u0007\\u202e")
            );
        }
        assert_eq!(
            serde_json::from_str::<String>(&json(hostile).unwrap()).unwrap(),
            hostile
        );
    }

    /// What bears the name of a part is somebody's.
    #[test]
    fn folders_leave_others_alone() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        fs::create_dir(at("made.part")).unwrap();
        fs::write(at("made.part/kept"), "mine").unwrap();
        let put = |part: &Path| Ok(fs::write(part.join("new"), "ours")?);
        to_folder(&at("made"), put).unwrap();
        assert_eq!(fs::read_to_string(at("made.part/kept")).unwrap(), "mine");
        assert_eq!(fs::read_to_string(at("made/new")).unwrap(), "ours");
        // One that cannot be written whole is kept beside it.
        let failed = to_folder(&at("other"), |part| put(part).and(Err(anyhow!("no"))));
        assert!(format!("{:#}", failed.unwrap_err()).contains("other.part"));
        assert_eq!(fs::read_to_string(at("other.part/new")).unwrap(), "ours");
        assert!(!at("made.part-2").exists());
        // What is above it is made.
        to_folder(&at("a/b/made"), put).unwrap();
        assert!(at("a/b/made/new").exists());
    }
}
