//! [`FrameScanner`]: sound frames out of a stream, whatever lies between them.

use std::io::{self, Read};

use serde::{Deserialize, Serialize};
use takt_tracer::wire::line::key;
use takt_tracer::wire::{FRAME_MAGIC, FrameHeader};

/// No frame is longer than this; a header that says so is damaged.
const MAX_PAYLOAD: u32 = 16 << 20;

/// Whether a header can be one, as far as that can be told before its payload is there.
pub type IsPlausible = fn(&FrameHeader) -> bool;

/// What in a stream was no sound frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Damage {
    /// Frames whose checksum or length is wrong.
    pub frames: u64,
    /// Bytes that belong to no sound frame.
    pub bytes: u64,
    /// The stream ends inside a frame.
    pub is_cut: bool,
}

/// Reads sound frames. After a damaged one the search goes on right behind its magic.
pub struct FrameScanner<R> {
    input: R,
    /// The frame given out last, or what is being looked at.
    buffer: Vec<u8>,
    /// How much of `buffer` was given out.
    used: usize,
    damage: Damage,
    is_plausible: IsPlausible,
    /// What belongs to no sound frame, if that is wanted.
    stray: Option<Vec<u8>>,
    /// What sums on a line are combined with.
    build_id: Vec<u8>,
}

impl<R> std::fmt::Debug for FrameScanner<R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FrameScanner")
            .field("damage", &self.damage)
            .finish_non_exhaustive()
    }
}

impl FrameScanner<Box<dyn Read>> {
    /// Reads a file; one that is not there is empty.
    ///
    /// # Errors
    ///
    /// If it is there and cannot be opened.
    pub fn open(path: &std::path::Path) -> io::Result<Self> {
        let input: Box<dyn Read> = match takt_base::input::open(path) {
            Ok(file) => Box::new(io::BufReader::with_capacity(1 << 16, file)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Box::new(io::empty()),
            Err(error) => return Err(error),
        };
        Ok(Self::new(input))
    }
}

impl<R: Read> FrameScanner<R> {
    /// Reads frames from `input`, which should be buffered.
    pub fn new(input: R) -> Self {
        Self {
            input,
            buffer: Vec::new(),
            used: 0,
            damage: Damage::default(),
            is_plausible: |header| header.len <= MAX_PAYLOAD,
            stray: None,
            build_id: Vec::new(),
        }
    }

    /// The same from a serial line of a machine whose image has this build id: where a header is damaged, what it says must not
    /// be waited for. What belongs to no frame is kept.
    pub fn of_line(input: R, is_plausible: IsPlausible, build_id: Vec<u8>) -> Self {
        Self {
            build_id,
            is_plausible,
            stray: Some(Vec::new()),
            ..Self::new(input)
        }
    }

    /// What has come and belongs to no sound frame, since this was asked last.
    pub fn take_stray(&mut self) -> Vec<u8> {
        self.stray.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// No more comes for a while: what is there of a frame will not become one.
    pub fn give_up(&mut self) {
        self.buffer.drain(..std::mem::take(&mut self.used));
        if FrameHeader::decode(&self.buffer).is_some() {
            self.damage.frames += 1;
        }
        if !self.buffer.is_empty() {
            self.skip_to_magic();
        }
    }

    /// What was no sound frame so far is nobody's.
    pub fn forget_damage(&mut self) {
        self.damage = Damage::default();
    }

    /// What is read from.
    pub fn input(&mut self) -> &mut R {
        &mut self.input
    }

    /// What was no sound frame so far.
    #[must_use]
    pub fn damage(&self) -> Damage {
        self.damage
    }

    /// The next sound frame, with the sum that it has in a file.
    ///
    /// # Errors
    ///
    /// If the input cannot be read.
    #[expect(
        clippy::should_implement_trait,
        reason = "it lends the payload, an Iterator cannot"
    )]
    pub fn next(&mut self) -> io::Result<Option<(FrameHeader, &[u8])>> {
        self.buffer.drain(..std::mem::take(&mut self.used));
        let header = loop {
            if !self.fill(FrameHeader::SIZE)? {
                self.damage.is_cut |= self.buffer.starts_with(&FRAME_MAGIC);
                self.skip(self.buffer.len());
                return Ok(None);
            }
            let Some(mut header) = FrameHeader::decode(&self.buffer) else {
                self.skip_to_magic();
                continue;
            };
            header.sum ^= key(header.channel, &self.build_id);
            if self.is_sound(&header)? {
                break header;
            }
            self.skip_to_magic();
        };
        self.used = FrameHeader::SIZE + header.len as usize;
        Ok(Some((header, &self.buffer[FrameHeader::SIZE..self.used])))
    }

