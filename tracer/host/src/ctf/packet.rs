//! A CPU's events in packets.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

const MAGIC: u32 = 0xc1fc_1fc1;
/// Bytes of a packet's header and context.
const HEADER: usize = 4 + 6 * 8 + 4;
/// A packet ends when it has more than this.
const PACKET: usize = 64 << 10;

/// A stream in the making.
#[derive(Debug)]
pub(super) struct Stream {
    out: BufWriter<File>,
    cpu: u32,
    /// The events of the packet in the making.
    events: Vec<u8>,
    /// Its first and its last time, in ns.
    begin: u64,
    last: u64,
    /// Its number.
    seq: u64,
    /// Events lost before it, on this CPU.
    discarded: u64,
    has_packet: bool,
}

impl Stream {
    /// A new file.
    pub(super) fn create(path: &Path, cpu: u32) -> io::Result<Self> {
        Ok(Self {
            out: BufWriter::new(File::create(path)?),
            cpu,
            events: Vec::with_capacity(PACKET),
            begin: 0,
            last: 0,
            seq: 0,
            discarded: 0,
            has_packet: false,
        })
    }

    /// Adds an event. Readers cannot do with time that goes back, as it may in a damaged trace: it stands still.
    pub(super) fn event(&mut self, id: u16, ns: u64, bytes: &[u8]) -> io::Result<()> {
        if self.events.len() > PACKET {
            self.flush()?;
        }
        let ns = ns.max(self.last);
        if self.events.is_empty() {
            self.begin = ns;
        }
        self.last = ns;
        self.events.extend(id.to_le_bytes());
        self.events.extend(ns.to_le_bytes());
        self.events.extend(bytes);
        Ok(())
    }

    /// Notes that something is missing before the next event, by a packet without events: readers say that a loss was
    /// between the ends of two packets.
    pub(super) fn lost(&mut self, ns: u64, events: u64, sub_buffers: u64) -> io::Result<()> {
        if !self.has_packet && self.events.is_empty() {
            // There has to be one before.
            self.begin = ns;
            self.last = ns;
            self.write()?;
        }
        self.flush()?;
        self.begin = ns.max(self.last);
        self.last = self.begin;
        self.discarded = self.discarded.wrapping_add(events);
        self.seq = self.seq.wrapping_add(sub_buffers);
        self.write()
    }

    /// Ends it.
    pub(super) fn finish(&mut self) -> io::Result<()> {
        self.flush()?;
        self.out.flush()
    }

    /// Writes the packet in the making, if there is anything in it.
    fn flush(&mut self) -> io::Result<()> {
        if self.events.is_empty() {
            return Ok(());
        }
        self.write()
    }

    /// Writes the packet in the making.
    fn write(&mut self) -> io::Result<()> {
        let bits = 8 * (HEADER + self.events.len()) as u64;
        self.out.write_all(&MAGIC.to_le_bytes())?;
        for word in [self.begin, self.last, bits, bits, self.seq, self.discarded] {
            self.out.write_all(&word.to_le_bytes())?;
        }
        self.out.write_all(&self.cpu.to_le_bytes())?;
        self.out.write_all(&self.events)?;
        self.events.clear();
        self.seq = self.seq.wrapping_add(1);
        self.has_packet = true;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Begin, end, bytes, sequence number, discarded events of each packet.
    fn packets(bytes: &[u8]) -> Vec<[u64; 5]> {
        let mut rest = bytes;
        let mut found = Vec::new();
        while !rest.is_empty() {
            let word = |at: usize| u64::from_le_bytes(rest[at..at + 8].try_into().unwrap());
            assert_eq!(rest[..4], MAGIC.to_le_bytes());
            assert_eq!(word(20), word(28));
            let size = word(28) / 8;
            found.push([word(4), word(12), size, word(36), word(44)]);
            rest = &rest[size as usize..];
        }
        found
    }

    #[test]
    fn losses_are_differences_between_packets() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("cpu3");
        let mut stream = Stream::create(&path, 3).unwrap();
        stream.lost(10, 4, 1).unwrap();
        stream.event(1, 12, &[0; 6]).unwrap();
        stream.event(1, 11, &[0; 6]).unwrap();
        stream.lost(20, 5, 0).unwrap();
        stream.finish().unwrap();
        let empty = HEADER as u64;
        assert_eq!(
            packets(&std::fs::read(&path).unwrap()),
            [
                [10, 10, empty, 0, 0],
                [10, 10, empty, 2, 4],
                [12, 12, empty + 32, 3, 4],
                [20, 20, empty, 4, 9]
            ]
        );
    }

    #[test]
    fn a_long_stream_has_several_packets_and_an_empty_one_none() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("cpu0");
        let mut stream = Stream::create(&path, 0).unwrap();
        stream.finish().unwrap();
        assert!(std::fs::read(&path).unwrap().is_empty());
        for ns in 0..10_000 {
            stream.event(1, ns, &[0; 10]).unwrap();
        }
        stream.finish().unwrap();
        let packets = packets(&std::fs::read(&path).unwrap());
        assert_eq!(packets.len(), 4);
        assert!(packets.windows(2).all(|two| two[0][1] < two[1][0]));
        assert_eq!(packets[3][1], 9999);
    }
}
