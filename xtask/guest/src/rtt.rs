//! The RTT control block: SEGGER's layout, with 64-bit pointers.
//!
//! | offset | field |
//! |---|---|
//! | 0 | `id[16]`, `"SEGGER RTT"` padded with zeros |
//! | 16 | `i32` number of up channels, `i32` of down channels |
//! | 24 | descriptors of 40 or 32 bytes, up channels first |
//!
//! A descriptor: `u64 name`, `u64 buffer`, `u32 size`, `u32 write`, `u32 read`, `u32 flags`. Up
//! channels are written by the guest, down channels by us. Whoever writes moves `write` only.
//!
//! Nothing read here is trusted.

use std::io;

use takt_timerlat::stats::view::Memory;

use crate::Elf;
use crate::Ram;

/// Name of the symbol.
pub const SYMBOL: &str = "_SEGGER_RTT";
/// What the block begins with.
pub const ID: &[u8; 16] = b"SEGGER RTT\0\0\0\0\0\0";
/// Offset of the first descriptor.
const DESCRIPTORS: u64 = 24;
/// Bytes of a descriptor.
const DESCRIPTOR: u64 = 32;
/// Up channel of the defmt log.
pub const UP_LOG: u32 = 0;
/// Down channel of commands.
pub const DOWN_COMMANDS: u32 = 0;
/// Down channel of settings, a line each.
pub const DOWN_SETTINGS: u32 = 1;
/// Command: stop the measurement.
pub const STOP: u8 = b's';

/// More channels than this are garbage.
const MAX_CHANNELS: u32 = 16;

/// The RTT block of a guest.
#[derive(Debug)]
pub struct Rtt<'r> {
    elf: &'r Elf,
    ram: &'r Ram,
    base: u64,
}

/// A descriptor, checked: the buffer has a size and an end, and the offsets are inside.
#[derive(Clone, Copy, Debug)]
struct Channel {
    address: u64,
    buffer: u64,
    size: u32,
    write: u32,
    read: u32,
}

impl<'r> Rtt<'r> {
    /// The block of `elf` in `ram`; `None` if the image has none.
    #[must_use]
    pub fn new(elf: &'r Elf, ram: &'r Ram) -> Option<Self> {
        let base = elf.physical(SYMBOL).ok()?;
        Some(Self { elf, ram, base })
    }

    /// What the guest wrote to an up channel and nobody has read yet. It stays unread.
    ///
    /// # Errors
    ///
    /// If the block is not set up, the channel is not there, or its numbers make no sense.
    pub fn pending(&self, channel: u32) -> io::Result<Vec<u8>> {
        let (nr_up, _) = self.counts()?;
        if channel >= nr_up {
            return Err(invalid("no such up channel"));
        }
        let up = self.channel(channel)?;
        let mut bytes = Vec::new();
        let mut take = |from: u32, to: u32| {
            let mut part = vec![0; (to - from) as usize];
            self.ram
                .read_exact_at(up.buffer + u64::from(from), &mut part)?;
            bytes.append(&mut part);
            io::Result::Ok(())
        };
        if up.read <= up.write {
            take(up.read, up.write)?;
        } else {
            take(up.read, up.size)?;
            take(0, up.write)?;
        }
        Ok(bytes)
    }

    /// Sends a byte down a channel.
    ///
    /// # Errors
    ///
    /// If the block is not set up, the channel is not there, is full, or makes no sense.
    pub fn send(&self, channel: u32, byte: u8) -> io::Result<()> {
        self.send_all(channel, &[byte])
    }

