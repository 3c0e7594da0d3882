//! Writing a medium to a disk, and reading it back.

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

use anyhow::{Context, Result, anyhow};
use rustix::fs::{Advice, OFlags, fadvise, major, minor};

use takt_base::term::WithHelp;

/// Bytes that are written, or read and compared, between two looks at the progress: as many as a slow stick takes in a
/// fraction of a second.
const PIECE: usize = 256 << 10;

/// What is being done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// The medium is written.
    Write,
    /// It is read back and compared.
    Compare,
}

/// Writes `medium` to the beginning of `device`, which is the one with this number (`8:16`), and compares what is there
/// afterwards. `progress` is told the step and how many bytes of it are done.
///
/// # Errors
///
/// If the device is another one, cannot be written or read, or has something else in the end.
pub fn flash(
    medium: &[u8],
    device: &Path,
    number: &str,
    progress: impl FnMut(Step, u64),
) -> Result<()> {
    let file = open(device)?;
    let meta = file.metadata()?;
    let (major, minor) = (major(meta.rdev()), minor(meta.rdev()));
    if !meta.file_type().is_block_device() || format!("{major}:{minor}") != number {
        return Err(anyhow!(
            "{} is not the disk that the system knows by this name",
            device.display()
        ))
        .help("was it pulled out meanwhile, or is that a file which somebody wrote there? ls -l shows it");
    }
    write_and_compare(medium, device, file, progress)
}

fn write_and_compare(
    medium: &[u8],
    device: &Path,
    mut file: File,
    mut progress: impl FnMut(Step, u64),
) -> Result<()> {
    let cannot = |what: &str, at: usize| format!("cannot {what} {} at byte {at}", device.display());
    let mut done = 0;
    for piece in medium.chunks(PIECE) {
        // To the disk itself, so that the progress is true and an error is about this piece.
        file.write_all(piece)
            .and_then(|()| file.sync_data())
            .with_context(|| cannot("write to", done))
            .help("is it still there? dmesg | tail says what the system saw; try another port or another stick")?;
        done += piece.len();
        progress(Step::Write, done as u64);
    }
    file.sync_all().with_context(|| cannot("write to", done))?;
    // What is read back is to come from the disk, not from the system's memory.
    fadvise(&file, 0, None, Advice::DontNeed)
        .map_err(io::Error::from)
        .and_then(|()| file.seek(SeekFrom::Start(0)))
        .with_context(|| cannot("read", 0))?;
    let mut there = vec![0; PIECE];
    let mut done = 0;
    for piece in medium.chunks(PIECE) {
        let there = &mut there[..piece.len()];
        file.read_exact(there)
            .with_context(|| cannot("read", done))
            .help("the disk does not keep what is written to it: use another one")?;
        if let Some(at) = piece.iter().zip(&*there).position(|(a, b)| a != b) {
            return Err(anyhow!(
                "{} has something else at byte {} than what was written",
                device.display(),
                done + at
            ))
            .help("the disk does not keep what is written to it: use another one");
        }
        done += piece.len();
        progress(Step::Compare, done as u64);
    }
    Ok(())
}

/// Opens it for us alone: the system refuses that for a disk that is mounted.
fn open(device: &Path) -> Result<File> {
    let opened = OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags(OFlags::EXCL.bits() as i32)
        .open(device);
    let kind = opened.as_ref().err().map(io::Error::kind);
    let opened = opened.with_context(|| format!("cannot open {} for writing", device.display()));
    let shown = device.display();
    match kind {
        Some(ErrorKind::PermissionDenied) => opened.help(format!(
            "let yourself write to it until it is pulled out: sudo setfacl --modify u:$USER:rw {shown}"
        )),
        Some(ErrorKind::ResourceBusy) => opened.help(format!(
            "somebody uses it: lsblk {shown} shows what is mounted; unmount it"
        )),
        _ => opened,
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_medium_is_written_and_compared_and_the_rest_stays() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("stick");
        let medium: Vec<u8> = (0..3 * PIECE + 2048).map(|i| (i / 7) as u8).collect();
        fs::write(&file, vec![0xaa; 4 * PIECE]).unwrap();
        let mut steps = Vec::new();
        write_and_compare(&medium, &file, open(&file).unwrap(), |step, done| {
            steps.push((step, done))
        })
        .unwrap();
        let there = fs::read(&file).unwrap();
        assert_eq!(there[..medium.len()], medium);
        assert!(there[medium.len()..].iter().all(|byte| *byte == 0xaa));
        let len = medium.len() as u64;
        let [.., before, last] = &*steps else {
            panic!()
        };
        assert_eq!((before.0, *last), (Step::Compare, (Step::Compare, len)));
        assert!(steps.contains(&(Step::Write, len)));
        assert!(steps.contains(&(Step::Write, PIECE as u64)));
    }

    /// A stick that is smaller than it says, played by somebody who writes to it in between.
    #[test]
    fn what_is_not_kept_is_found() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("stick");
        fs::write(&file, "").unwrap();
        let medium = vec![1; 2 * PIECE];
        let spoil = |step, done| {
            if (step, done) == (Step::Write, medium.len() as u64) {
                let mut file = OpenOptions::new().write(true).open(&file).unwrap();
                file.seek(SeekFrom::Start(PIECE as u64 + 5)).unwrap();
                file.write_all(&[2]).unwrap();
            }
        };
        let error = write_and_compare(&medium, &file, open(&file).unwrap(), spoil).unwrap_err();
        let text = format!("{error:#}");
        assert!(text.contains(&format!("at byte {}", PIECE + 5)), "{text}");
        let error = flash(&medium, &dir.path().join("none"), "1:1", |_, _| ()).unwrap_err();
        assert!(format!("{error:#}").contains("cannot open"), "{error:#}");
        // A device that takes nothing.
        let error = write_and_compare(
            &medium,
            Path::new("/dev/full"),
            open(Path::new("/dev/full")).unwrap(),
            |_, _| (),
        )
        .unwrap_err();
        assert!(
            format!("{error:#}").contains("cannot write to /dev/full at byte 0"),
            "{error:#}"
        );
    }
}
