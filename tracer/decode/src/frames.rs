//! Reading the frames of `trace.bin` and `log.bin`, or of a live stream.

use std::collections::BTreeMap;
use std::io::{self, ErrorKind, Read};

use super::{Damage, Error, Fault, HeaderFault};
use takt_tracer::wire::{
    CHANNEL_LOG, CHANNEL_TRACE, FILE_MAGIC_LOG, FILE_MAGIC_TRACE, FRAME_MAGIC, FileHeader,
    FrameHeader, SUB_HEADER, VERSION, is_readable,
};

/// Longest payload of a log frame.
pub const MAX_LOG_PAYLOAD: u32 = 1 << 20;

/// A frame that is as it should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// Where its header begins, in bytes from the beginning of the input.
    pub offset: u64,
    /// Its header.
    pub header: FrameHeader,
    /// What it carries.
    pub payload: Vec<u8>,
}

/// What comes next in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Entry {
    /// A frame.
    Frame(Frame),
    /// Something that is not as it should be.
    Damage(Damage),
}

/// Reads frames one after the other, with memory for one.
///
/// A frame that is damaged is reported, and reading goes on at the next [`FRAME_MAGIC`] with a good frame behind it.
#[derive(Debug)]
pub struct FrameReader<R> {
    input: R,
    header: FileHeader,
    channel: u8,
    /// What was read of the input; from `start` on it is still to be used.
    buffer: Vec<u8>,
    start: usize,
    /// Where in the input `start` is.
    offset: u64,
    is_at_end: bool,
    next: BTreeMap<u8, u32>,
    /// A gap was reported; this is the frame behind it.
    pending: Option<Frame>,
}

impl<R: Read> FrameReader<R> {
    /// Begins a `trace.bin`.
    ///
    /// # Errors
    /// [`Error`] if the input cannot be read or its header is unusable.
    pub fn trace(input: R) -> Result<Self, Error> {
        Self::new(input, FILE_MAGIC_TRACE, CHANNEL_TRACE, "trace")
    }

    /// Begins a `log.bin`.
    ///
    /// # Errors
    /// [`Error`] if the input cannot be read or its header is unusable.
    pub fn log(input: R) -> Result<Self, Error> {
        Self::new(input, FILE_MAGIC_LOG, CHANNEL_LOG, "log")
    }

    fn new(input: R, magic: [u8; 8], channel: u8, kind: &'static str) -> Result<Self, Error> {
        let header = FileHeader {
            magic,
            version: 0,
            tsc_hz: 0,
            image: 0,
            sub_size: 0,
            nr_cpus: 0,
            nr_subs: 0,
        };
        let mut reader = Self {
            input,
            header,
            channel,
            buffer: Vec::new(),
            start: 0,
            offset: 0,
            is_at_end: false,
            next: BTreeMap::new(),
            pending: None,
        };
        reader.fill(FileHeader::SIZE)?;
        let Some((header, len)) = FileHeader::decode(reader.rest()) else {
            let found = reader.rest().len() as u64;
            return Err(Error::Header {
                offset: found,
                fault: HeaderFault::Short { found },
            });
        };
        check_header(&header, len, magic, kind)
            .map_err(|(offset, fault)| Error::Header { offset, fault })?;
        reader.fill(len as usize)?;
        if reader.rest().len() < len as usize {
            let found = reader.rest().len() as u64;
            return Err(Error::Header {
                offset: found,
                fault: HeaderFault::Short { found },
            });
        }
        reader.skip(len as usize);
        reader.header = header;
        Ok(reader)
    }

    /// The header of the file.
    pub const fn header(&self) -> &FileHeader {
        &self.header
    }

    /// The next frame or damage; `None` at the end.
    ///
    /// # Errors
    /// [`Error::Io`] if the input cannot be read.
    pub fn next_entry(&mut self) -> Result<Option<Entry>, Error> {
        if let Some(frame) = self.pending.take() {
            return Ok(Some(Entry::Frame(frame)));
        }
        match self.take_frame()? {
            Taken::End => Ok(None),
            Taken::Good(frame) => Ok(Some(self.in_order(frame))),
            Taken::Bad(fault) => self
                .resynchronise(fault)
                .map(|damage| Some(Entry::Damage(damage))),
        }
    }

    /// Reports a gap before the frame that is behind it.
    fn in_order(&mut self, frame: Frame) -> Entry {
        let FrameHeader {
            cpu, seq: found, ..
        } = frame.header;
        let expected = self.next.insert(cpu, found.wrapping_add(1)).unwrap_or(0);
        if expected == found {
            return Entry::Frame(frame);
        }
        let damage = Damage {
            offset: frame.offset,
            skipped: 0,
            fault: Fault::FrameGap {
                cpu,
                expected,
                found,
            },
        };
        self.pending = Some(frame);
        Entry::Damage(damage)
    }

    /// Takes the frame at the present place if it is good; else stays there.
    fn take_frame(&mut self) -> Result<Taken, Error> {
        self.fill(FrameHeader::SIZE)?;
        if self.rest().is_empty() {
            return Ok(Taken::End);
        }
        let shared = self.rest().len().min(FRAME_MAGIC.len());
        if self.rest()[..shared] != FRAME_MAGIC[..shared] {
            return Ok(Taken::Bad(Fault::NoFrame));
        }
        let Some(header) = FrameHeader::decode(self.rest()) else {
            let missing = (FrameHeader::SIZE - self.rest().len()) as u64;
            return Ok(Taken::Bad(Fault::Truncated { missing }));
        };
        if let Err(fault) = self.check_frame(&header) {
            return Ok(Taken::Bad(fault));
        }
        let size = FrameHeader::SIZE + header.len as usize;
        self.fill(size)?;
        let Some(payload) = self.rest().get(FrameHeader::SIZE..size) else {
            return Ok(Taken::Bad(Fault::Truncated {
                missing: (size - self.rest().len()) as u64,
            }));
        };
        let computed = header.sum_over(payload);
        if computed != header.sum {
            return Ok(Taken::Bad(Fault::Sum {
                found: header.sum,
                computed,
            }));
        }
        let frame = Frame {
            offset: self.offset,
            header,
            payload: payload.to_vec(),
        };
        self.skip(size);
        Ok(Taken::Good(frame))
    }

