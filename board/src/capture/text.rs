//! What an application writes to COM1 while the capture has it.

use takt_kernel::config::LOG_MESSAGE_SIZE;

/// Bytes of text for which a message of the log has room: an eighth more may be needed to encode it, and its number, time and
/// length come before it.
const MAX_TEXT: usize = LOG_MESSAGE_SIZE * 7 / 8 - 24;
const _: () = assert!(MAX_TEXT >= char::MAX_LEN_UTF8);

/// What somebody writes to the port: lines of the log, since the port is taken. A line too long for a message becomes several;
/// what is no text is shown as bytes.
pub(crate) fn text(bytes: &[u8]) {
    for chunk in bytes.utf8_chunks() {
        for piece in pieces(chunk.valid().trim_end_matches(['\r', '\n'])) {
            defmt::println!("{=str}", piece);
        }
        if !chunk.invalid().is_empty() {
            defmt::println!("{=[u8]:a}", chunk.invalid());
        }
    }
}

/// All of a text, in pieces that are no longer than [`MAX_TEXT`].
fn pieces(mut text: &str) -> impl Iterator<Item = &str> {
    core::iter::from_fn(move || {
        let (piece, rest) = text.split_at(text.floor_char_boundary(MAX_TEXT));
        text = rest;
        (!piece.is_empty()).then_some(piece)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_text_is_in_pieces() {
        let mut text = [b'x'; 3 * MAX_TEXT];
        // A character of four bytes at the first piece's end.
        text[MAX_TEXT - 2..MAX_TEXT + 2].copy_from_slice("\u{1f600}".as_bytes());
        let text = core::str::from_utf8(&text).unwrap_or_default();
        assert!(
            pieces(text)
                .map(str::len)
                .eq([MAX_TEXT - 2, MAX_TEXT, MAX_TEXT, 2])
        );
        assert!(pieces(text).flat_map(str::bytes).eq(text.bytes()));
        assert_eq!(pieces("").count(), 0);
    }
}
