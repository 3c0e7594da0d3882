//! The log of the plugin, as it is written and read.
//!
//! Eight bytes [`MAGIC`], then entries: two numbers each, the instructions executed since the entry before and what
//! happened ([`Entry`]). A number is seven bits a byte, the lowest first; the last byte has its top bit clear (LEB128). An
//! entry is two to four bytes, so that turns of a thousand instructions cost a few bytes each.

use std::io::{self, Read, Write};

/// What the log begins with.
pub const MAGIC: [u8; 8] = *b"TKCOUNT2";

/// What happened, at a number of executed instructions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Entry {
    /// QEMU ended; the count is that of all instructions.
    End,
    /// The instructions from here on are those of this CPU; those before were another one's.
    Turn(u32),
    /// The instruction with this number in the list of marks was executed, and is counted.
    Mark(u32),
    /// So many cache lines of data were touched since the mark before; the entry behind is that of the next one.
    Lines(u32),
}

impl Entry {
    fn code(self) -> u64 {
        match self {
            Self::End => 0,
            Self::Turn(cpu) => 1 + 3 * u64::from(cpu),
            Self::Mark(index) => 2 + 3 * u64::from(index),
            Self::Lines(nr) => 3 + 3 * u64::from(nr),
        }
    }

    fn of_code(code: u64) -> io::Result<Self> {
        let number = u32::try_from(code.saturating_sub(1) / 3)
            .map_err(|_| io::Error::from(io::ErrorKind::InvalidData))?;
        Ok(match (code, code % 3) {
            (0, _) => Self::End,
            (_, 1) => Self::Turn(number),
            (_, 2) => Self::Mark(number),
            _ => Self::Lines(number),
        })
    }

    /// Writes the entry; `instructions` were executed since the one before.
    pub fn write(self, out: &mut impl Write, instructions: u64) -> io::Result<()> {
        let mut bytes = [0; 20];
        let mut len = 0;
        for mut number in [instructions, self.code()] {
            while number >= 0x80 {
                bytes[len] = number as u8 | 0x80;
                len += 1;
                number >>= 7;
            }
            bytes[len] = number as u8;
            len += 1;
        }
        out.write_all(&bytes[..len])
    }

    /// Reads an entry and the instructions executed since the one before.
    pub fn read(from: &mut impl Read) -> io::Result<(Self, u64)> {
        let instructions = number(from)?;
        Ok((Self::of_code(number(from)?)?, instructions))
    }
}

fn number(from: &mut impl Read) -> io::Result<u64> {
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let mut byte = [0];
        from.read_exact(&mut byte)?;
        number |= u64::from(byte[0] & 0x7f) << shift;
        if byte[0] & 0x80 == 0 {
            return Ok(number);
        }
    }
    Err(io::ErrorKind::InvalidData.into())
}