    /// Whether the payload is there and has its checksum.
    fn is_sound(&mut self, header: &FrameHeader) -> io::Result<bool> {
        let end = FrameHeader::SIZE + header.len as usize;
        if !(self.is_plausible)(header) {
            self.damage.frames += 1;
            return Ok(false);
        }
        if !self.fill(end)? {
            self.damage.is_cut = true;
            return Ok(false);
        }
        let is_sound = header.sum_over(&self.buffer[FrameHeader::SIZE..end]) == header.sum;
        self.damage.frames += u64::from(!is_sound);
        Ok(is_sound)
    }

    /// Reads on until `len` bytes are there; false if the input ends before.
    fn fill(&mut self, len: usize) -> io::Result<bool> {
        let missing = len.saturating_sub(self.buffer.len()) as u64;
        self.input
            .by_ref()
            .take(missing)
            .read_to_end(&mut self.buffer)?;
        Ok(self.buffer.len() >= len)
    }

    /// Drops at least one byte, up to the next magic or what may be the beginning of one.
    fn skip_to_magic(&mut self) {
        let magic = self.buffer[1..]
            .windows(FRAME_MAGIC.len())
            .position(|window| window == FRAME_MAGIC)
            .map(|at| at + 1);
        let skip = magic.unwrap_or_else(|| {
            self.buffer
                .len()
                .saturating_sub(FRAME_MAGIC.len() - 1)
                .max(1)
        });
        self.skip(skip);
    }

    fn skip(&mut self, bytes: usize) {
        self.damage.bytes += bytes as u64;
        let skipped = self.buffer.drain(..bytes);
        if let Some(stray) = &mut self.stray {
            stray.extend(skipped);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn frame(seq: u32, payload: &[u8]) -> Vec<u8> {
        let header = FrameHeader::for_payload(1, 0, seq, payload);
        [&header.encode(), payload].concat()
    }

    fn read_all(bytes: &[u8]) -> (Vec<(u32, Vec<u8>)>, Damage) {
        let mut reader = FrameScanner::new(bytes);
        let mut frames = Vec::new();
        while let Some((header, payload)) = reader.next().unwrap() {
            frames.push((header.seq, payload.to_vec()));
        }
        (frames, reader.damage())
    }

    #[test]
    fn garbage_between_frames_is_skipped_and_counted() {
        let bytes = [
            b"junkTKF".to_vec(),
            frame(0, b"abc"),
            b"TK".to_vec(),
            frame(1, b""),
            b"TKF".to_vec(),
        ]
        .concat();
        let (frames, damage) = read_all(&bytes);
        assert_eq!(frames, [(0, b"abc".to_vec()), (1, vec![])]);
        assert_eq!((damage.bytes, damage.frames, damage.is_cut), (12, 0, false));
    }

    #[test]
    fn a_damaged_frame_does_not_hide_the_next() {
        let mut bytes = [frame(0, &[1; 40]), frame(1, &[2; 40]), frame(2, &[3; 40])].concat();
        bytes[64 + 30] ^= 0x10;
        let (frames, damage) = read_all(&bytes);
        assert_eq!(
            frames.iter().map(|frame| frame.0).collect::<Vec<_>>(),
            [0, 2]
        );
        assert_eq!((damage.frames, damage.bytes), (1, 64));
    }

    #[test]
    fn a_cut_frame_is_no_frame() {
        let bytes = [frame(0, &[1; 40]), frame(1, &[2; 40])].concat();
        for end in 65..bytes.len() {
            let (frames, damage) = read_all(&bytes[..end]);
            assert_eq!(frames.len(), 1, "{end}");
            assert_eq!(damage.bytes, end as u64 - 64);
            assert_eq!(damage.is_cut, end >= 68, "{end}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_a_panic(
            mut bytes in prop::collection::vec(any::<u8>(), 0..400),
            at in prop::collection::vec(0usize..400, 0..4),
        ) {
            for at in at {
                if let Some(room) = bytes.get_mut(at..at + 4) {
                    room.copy_from_slice(&FRAME_MAGIC);
                }
            }
            let (frames, damage) = read_all(&bytes);
            let sound: usize = frames.iter().map(|(_, payload)| FrameHeader::SIZE + payload.len()).sum();
            prop_assert_eq!(sound + damage.bytes as usize, bytes.len());
        }
    }
}