    /// Sends bytes down a channel: all of them, or none.
    ///
    /// # Errors
    ///
    /// If the block is not set up, the channel is not there, has not the room, or makes no sense.
    pub fn send_all(&self, channel: u32, bytes: &[u8]) -> io::Result<()> {
        let (nr_up, nr_down) = self.counts()?;
        if channel >= nr_down {
            return Err(invalid("no such down channel"));
        }
        let down = self.channel(nr_up + channel)?;
        let used = (down.write + down.size - down.read) % down.size;
        if bytes.len() >= (down.size - used) as usize {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let until_end = bytes.len().min((down.size - down.write) as usize);
        let (first, second) = bytes.split_at(until_end);
        self.ram
            .write_at(down.buffer + u64::from(down.write), first)?;
        self.ram.write_at(down.buffer, second)?;
        let next = (down.write + bytes.len() as u32) % down.size;
        self.ram.write_at(down.address + 20, &next.to_le_bytes())
    }

    /// Numbers of up and of down channels.
    fn counts(&self) -> io::Result<(u32, u32)> {
        let mut head = [0; DESCRIPTORS as usize];
        self.ram.read_exact_at(self.base, &mut head)?;
        if head[..16] != *ID {
            return Err(invalid("not set up yet"));
        }
        let count =
            |at: usize| u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
        let counts = (count(16), count(20));
        if counts.0 > MAX_CHANNELS || counts.1 > MAX_CHANNELS {
            return Err(invalid("more channels than there can be"));
        }
        Ok(counts)
    }

    /// Descriptor number `index`, down channels counted on from the up channels.
    fn channel(&self, index: u32) -> io::Result<Channel> {
        let address = self.base + DESCRIPTORS + u64::from(index) * DESCRIPTOR;
        let mut raw = [0; DESCRIPTOR as usize];
        self.ram.read_exact_at(address, &mut raw)?;
        let (words, _) = raw.as_chunks::<4>();
        let word = |index: usize| u32::from_le_bytes(words[index]);
        let buffer = u64::from(word(2)) | u64::from(word(3)) << 32;
        let channel = Channel {
            address,
            buffer: self.elf.to_physical(buffer),
            size: word(4),
            write: word(5),
            read: word(6),
        };
        let Channel {
            size, write, read, ..
        } = channel;
        let is_in_memory = channel.buffer.checked_add(size.into()).is_some();
        if size == 0 || size > 1 << 24 || write >= size || read >= size || !is_in_memory {
            return Err(invalid("a channel's numbers make no sense"));
        }
        Ok(channel)
    }
}

fn invalid(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("RTT: {what}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Offsets in a descriptor.
    const BUFFER: u64 = DESCRIPTORS + 8;
    const SIZE: u64 = DESCRIPTORS + 16;

    fn write(ram: &Ram, address: u64, numbers: &[u32]) {
        let bytes: Vec<u8> = numbers.iter().flat_map(|n| n.to_le_bytes()).collect();
        ram.write_at(address, &bytes).unwrap();
    }

    /// A block at 0 with one channel up, which has the bytes around its end.
    fn ram() -> Ram {
        let ram = Ram::create(&std::env::temp_dir()).unwrap();
        ram.write_at(0, ID).unwrap();
        write(&ram, 16, &[1, 0]);
        write(&ram, BUFFER, &[0x100, 0]);
        write(&ram, SIZE, &[4, 1, 2]);
        ram.write_at(0x100, b"cxab").unwrap();
        ram
    }

    fn pending(ram: &Ram) -> io::Result<Vec<u8>> {
        let elf = Elf::open(&std::env::current_exe().unwrap()).unwrap();
        let rtt = Rtt {
            elf: &elf,
            ram,
            base: 0,
        };
        rtt.pending(0)
    }

    #[test]
    fn what_goes_around_the_end_is_in_order() {
        assert_eq!(pending(&ram()).unwrap(), b"abc");
    }

    #[test]
    fn a_buffer_beyond_every_memory_is_an_error() {
        let ram = ram();
        for buffer in [u64::MAX, u64::MAX - 3, 1 << 63, 1 << 40] {
            ram.write_at(BUFFER, &buffer.to_le_bytes()).unwrap();
            assert!(pending(&ram).is_err(), "{buffer:#x}");
        }
    }
}
