//! [`Framebuffer`]: the screen that the loader has set.
//!
//! Source: Multiboot2 specification 2.0, 3.6.12.

use super::{u32_at, u64_at};

/// A screen.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Framebuffer {
    /// Where it begins in physical memory.
    pub(crate) address: u64,
    /// Bytes from a line to the next.
    pub(crate) pitch: u32,
    /// Columns: pixels, or characters.
    pub(crate) width: u32,
    /// Lines of these.
    pub(crate) height: u32,
    pub(crate) kind: Kind,
}

/// What it is made of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// Characters with attributes, as EGA has them.
    Text,
    /// Pixels of 32 bits.
    Pixels {
        /// The lowest bit of red, green and blue.
        positions: [u8; 3],
    },
}

impl Framebuffer {
    /// Reads a tag's content. None if it is one that nothing can be drawn on here.
    pub(super) fn parse(content: &[u8]) -> Option<Self> {
        let byte = |at: usize| content.get(at).copied();
        let kind = match (byte(21)?, byte(20)?) {
            (2, 16) => Kind::Text,
            // Colours of eight bits each.
            (1, 32) if [byte(25)?, byte(27)?, byte(29)?] == [8; 3] => Kind::Pixels {
                positions: [byte(24)?, byte(26)?, byte(28)?],
            },
            _ => return None,
        };
        let is_sound = |positions: [u8; 3]| positions.iter().all(|position| *position <= 24);
        match kind {
            Kind::Pixels { positions } if !is_sound(positions) => None,
            _ => Some(Self {
                address: u64_at(content, 0)?,
                pitch: u32_at(content, 8)?,
                width: u32_at(content, 12)?,
                height: u32_at(content, 16)?.min(0xffff),
                kind,
            }),
        }
    }
}
