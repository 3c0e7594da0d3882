//! What a machine sends over a serial line besides trace and log, since no host can read its memory: who it is, what is in
//! its memory, and that it has ended.

use super::{u32_at, u64_at};

/// Channel of [`Hello`].
pub const CHANNEL_HELLO: u8 = 2;
/// Channel of memory: an address and what lies behind it ([`MemoryWriter`], [`Memory`]).
pub const CHANNEL_MEMORY: u8 = 3;
/// Channel of [`End`].
pub const CHANNEL_END: u8 = 4;
/// Channels in all.
pub const NR_CHANNELS: usize = 5;

/// Longest payload on a line but for a sub-buffer: what one damaged byte can cost.
pub const MAX_PIECE: usize = 1024;

/// What the host sends: end the measurement.
pub const STOP: u8 = b's';
/// What the host sends: the end has come, and all results with it.
pub const TAKEN: u8 = b'a';
/// What the host sends: the end has come, but results are missing. They are sent anew, and the end behind them.
pub const AGAIN: u8 = b'r';

/// Bytes of a build id (GNU's note of type 3, by SHA-1).
pub const BUILD_ID: usize = 20;

/// What the sum of a frame is combined with on a line, by exclusive or: the beginning of the image's build id. A task may put a whole
/// frame into its events, and who begins to read in the middle of the kernel's would take it for one; but no task knows that id. Who
/// sends is said without it, since that says which id it is.
pub fn key(channel: u8, build_id: &[u8]) -> u64 {
    match channel {
        CHANNEL_HELLO => 0,
        _ => u64_at(build_id, 0).unwrap_or_default(),
    }
}

/// Who sends: the first frame, and again about every second, since a host may come later.
///
/// | offset | field |
/// |---|---|
/// | 0 | build id of the image |
/// | 20 | `u32` number of CPUs that run |
/// | 24 | `u64` TSC frequency in Hz |
/// | 32 | the kernel's command line |
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hello<'a> {
    /// The image.
    pub build_id: [u8; BUILD_ID],
    /// CPUs that run.
    pub nr_cpus: u32,
    /// TSC frequency in Hz.
    pub tsc_hz: u64,
    /// The kernel's command line.
    pub command_line: &'a [u8],
}

/// Bytes of a [`Hello`] before the command line.
pub const HELLO_HEAD: usize = 32;

impl<'a> Hello<'a> {
    /// The bytes before the command line.
    pub fn encode(&self) -> [u8; HELLO_HEAD] {
        let mut out = [0; HELLO_HEAD];
        out[..BUILD_ID].copy_from_slice(&self.build_id);
        out[20..24].copy_from_slice(&self.nr_cpus.to_le_bytes());
        out[24..].copy_from_slice(&self.tsc_hz.to_le_bytes());
        out
    }

    /// Reads a payload; `None` if it is too short.
    pub fn decode(payload: &'a [u8]) -> Option<Self> {
        Some(Self {
            build_id: *payload.first_chunk()?,
            nr_cpus: u32_at(payload, 20)?,
            tsc_hz: u64_at(payload, 24)?,
            command_line: payload.get(HELLO_HEAD..)?,
        })
    }
}

/// The end of a run. Sent until the host has answered, a few times at most.
///
/// | offset | field |
/// |---|---|
/// | 0 | `u32` exit code, as `isa-debug-exit` gets it |
/// | 4 | `u32` number of the first frame of the results on [`CHANNEL_MEMORY`], `u32` behind the last |
/// | 12 | `u32` frames of trace and log that were sent |
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct End {
    /// The exit code.
    pub code: u32,
    /// The first frame of the results.
    pub first: u32,
    /// Behind the last frame of the results. Nothing lies between the two of a machine that could not send them.
    pub next: u32,
    /// Frames of trace and log that were sent.
    pub sent: u32,
}

impl End {
    /// Bytes of the payload.
    pub const SIZE: usize = 16;

    /// The payload.
    pub fn encode(&self) -> [u8; Self::SIZE] {
        let mut out = [0; Self::SIZE];
        for (at, word) in out
            .chunks_exact_mut(4)
            .zip([self.code, self.first, self.next, self.sent])
        {
            at.copy_from_slice(&word.to_le_bytes());
        }
        out
    }

    /// Reads a payload; `None` if it is too short.
    pub fn decode(payload: &[u8]) -> Option<Self> {
        Some(Self {
            code: u32_at(payload, 0)?,
            first: u32_at(payload, 4)?,
            next: u32_at(payload, 8)?,
            sent: u32_at(payload, 12)?,
        })
    }
}

/// Bytes of an address, and of what stands before each run.
const ADDRESS: usize = 8;
const RUN: usize = 8;

/// Makes a payload of [`CHANNEL_MEMORY`]: an address, and runs of words behind it, each with its offset and its length in
/// bytes (two `u32`). What is left out is zero, or as it was.
#[derive(Debug)]
pub struct MemoryWriter<'b> {
    out: &'b mut [u8],
    len: usize,
    /// Where the run under way has its head, and the offset behind its last word.
    run: Option<(usize, u32)>,
}

impl<'b> MemoryWriter<'b> {
    /// Begins a payload in `out`, about what lies behind `address`.
    ///
    /// # Panics
    /// If there is no room for an address.
    pub fn new(out: &'b mut [u8], address: u64) -> Self {
        out[..ADDRESS].copy_from_slice(&address.to_le_bytes());
        Self {
            out,
            len: ADDRESS,
            run: None,
        }
    }

    /// Adds the word at this offset, which is above those of the words before; false if there is no room.
    pub fn push(&mut self, offset: u32, word: u64) -> bool {
        let run = self.run.filter(|(_, behind)| *behind == offset);
        let (head, at) = match run {
            Some((head, _)) => (head, self.len),
            None => (self.len, self.len + RUN),
        };
        let Some(room) = self.out.get_mut(at..at + 8) else {
            return false;
        };
        room.copy_from_slice(&word.to_le_bytes());
        self.len = at + 8;
        let words = [
            run.map_or(Some(offset), |_| None),
            Some((self.len - head - RUN) as u32),
        ];
        for (at, word) in [head, head + 4].into_iter().zip(words) {
            if let Some(word) = word {
                self.out[at..at + 4].copy_from_slice(&word.to_le_bytes());
            }
        }
        self.run = Some((head, offset.wrapping_add(8)));
        true
    }

    /// Bytes of the payload; none if it has no word.
    pub fn len(&self) -> usize {
        match self.run {
            Some(_) => self.len,
            None => 0,
        }
    }

    /// Whether it has no word.
    pub fn is_empty(&self) -> bool {
        self.run.is_none()
    }
}

/// The runs of a payload of [`CHANNEL_MEMORY`]: address and bytes. Ends at the first that is not whole.
#[derive(Clone, Debug)]
pub struct Memory<'a> {
    base: u64,
    rest: &'a [u8],
}

impl<'a> Memory<'a> {
    /// Reads a payload; `None` if it is too short for an address.
    pub fn decode(payload: &'a [u8]) -> Option<Self> {
        Some(Self {
            base: u64_at(payload, 0)?,
            rest: &payload[ADDRESS..],
        })
    }
}

impl<'a> Iterator for Memory<'a> {
    type Item = (u64, &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let (offset, len) = (u32_at(self.rest, 0)?, u32_at(self.rest, 4)? as usize);
        let bytes = self.rest.get(RUN..RUN.checked_add(len)?)?;
        self.rest = &self.rest[RUN + len..];
        Some((self.base.wrapping_add(offset.into()), bytes))
    }
}
