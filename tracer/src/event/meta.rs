//! The metadata of an event, as it stands in section `.takt.meta`.

use super::symbol::Byte;
use super::{Id, Symbol};

/// One entry of section `.takt.meta`: `u64` id, `u64` length of the text, the text, zeros up to a multiple of 8.
///
/// The id is the address of the event's symbol, which the linker fills in. The section is not loaded.
#[repr(C)]
#[derive(Debug)]
pub struct Meta<const N: usize> {
    id: &'static Byte,
    len: u64,
    text: [u8; N],
}

/// Bytes that the text of an event takes: the sum of its parts, rounded up to a multiple of 8.
pub const fn text_len(parts: &[&str]) -> usize {
    let mut len = 0;
    let mut part = 0;
    while part < parts.len() {
        len += parts[part].len();
        part += 1;
    }
    len.next_multiple_of(8)
}

impl<const N: usize> Meta<N> {
    /// The entry of the event of this symbol, with these parts of text. `N` is [`text_len`] of the parts.
    pub const fn new<const M: usize>(symbol: &'static Symbol<M>, parts: &[&str]) -> Self {
        let mut text = [0; N];
        let mut len = 0;
        let mut part = 0;
        while part < parts.len() {
            let bytes = parts[part].as_bytes();
            let mut at = 0;
            while at < bytes.len() {
                text[len] = bytes[at];
                len += 1;
                at += 1;
            }
            part += 1;
        }
        Self {
            id: symbol.first(),
            len: len as u64,
            text,
        }
    }

    /// The event's id.
    pub const fn id(&self) -> Id {
        Id::at(self.id)
    }

    /// The text.
    pub fn text(&self) -> &str {
        self.text
            .get(..self.len as usize)
            .and_then(|text| core::str::from_utf8(text).ok())
            .unwrap_or("")
    }
}
