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
        let (address, pitch) = (u64_at(content, 0)?, u32_at(content, 8)?);
        // Each is written as a whole.
        let size = match kind {
            Kind::Text => 2,
            Kind::Pixels { positions } if positions.iter().all(|it| *it <= 24) => 4,
            Kind::Pixels { .. } => return None,
        };
        let is_aligned = address.is_multiple_of(size.into()) && pitch.is_multiple_of(size);
        is_aligned.then_some(Self {
            address,
            pitch,
            width: u32_at(content, 12)?,
            height: u32_at(content, 16)?.min(0xffff),
            kind,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Pixels and characters that would not lie at multiples of their sizes are not drawn.
    #[test]
    fn pixels_are_aligned() {
        let parsed = |address: u8, pitch: u8, is_text: bool| {
            let mut content = [0; 30];
            (content[0], content[8], content[12], content[16]) = (address, pitch, 10, 10);
            (content[20], content[21]) = if is_text { (16, 2) } else { (32, 1) };
            for at in [25, 27, 29] {
                content[at] = 8;
            }
            Framebuffer::parse(&content).is_some()
        };
        assert!(parsed(0, 40, false) && parsed(0, 42, true) && parsed(2, 40, true));
        assert!(!parsed(0, 42, false) && !parsed(2, 40, false) && !parsed(1, 40, true));
    }
}
