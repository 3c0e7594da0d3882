//! The decoder of the guest's defmt log.
//!
//! Input: one byte, bit 0 of which chooses the encoding (0: rzCOBS, the guest's; 1: raw), and the log's bytes.

use xtask::guest::log::Decoder;

use crate::image;

thread_local! {
    static DECODERS: [Decoder; 2] = ["rzcobs", "raw"]
        .map(|encoding| Decoder::new(&image::image(encoding)).expect("the image has formats"));
}

/// Decodes the log, at once and in pieces.
///
/// # Panics
///
/// If a property does not hold.
pub fn run(input: &[u8]) {
    let Some((flags, bytes)) = input.split_first() else {
        return;
    };
    DECODERS.with(|decoders| {
        let decoder = &decoders[usize::from(flags & 1)];
        let read = |piece: usize| {
            let mut stream = decoder.stream();
            let mut lines = Vec::new();
            for piece in bytes.chunks(piece) {
                stream.push(piece, |line| lines.push(line.to_string()));
            }
            (lines, stream.malformed())
        };
        let whole = read(bytes.len().max(1));
        assert_eq!(whole, read(7), "it does not matter how it arrives");
        assert!(whole.0.len() as u64 + whole.1 <= bytes.len() as u64);
    });
}

/// Lines of every kind. In raw encoding they stand as they are; as rzCOBS the same bytes are at least a beginning.
#[must_use]
pub fn seeds() -> Vec<Vec<u8>> {
    let line = |index: u8, rest: &[u8]| [&[index, 0], &[9; 8][..], rest].concat();
    let lines = [
        line(1, &[]),
        line(2, &[5; 31]),
        line(3, b"\x03\0\0\0abc\x02\0\0\0xyABCD"),
        line(
            4,
            &[
                1, 0, 0, 0x80, 0x3f, 0, 0, 0, 0, 0, 0, 0xf0, 0x3f, b'x', 0, 0, 0,
            ],
        ),
        line(5, &[0x53, 0]),
        line(6, &[12, 0, 1, 2, 12, 0, 3, 4]),
        line(7, &[12, 0, 1, 2, 3, 4, 5, 6]),
        line(8, &[7; 20]),
        line(11, b"\x0a\0abc\xffdef\xff"),
    ];
    let raw = lines.iter().map(|line| [&[1], &**line].concat());
    let rzcobs = lines.iter().map(|line| {
        let mut bytes = vec![0];
        for chunk in line.chunks(7) {
            bytes.extend(chunk.iter().filter(|byte| **byte != 0));
            bytes.push(
                chunk
                    .iter()
                    .enumerate()
                    .fold(0, |zeros, (bit, byte)| zeros | u8::from(*byte == 0) << bit),
            );
        }
        bytes.push(0);
        bytes
    });
    raw.chain(rzcobs).collect()
}
