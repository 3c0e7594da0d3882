//! Takes the capture apart: one stream of frames becomes `trace.bin` and `log.bin`.
//!
//! A frame that is damaged or out of sequence is counted, never passed over in silence; what
//! follows is found again by the next frame's magic.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, BufWriter, Seek, SeekFrom, Write};
use std::path::Path;

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};
use takt_decode::FrameWriter;
use takt_tracer::wire::{
    self, CHANNEL_LOG, CHANNEL_TRACE, FILE_MAGIC_LOG, FILE_MAGIC_TRACE, FileHeader, FrameHeader,
    SubHeader, VERSION,
};

use super::folder::{LOG, TRACE};
use takt_guest::Elf;
use takt_guest::frames::{Damage, FrameScanner};
use takt_guest::rings;

/// What the file headers say, apart from what the capture itself shows.
#[derive(Clone, Copy, Debug)]
pub struct FileFacts {
    /// TSC frequency in Hz.
    pub tsc_hz: u64,
    /// Checksum of the image.
    pub image: u64,
    /// Number of CPUs.
    pub nr_cpus: u32,
    /// Sub-buffers of a ring; 0 if the image does not say.
    pub nr_subs: u32,
}

impl FileFacts {
    /// The facts of an image's run.
    #[must_use]
    pub fn new(elf: &Elf, tsc_hz: u64, nr_cpus: u32) -> Self {
        Self {
            tsc_hz,
            image: wire::checksum(&elf.data),
            nr_cpus,
            nr_subs: elf
                .symbol(rings::NR_SUBS)
                .map_or(0, |nr| u32::try_from(nr).unwrap_or(0)),
        }
    }
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
    /// Events in them, by their headers.
    pub events: u64,
    /// What was no sound frame.
    pub damage: Damage,
    /// Frames that the guest could not get rid of, by its own count.
    #[serde(default)]
    pub lost: u64,
    /// How often the guest began anew. What it had sent before is not counted, and in no file.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub restarts: u64,
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

impl CaptureCount {
    /// Lost frames that left no gap, because none came behind them.
    #[must_use]
    pub fn lost_at_end(&self) -> u64 {
        self.lost
            .saturating_sub(self.log.missing.saturating_add(self.trace.missing))
    }
}

/// A sub-buffer's size in the header of a trace that has none.
const NO_SUB_BUFFER: u32 = 4096;

/// A file of frames being written.
struct FrameFile {
    writer: FrameWriter<BufWriter<File>>,
    header: FileHeader,
    longest: u32,
}

impl FrameFile {
    fn create(path: &Path, magic: [u8; 8], facts: FileFacts) -> io::Result<Self> {
        let header = FileHeader {
            magic,
            version: VERSION.into(),
            tsc_hz: facts.tsc_hz,
            image: facts.image,
            sub_size: NO_SUB_BUFFER,
            nr_cpus: facts.nr_cpus,
            nr_subs: facts.nr_subs,
        };
        let file = BufWriter::new(File::create(path)?);
        Ok(Self {
            writer: FrameWriter::new(file, &header)?,
            header,
            longest: 0,
        })
    }

    fn write(&mut self, header: &FrameHeader, payload: &[u8]) -> io::Result<()> {
        self.longest = self.longest.max(header.len);
        self.writer.captured(header, payload)
    }

