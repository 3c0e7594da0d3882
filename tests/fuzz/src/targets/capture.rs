//! The reader of what the guest sends while it runs: frames of both channels, mixed, with anything between them.
//!
//! Input: one byte, bit 0 of which asks for repaired checksums, and the stream.

use takt_guest::frames::FrameScanner;
use takt_tracer::wire::FrameHeader;

use crate::sample;

/// Reads all frames.
///
/// # Panics
///
/// If a property does not hold.
pub fn run(input: &[u8]) {
    let Some((flags, stream)) = input.split_first() else {
        return;
    };
    let mut stream = stream.to_vec();
    if flags & 1 != 0 {
        sample::repair(&mut stream, 0);
    }
    let mut reader = FrameScanner::new(&*stream);
    let mut sound = 0;
    while let Some((header, payload)) = reader.next().expect("memory can be read") {
        assert_eq!(header.sum_over(payload), header.sum);
        assert_eq!(header.len as usize, payload.len());
        sound += FrameHeader::SIZE + payload.len();
    }
    let damage = reader.damage();
    let all = sound as u64 + damage.bytes;
    assert_eq!(all, stream.len() as u64, "every byte counts once");
    assert!(damage.frames <= damage.bytes);
}

/// A good stream, and one with rubbish in it.
#[must_use]
pub fn seeds() -> Vec<Vec<u8>> {
    let (trace, log) = (sample::trace_file(), sample::log_file());
    let frames = |file: &[u8]| file[64..].to_vec();
    let good = [frames(&log), frames(&trace)].concat();
    vec![
        [&[0], &*good].concat(),
        [&[1], &*good].concat(),
        [b"\x01TKF1 rub", &*frames(&log), b"TKF", &*frames(&trace)].concat(),
    ]
}
