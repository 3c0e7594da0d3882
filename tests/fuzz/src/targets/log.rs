//! The decoder of the guest's defmt log.
//!
//! Input: one byte, bit 0 of which chooses the encoding (0: rzCOBS, the guest's; 1: raw), and the log's bytes.

use takt_guest::log::Decoder;

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
        of_task(&[2, 0, 1, 2, 0, 3, 0, 0, 0, 4, 0, 0, 0]),
        of_task(&[15, 0, 2, 0, 0, 0, 14, 0, 1, 0, 0, 0, 0, 0, 0, 0]),
        of_task(&UNBOUNDED),
    ];
    let raw = lines.iter().map(|line| [&[1], &**line].concat());
    let rzcobs = lines.iter().map(|line| [&[0], &*rzcobs(line)].concat());
    raw.chain(rzcobs).collect()
}

/// A frame of the format of that number.
fn line(index: u8, rest: &[u8]) -> Vec<u8> {
    [&[index, 0], &[9; 8][..], rest].concat()
}

/// That of a task's frame.
fn of_task(frame: &[u8]) -> Vec<u8> {
    line(13, &[&[0, frame.len() as u8, 0, 0, 0], frame].concat())
}

/// A slice of four billion elements that take no bytes.
const UNBOUNDED: [u8; 16] = [15, 0, 0xff, 0xff, 0xff, 0xff, 14, 0, 0, 0, 0, 0, 0, 0, 0, 0];

/// A line in the guest's encoding, as long as no seven bytes in a row are without a zero.
fn rzcobs(line: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for chunk in line.chunks(7) {
        let is_zero = |at: &usize| chunk.get(*at).is_none_or(|byte| *byte == 0);
        bytes.extend(chunk.iter().filter(|byte| **byte != 0));
        bytes.push((0..7).filter(is_zero).fold(0, |zeros, at| zeros | 1 << at));
    }
    bytes.push(0);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The lines of a log in rzCOBS and how many made no sense.
    fn read(bytes: &[u8]) -> (Vec<String>, u64) {
        DECODERS.with(|decoders| {
            let mut lines = Vec::new();
            let mut stream = decoders[0].stream();
            stream.push(bytes, |line| lines.push(line.message));
            (lines, stream.malformed())
        })
    }

    #[test]
    fn rubbish_in_raw_encoding_comes_to_an_end() {
        run(&[&[1], &[0xff; 64][..]].concat());
    }

    #[test]
    fn a_line_that_never_ends_is_given_up_and_the_next_is_read() {
        let good = rzcobs(&[1, 0, 9, 0, 0, 0, 0, 0, 0, 0]);
        let nested = [&[6, 0], &[9; 8][..], &[6, 0].repeat(200_000)].concat();
        let (lines, malformed) = read(&[&*good, &rzcobs(&nested), &good].concat());
        assert_eq!((lines.len(), malformed), (2, 1), "{lines:?}");
        assert_eq!(lines[1], "measuring");
    }

    /// Frames of a task that make no sense are lines that say so, and those behind them are read.
    #[test]
    fn a_tasks_frames_harm_nobody() {
        let good = [&[15, 0, 1, 0, 0, 0, 14, 0], &1000u64.to_le_bytes()[..]].concat();
        let frames = [
            &good[..],
            &UNBOUNDED,
            &[15],
            &[9, 1, 0xff],
            &[6, 0, 6, 0],
            &good,
        ];
        let all: Vec<_> = frames.iter().flat_map(|it| rzcobs(&of_task(it))).collect();
        let (lines, malformed) = read(&all);
        let expected = frames.map(|it| match it == good {
            true => "task: [nothing] 1000".to_owned(),
            false => format!("task: {} bytes that are no frame of its log", it.len()),
        });
        assert_eq!((lines, malformed), (expected.to_vec(), 0));
        let (lines, _) = read(&rzcobs(&of_task(&[
            2, 0, 1, 2, 0, 3, 0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
            0, 0, 0, 0,
        ])));
        assert_eq!(lines, ["task: 1 0x2 11 4 5"]);
        // Of no task that there is.
        let other = line(13, &[7, 2, 0, 0, 0, 1, 0]);
        assert_eq!(read(&rzcobs(&other)).0, ["task 7 [1, 0]"]);
    }
}
