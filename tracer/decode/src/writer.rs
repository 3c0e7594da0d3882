//! Writing `trace.bin` and `log.bin`.

use std::collections::BTreeMap;
use std::io::{self, Write};

use takt_tracer::wire::{FileHeader, FrameHeader};

/// Writes a file header and frames behind it.
#[derive(Debug)]
pub struct FrameWriter<W> {
    out: W,
    next: BTreeMap<(u8, u8), u32>,
}

impl<W: Write> FrameWriter<W> {
    /// Begins a file.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn new(mut out: W, header: &FileHeader) -> io::Result<Self> {
        out.write_all(&header.encode())?;
        Ok(Self {
            out,
            next: BTreeMap::new(),
        })
    }

    /// Writes a frame of its own, numbered per channel and CPU.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn frame(&mut self, channel: u8, cpu: u8, payload: &[u8]) -> io::Result<()> {
        let next = self.next.entry((channel, cpu)).or_default();
        let header = FrameHeader::for_payload(channel, cpu, *next, payload);
        *next = next.wrapping_add(1);
        self.captured(&header, payload)
    }

    /// Writes a captured frame as it is, without judging it.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn captured(&mut self, header: &FrameHeader, payload: &[u8]) -> io::Result<()> {
        self.out.write_all(&header.encode())?;
        self.out.write_all(payload)
    }

    /// Flushes and gives the output back.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn finish(mut self) -> io::Result<W> {
        self.out.flush()?;
        Ok(self.out)
    }
}