    fn check_frame(&self, header: &FrameHeader) -> Result<(), Fault> {
        if !is_readable(header.version.into()) {
            return Err(Fault::Version {
                found: header.version,
                known: VERSION,
            });
        }
        if header.channel != self.channel {
            return Err(Fault::Channel {
                found: header.channel,
                expected: self.channel,
            });
        }
        if u32::from(header.cpu) >= self.header.nr_cpus {
            return Err(Fault::Cpu {
                found: header.cpu,
                nr_cpus: self.header.nr_cpus,
            });
        }
        let is_log = self.channel == CHANNEL_LOG;
        let expected = if is_log {
            MAX_LOG_PAYLOAD
        } else {
            self.header.sub_size
        };
        if header.len > expected || (header.len != expected && !is_log) {
            return Err(Fault::Length {
                found: header.len,
                expected,
            });
        }
        Ok(())
    }

    /// Passes over everything up to the next good frame or the end of the input.
    fn resynchronise(&mut self, fault: Fault) -> Result<Damage, Error> {
        let offset = self.offset;
        loop {
            self.skip(1);
            self.seek_magic()?;
            match self.take_frame()? {
                Taken::End => break,
                Taken::Bad(_) => {}
                Taken::Good(frame) => {
                    let found = frame.offset;
                    let Entry::Frame(frame) = self.in_order(frame) else {
                        // A gap is what this damage has made: one report is enough.
                        return Ok(Damage {
                            offset,
                            skipped: found - offset,
                            fault,
                        });
                    };
                    self.pending = Some(frame);
                    return Ok(Damage {
                        offset,
                        skipped: found - offset,
                        fault,
                    });
                }
            }
        }
        Ok(Damage {
            offset,
            skipped: self.offset - offset,
            fault,
        })
    }

    /// Passes over everything that cannot be the beginning of a frame.
    fn seek_magic(&mut self) -> Result<(), Error> {
        loop {
            self.fill(FrameHeader::SIZE)?;
            let is_start = |window: &[u8]| {
                FRAME_MAGIC.starts_with(&window[..window.len().min(FRAME_MAGIC.len())])
            };
            let found = (0..self.rest().len()).find(|at| is_start(&self.rest()[*at..]));
            self.skip(found.unwrap_or(self.rest().len()));
            if found.is_some() || self.is_at_end {
                return Ok(());
            }
        }
    }

    /// What was read and not used yet.
    fn rest(&self) -> &[u8] {
        &self.buffer[self.start..]
    }

    /// Reads on until `len` unused bytes are there, or the end of the input.
    fn fill(&mut self, len: usize) -> Result<(), Error> {
        if self.rest().len() < len {
            self.buffer.drain(..self.start);
            self.start = 0;
        }
        while self.buffer.len() < self.start + len && !self.is_at_end {
            match read_on(&mut self.input, &mut self.buffer) {
                Ok(count) => self.is_at_end = count == 0,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(source) => {
                    return Err(Error::Io {
                        offset: self.offset + self.rest().len() as u64,
                        source,
                    });
                }
            }
        }
        Ok(())
    }

    /// Uses up bytes that were read.
    fn skip(&mut self, len: usize) {
        let len = len.min(self.rest().len());
        self.start += len;
        self.offset += len as u64;
    }
}

/// What `take_frame` has found.
enum Taken {
    End,
    Good(Frame),
    Bad(Fault),
}

/// Reads some bytes behind others. For any kind of input, so that it is compiled once.
fn read_on(input: &mut dyn Read, buffer: &mut Vec<u8>) -> io::Result<usize> {
    let have = buffer.len();
    buffer.resize(have + CHUNK, 0);
    let read = input.read(&mut buffer[have..]);
    buffer.truncate(have + *read.as_ref().unwrap_or(&0));
    read
}

/// How much is read at once.
const CHUNK: usize = 16 << 10;

fn check_header(
    header: &FileHeader,
    len: u32,
    magic: [u8; 8],
    expected: &'static str,
) -> Result<(), (u64, HeaderFault)> {
    if header.magic != magic {
        return Err((
            0,
            HeaderFault::Magic {
                found: header.magic,
                expected,
            },
        ));
    }
    if !is_readable(header.version) {
        return Err((
            12,
            HeaderFault::Version {
                found: header.version,
                known: VERSION.into(),
            },
        ));
    }
    let is_log = magic == FILE_MAGIC_LOG;
    let checks = [
        (
            8,
            "the header length",
            len.into(),
            (FileHeader::SIZE as u32..=4096).contains(&len),
        ),
        (16, "the TSC frequency", header.tsc_hz, header.tsc_hz != 0),
        (
            32,
            "the sub-buffer size",
            header.sub_size.into(),
            is_log || is_sub_size(header.sub_size),
        ),
        (
            36,
            "the number of CPUs",
            header.nr_cpus.into(),
            (1..=256).contains(&header.nr_cpus),
        ),
    ];
    match checks.into_iter().find(|(.., is_good)| !is_good) {
        Some((offset, what, found, _)) => Err((offset, HeaderFault::Value { what, found })),
        None => Ok(()),
    }
}

fn is_sub_size(size: u32) -> bool {
    size.is_power_of_two() && size > SUB_HEADER && size < 1 << 24
}