    /// Writes the header again, now that the size of a sub-buffer is known.
    fn finish(mut self) -> io::Result<()> {
        let mut file = self.writer.finish()?;
        if self.header.magic == FILE_MAGIC_TRACE && self.longest != 0 {
            self.header.sub_size = self.longest;
            file.seek(SeekFrom::Start(0))?;
            file.write_all(&self.header.encode())?;
            file.flush()?;
        }
        Ok(())
    }
}

/// What the guest had not sent when it ended.
#[derive(Clone, Debug, Default)]
pub struct Rest {
    /// Bytes of the log.
    pub log: Vec<u8>,
    /// Sub-buffers of the trace.
    pub trace: Vec<rings::Rest>,
}

/// Reads the capture (a missing one is empty) and writes both files into `dir`, with the rest
/// behind it.
///
/// # Errors
///
/// If a file cannot be read or written, or the frames have a version that is not ours.
pub fn demux(capture: &Path, dir: &Path, facts: FileFacts, rest: &Rest) -> Result<CaptureCount> {
    let mut demux = Demux::new(dir, facts)?;
    let mut reader = FrameScanner::open(capture).context("cannot read the capture")?;
    let mut restarts = 0;
    while let Some((header, payload)) = reader.next().context("cannot read the capture")? {
        if demux.is_of_next_boot(&header) {
            restarts += 1;
            demux = Demux::new(dir, facts)?;
        }
        demux.take(&header, payload)?;
    }
    demux.count.restarts = restarts;
    demux.count.damage = reader.damage();
    demux.add_rest(rest)?;
    demux
        .log
        .finish()
        .and_then(|()| demux.trace.finish())
        .context(CANNOT_WRITE)?;
    Ok(demux.count)
}

const CANNOT_WRITE: &str = "cannot write the run's files";

/// The work in progress.
struct Demux {
    trace: FrameFile,
    log: FrameFile,
    /// The next frame of each channel and CPU.
    next_frame: BTreeMap<(u8, u8), u32>,
    /// The next sub-buffer of each CPU.
    next_sub: BTreeMap<u8, u64>,
    count: CaptureCount,
}

impl Demux {
    /// Begins both files.
    fn new(dir: &Path, facts: FileFacts) -> Result<Self> {
        let create = |name: &str, magic| {
            let path = dir.join(name);
            // Whoever still has the one that is there writes its end into that one.
            match fs::remove_file(&path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
                _ => FrameFile::create(&path, magic, facts),
            }
            .with_context(|| format!("cannot write {name}"))
        };
        Ok(Self {
            trace: create(TRACE, FILE_MAGIC_TRACE)?,
            log: create(LOG, FILE_MAGIC_LOG)?,
            next_frame: BTreeMap::new(),
            next_sub: BTreeMap::new(),
            count: CaptureCount::default(),
        })
    }

    /// Whether the guest has begun anew: a channel's numbers begin again. What other channels have sent since then goes with
    /// what was before; their next number tells that it is missing.
    fn is_of_next_boot(&self, header: &FrameHeader) -> bool {
        let next = self.next_frame.get(&(header.channel, header.cpu));
        header.seq == 0 && next.is_some_and(|next| *next != 0)
    }

    /// Takes in a sound frame.
    fn take(&mut self, header: &FrameHeader, payload: &[u8]) -> Result<()> {
        if header.version != VERSION {
            bail!(
                "the guest sends frames of version {}, this tool reads {VERSION}",
                header.version
            );
        }
        let (file, count) = match header.channel {
            CHANNEL_TRACE => (&mut self.trace, &mut self.count.trace),
            CHANNEL_LOG => (&mut self.log, &mut self.count.log),
            other => bail!("the guest sent a frame on unknown channel {other}"),
        };
        let expected = self
            .next_frame
            .entry((header.channel, header.cpu))
            .or_default();
        count.missing += u64::from(header.seq.wrapping_sub(*expected));
        *expected = header.seq.wrapping_add(1);
        count.frames += 1;
        count.bytes += u64::from(header.len);
        file.write(header, payload).context(CANNOT_WRITE)?;
        if let Some(sub) = SubHeader::decode(payload).filter(|_| header.channel == CHANNEL_TRACE) {
            self.count.events += sub.records();
            self.next_sub.insert(header.cpu, sub.seq.saturating_add(1));
        }
        Ok(())
    }

    /// Makes frames of what was not sent. A guest that ended between sending a sub-buffer and
    /// noting that has it in both places.
    fn add_rest(&mut self, rest: &Rest) -> Result<()> {
        if !rest.log.is_empty() {
            self.add_frame(CHANNEL_LOG, 0, &rest.log)?;
        }
        for sub in &rest.trace {
            if self
                .next_sub
                .get(&sub.cpu)
                .is_none_or(|&next| sub.seq >= next)
            {
                self.add_frame(CHANNEL_TRACE, sub.cpu, &sub.bytes)?;
            }
        }
        Ok(())
    }

