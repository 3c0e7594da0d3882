//! Takes the capture apart: one stream of frames becomes `trace.bin` and `log.bin`.
//!
//! A frame that is damaged or out of sequence is counted, never passed over in silence; what
//! follows is found again by the next frame's magic.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufWriter, Seek, SeekFrom, Write};
use std::path::Path;

use super::folder::{LOG, TRACE};
use super::frames::{Damage, FrameReader};
use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};
use takt_tracer::wire::{
    CHANNEL_LOG, CHANNEL_TRACE, FILE_MAGIC_LOG, FILE_MAGIC_TRACE, FileHeader, FrameHeader, VERSION,
};

/// What the file headers say, apart from what the capture itself shows.
#[derive(Clone, Copy, Debug)]
pub struct FileFacts {
    /// TSC frequency in Hz.
    pub tsc_hz: u64,
    /// Checksum of the image.
    pub image: u64,
    /// Number of CPUs.
    pub nr_cpus: u32,
}

/// What came on one channel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChannelCount {
    /// Sound frames.
    pub frames: u64,
    /// Bytes of their payloads.
    pub bytes: u64,
    /// Frames that the sequence numbers miss.
    pub missing: u64,
}

/// What came altogether.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CaptureCount {
    /// The defmt log.
    pub log: ChannelCount,
    /// Trace sub-buffers.
    pub trace: ChannelCount,
    /// What was no sound frame.
    pub damage: Damage,
}

/// A file of frames being written.
struct FrameFile {
    file: BufWriter<File>,
    header: FileHeader,
}

impl FrameFile {
    fn create(path: &Path, magic: [u8; 8], facts: FileFacts) -> io::Result<Self> {
        let header = FileHeader {
            magic,
            version: VERSION.into(),
            tsc_hz: facts.tsc_hz,
            image: facts.image,
            sub_size: 0,
            nr_cpus: facts.nr_cpus,
        };
        let mut file = BufWriter::new(File::create(path)?);
        file.write_all(&header.encode())?;
        Ok(Self { file, header })
    }

    fn write(&mut self, header: &FrameHeader, payload: &[u8]) -> io::Result<()> {
        if self.header.magic == FILE_MAGIC_TRACE {
            self.header.sub_size = self.header.sub_size.max(header.len);
        }
        self.file.write_all(&header.encode())?;
        self.file.write_all(payload)
    }

    /// Writes the header again, now that the size of a sub-buffer is known.
    fn finish(mut self) -> io::Result<()> {
        self.file.seek(SeekFrom::Start(0))?;
        self.file.write_all(&self.header.encode())?;
        self.file.flush()
    }
}

/// Reads the capture (a missing one is empty) and writes both files into `dir`. `log_rest` are log
/// bytes that the guest had not sent yet.
///
/// # Errors
///
/// If a file cannot be read or written, or the frames have a version that is not ours.
pub fn demux(
    capture: &Path,
    dir: &Path,
    facts: FileFacts,
    log_rest: &[u8],
) -> Result<CaptureCount> {
    let mut trace = FrameFile::create(&dir.join(TRACE), FILE_MAGIC_TRACE, facts)
        .with_context(|| format!("cannot write {TRACE}"))?;
    let mut log = FrameFile::create(&dir.join(LOG), FILE_MAGIC_LOG, facts)
        .with_context(|| format!("cannot write {LOG}"))?;
    let mut reader = FrameReader::open(capture).context("cannot read the capture")?;
    let mut all = CaptureCount::default();
    let mut next_seq = BTreeMap::new();
    while let Some((header, payload)) = reader.next().context("cannot read the capture")? {
        if header.version != VERSION {
            bail!(
                "the guest sends frames of version {}, this tool reads {VERSION}",
                header.version
            );
        }
        let (file, count) = match header.channel {
            CHANNEL_TRACE => (&mut trace, &mut all.trace),
            CHANNEL_LOG => (&mut log, &mut all.log),
            other => bail!("the guest sent a frame on unknown channel {other}"),
        };
        let expected: &mut u32 = next_seq.entry((header.channel, header.cpu)).or_default();
        count.missing += u64::from(header.seq.wrapping_sub(*expected));
        *expected = header.seq.wrapping_add(1);
        count.frames += 1;
        count.bytes += u64::from(header.len);
        file.write(&header, payload)
            .context("cannot write the run's files")?;
    }
    if !log_rest.is_empty() {
        let seq = next_seq.get(&(CHANNEL_LOG, 0)).copied().unwrap_or_default();
        let header = FrameHeader::for_payload(CHANNEL_LOG, 0, seq, log_rest);
        log.write(&header, log_rest)
            .context("cannot write the run's files")?;
    }
    log.finish().context("cannot write the run's files")?;
    trace.finish().context("cannot write the run's files")?;
    all.damage = reader.damage();
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    const FACTS: FileFacts = FileFacts {
        tsc_hz: 1_000_000_000,
        image: 7,
        nr_cpus: 1,
    };

    fn frame(channel: u8, seq: u32, payload: &[u8]) -> Vec<u8> {
        let header = FrameHeader::for_payload(channel, 0, seq, payload);
        [&header.encode(), payload].concat()
    }

    fn run(capture: &[u8], log_rest: &[u8]) -> (tempfile::TempDir, Result<CaptureCount>) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("capture.bin");
        fs::write(&path, capture).unwrap();
        let count = demux(&path, dir.path(), FACTS, log_rest);
        (dir, count)
    }

    #[test]
    fn channels_come_apart_in_order() {
        let frames = [
            frame(1, 0, &[1; 64]),
            frame(0, 0, b"log"),
            frame(1, 1, &[2; 64]),
        ];
        let (dir, count) = run(&frames.concat(), b"rest");
        let count = count.unwrap();
        assert_eq!(
            (count.trace.frames, count.trace.bytes, count.log.frames),
            (2, 128, 1)
        );
        assert_eq!((count.trace.missing, count.damage), (0, Damage::default()));
        let trace = fs::read(dir.path().join(TRACE)).unwrap();
        let (header, len) = FileHeader::decode(&trace).unwrap();
        assert_eq!((header.sub_size, header.image, len), (64, 7, 64));
        assert_eq!(trace[64..], [&*frames[0], &*frames[2]].concat());
        let log = fs::read(dir.path().join(LOG)).unwrap();
        assert_eq!(log[64..], [&*frames[1], &*frame(0, 1, b"rest")].concat());
    }

    #[test]
    fn a_gap_in_the_sequence_is_counted() {
        let (_dir, count) = run(&[frame(1, 0, &[0; 8]), frame(1, 4, &[0; 8])].concat(), b"");
        assert_eq!(count.unwrap().trace.missing, 3);
    }

    #[test]
    fn foreign_channels_and_versions_are_errors() {
        let (_dir, count) = run(&frame(9, 0, b"x"), b"");
        assert!(count.unwrap_err().to_string().contains("channel 9"));
        let mut header = FrameHeader::for_payload(1, 0, 0, b"");
        header.version = 2;
        header.sum = header.sum_over(b"");
        let (_dir, count) = run(&header.encode(), b"");
        assert!(count.unwrap_err().to_string().contains("version 2"));
    }

    #[test]
    fn no_capture_is_an_empty_one() {
        let dir = tempfile::tempdir().unwrap();
        let count = demux(&dir.path().join("none"), dir.path(), FACTS, b"").unwrap();
        assert_eq!(count, CaptureCount::default());
    }
}
