//! Frames, and the files they are kept in.

use super::{Sum, VERSION, u32_at, u64_at};

/// The first bytes of a frame.
pub const FRAME_MAGIC: [u8; 4] = *b"TKF1";
/// The first bytes of `trace.bin`.
pub const FILE_MAGIC_TRACE: [u8; 8] = *b"TAKTTRC1";
/// The first bytes of `log.bin`.
pub const FILE_MAGIC_LOG: [u8; 8] = *b"TAKTLOG1";
/// Channel of log frames: runs of defmt bytes.
pub const CHANNEL_LOG: u8 = 0;
/// Channel of trace frames: one sub-buffer each.
pub const CHANNEL_TRACE: u8 = 1;

/// The header of a frame.
///
/// | offset | field |
/// |---|---|
/// | 0 | `b"TKF1"` |
/// | 4 | `u8 channel`, `u8 cpu`, `u16 version` |
/// | 8 | `u32 len` of the payload |
/// | 12 | `u32 seq` per channel and CPU |
/// | 16 | `u64 sum` |
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameHeader {
    /// [`CHANNEL_LOG`] or [`CHANNEL_TRACE`].
    pub channel: u8,
    /// The CPU that sent it.
    pub cpu: u8,
    /// Format version.
    pub version: u16,
    /// Bytes of the payload.
    pub len: u32,
    /// 0, 1, 2 … per channel and CPU.
    pub seq: u32,
    /// Checksum over the first 16 bytes of the header and the payload.
    pub sum: u64,
}

impl FrameHeader {
    /// Bytes of a frame header.
    pub const SIZE: usize = 24;

    /// The header for `payload`, of the current version and with its sum.
    ///
    /// # Context
    /// IRQ-safe; runs over the whole payload, so call it where time is free.
    pub fn for_payload(channel: u8, cpu: u8, seq: u32, payload: &[u8]) -> Self {
        let mut header = Self {
            channel,
            cpu,
            version: VERSION,
            len: payload.len() as u32,
            seq,
            sum: 0,
        };
        header.sum = header.sum_over(payload);
        header
    }

    /// What `sum` must be for `payload`.
    pub fn sum_over(&self, payload: &[u8]) -> u64 {
        Sum::new()
            .bytes(&self.encode()[..16])
            .bytes(payload)
            .value()
    }

    /// The header as bytes.
    pub fn encode(&self) -> [u8; Self::SIZE] {
        let tag = u64::from(u32::from_le_bytes(FRAME_MAGIC));
        let from =
            u64::from(self.channel) | u64::from(self.cpu) << 8 | u64::from(self.version) << 16;
        let mut out = [0; Self::SIZE];
        // Written down word by word, which is less than a loop.
        if let ([first, second, third], _) = out.as_chunks_mut() {
            *first = (tag | from << 32).to_le_bytes();
            *second = (u64::from(self.len) | u64::from(self.seq) << 32).to_le_bytes();
            *third = self.sum.to_le_bytes();
        }
        out
    }

    /// Reads a header; `None` if `bytes` is too short or does not begin with [`FRAME_MAGIC`].
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        if bytes.get(..4)? != FRAME_MAGIC {
            return None;
        }
        let [channel, cpu, version @ ..] = u32_at(bytes, 4)?.to_le_bytes();
        Some(Self {
            channel,
            cpu,
            version: u16::from_le_bytes(version),
            len: u32_at(bytes, 8)?,
            seq: u32_at(bytes, 12)?,
            sum: u64_at(bytes, 16)?,
        })
    }
}

/// The header of `trace.bin` and `log.bin`.
///
/// | offset | field |
/// |---|---|
/// | 0 | magic |
/// | 8 | `u32` header length, `u32 version` |
/// | 16 | `u64` TSC frequency in Hz |
/// | 24 | `u64` checksum of the image |
/// | 32 | `u32` sub-buffer size, `u32` number of CPUs |
/// | 40 | `u32` sub-buffers of a ring |
/// | 44 | zero |
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileHeader {
    /// [`FILE_MAGIC_TRACE`] or [`FILE_MAGIC_LOG`].
    pub magic: [u8; 8],
    /// Format version.
    pub version: u32,
    /// TSC frequency in Hz.
    pub tsc_hz: u64,
    /// [`checksum`](super::checksum) of the ELF file.
    pub image: u64,
    /// Bytes of a sub-buffer.
    pub sub_size: u32,
    /// Number of CPUs.
    pub nr_cpus: u32,
    /// Sub-buffers of each CPU's ring; 0 where that is not known.
    pub nr_subs: u32,
}

impl FileHeader {
    /// Bytes of the header; a reader skips what a longer one has more.
    pub const SIZE: usize = 64;

    /// The header as bytes.
    pub fn encode(&self) -> [u8; Self::SIZE] {
        let mut out = [0; Self::SIZE];
        out[..8].copy_from_slice(&self.magic);
        out[8..12].copy_from_slice(&(Self::SIZE as u32).to_le_bytes());
        out[12..16].copy_from_slice(&self.version.to_le_bytes());
        out[16..24].copy_from_slice(&self.tsc_hz.to_le_bytes());
        out[24..32].copy_from_slice(&self.image.to_le_bytes());
        out[32..36].copy_from_slice(&self.sub_size.to_le_bytes());
        out[36..40].copy_from_slice(&self.nr_cpus.to_le_bytes());
        out[40..44].copy_from_slice(&self.nr_subs.to_le_bytes());
        out
    }

    /// Reads a header and its length in bytes; `None` if `bytes` is too short. Magic and version are not judged.
    pub fn decode(bytes: &[u8]) -> Option<(Self, u32)> {
        let header = Self {
            magic: bytes.get(..8)?.try_into().ok()?,
            version: u32_at(bytes, 12)?,
            tsc_hz: u64_at(bytes, 16)?,
            image: u64_at(bytes, 24)?,
            sub_size: u32_at(bytes, 32)?,
            nr_cpus: u32_at(bytes, 36)?,
            nr_subs: u32_at(bytes, 40)?,
        };
        bytes.get(..Self::SIZE)?;
        Some((header, u32_at(bytes, 8)?))
    }
}