    fn add_frame(&mut self, channel: u8, cpu: u8, payload: &[u8]) -> Result<()> {
        let seq = self
            .next_frame
            .get(&(channel, cpu))
            .copied()
            .unwrap_or_default();
        self.take(
            &FrameHeader::for_payload(channel, cpu, seq, payload),
            payload,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FACTS: FileFacts = FileFacts {
        tsc_hz: 1_000_000_000,
        image: 7,
        nr_cpus: 1,
        nr_subs: 0,
    };

    fn frame(channel: u8, seq: u32, payload: &[u8]) -> Vec<u8> {
        let header = FrameHeader::for_payload(channel, 0, seq, payload);
        [&header.encode(), payload].concat()
    }

    fn run(capture: &[u8], log_rest: &[u8]) -> (tempfile::TempDir, Result<CaptureCount>) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("capture.bin");
        fs::write(&path, capture).unwrap();
        let rest = Rest {
            log: log_rest.to_vec(),
            trace: Vec::new(),
        };
        let count = demux(&path, dir.path(), FACTS, &rest);
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
            (2, 128, 2)
        );
        assert_eq!((count.trace.missing, count.damage), (0, Damage::default()));
        let trace = fs::read(dir.path().join(TRACE)).unwrap();
        let (header, len) = FileHeader::decode(&trace).unwrap();
        assert_eq!((header.sub_size, header.image, len), (64, 7, 64));
        assert_eq!(trace[64..], [&*frames[0], &*frames[2]].concat());
        let log = fs::read(dir.path().join(LOG)).unwrap();
        assert_eq!(log[64..], [&*frames[1], &*frame(0, 1, b"rest")].concat());
    }

    /// Of a guest that begins anew the last boot is kept.
    #[test]
    fn boots_do_not_mix() {
        let first = [
            frame(1, 0, &[1; 64]),
            frame(0, 0, b"one"),
            frame(0, 1, b"more"),
        ];
        let last = [
            frame(0, 0, b"two"),
            frame(1, 0, &[2; 64]),
            frame(1, 1, &[3; 64]),
        ];
        let (dir, count) = run(&[first.concat(), last.concat()].concat(), b"rest");
        let count = count.unwrap();
        assert_eq!(
            (count.restarts, count.trace.missing, count.log.missing),
            (1, 0, 0)
        );
        assert_eq!((count.trace.frames, count.log.frames), (2, 2));
        let trace = fs::read(dir.path().join(TRACE)).unwrap();
        assert_eq!(trace[64..], last[1..].concat());
        let log = fs::read(dir.path().join(LOG)).unwrap();
        assert_eq!(log[64..], [&*last[0], &*frame(0, 1, b"rest")].concat());
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
        header.version = VERSION + 1;
        header.sum = header.sum_over(b"");
        let (_dir, count) = run(&header.encode(), b"");
        assert!(count.unwrap_err().to_string().contains("version 3"));
    }

    #[test]
    fn sub_buffers_that_were_not_sent_come_behind_those_that_were() {
        let sub = |seq| {
            let header = SubHeader {
                seq,
                version: SubHeader::VERSION,
                ..SubHeader::default()
            };
            [&header.encode()[..], &[0; 24]].concat()
        };
        let dir = tempfile::tempdir().unwrap();
        let capture = dir.path().join("capture.bin");
        fs::write(&capture, frame(CHANNEL_TRACE, 0, &sub(0))).unwrap();
        let unsent = |seq| rings::Rest {
            cpu: 0,
            seq,
            bytes: sub(seq),
        };
        let rest = Rest {
            log: Vec::new(),
            trace: vec![unsent(0), unsent(1)],
        };
        let count = demux(&capture, dir.path(), FACTS, &rest).unwrap();
        assert_eq!((count.trace.frames, count.trace.missing), (2, 0));
        let trace = fs::read(dir.path().join(TRACE)).unwrap();
        assert_eq!(
            trace[64..],
            [frame(1, 0, &sub(0)), frame(1, 1, &sub(1))].concat()
        );
    }

    #[test]
    fn no_capture_is_an_empty_one() {
        let dir = tempfile::tempdir().unwrap();
        let count = demux(
            &dir.path().join("none"),
            dir.path(),
            FACTS,
            &Rest::default(),
        )
        .unwrap();
        assert_eq!(count, CaptureCount::default());
    }
}
