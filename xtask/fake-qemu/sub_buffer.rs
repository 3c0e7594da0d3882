//! Sub-buffers with a few records of event 1, `fake:tick`, which has one field of 32 bits.

use takt_tracer::wire::{COMMIT_RECORD, SUB_HEADER, SubHeader};

/// Bytes of a sub-buffer.
pub(crate) const SIZE: usize = 128;
/// Records in a full one.
pub(crate) const RECORDS: u32 = 3;
/// The thread that makes them, the first that is not idle: the fake image is for two CPUs.
const THREAD: u32 = 2;
/// Bytes of a record: time, word, field.
const RECORD: u32 = 12;

/// A full one.
pub(crate) fn full(seq: u64) -> [u8; SIZE] {
    full_at(seq, time_of(seq))
}

/// A full one of this time.
pub(crate) fn full_at(seq: u64, ts: u64) -> [u8; SIZE] {
    with_records(seq, ts, RECORDS, SIZE as u32)
}

fn time_of(seq: u64) -> u64 {
    1_000_000 * (seq + 1)
}

/// One that has a single record so far, and how many bytes of it are in use.
pub(crate) fn begun(seq: u64) -> ([u8; SIZE], u32) {
    let used = SUB_HEADER + RECORD;
    (with_records(seq, time_of(seq), 1, used), used)
}

fn with_records(seq: u64, ts: u64, records: u32, committed: u32) -> [u8; SIZE] {
    let header = SubHeader {
        seq,
        ts,
        version: SubHeader::VERSION,
        commit: u64::from(committed) + u64::from(records) * COMMIT_RECORD,
        ..SubHeader::default()
    };
    let mut bytes = [0; SIZE];
    bytes[..SUB_HEADER as usize].copy_from_slice(&header.encode());
    for record in 0..records {
        let at = (SUB_HEADER + record * RECORD) as usize;
        let number = seq as u32 * RECORDS + record;
        let words = [ts as u32 + record, 1 | THREAD << 24, number];
        for (place, word) in bytes[at..].chunks_exact_mut(4).zip(words) {
            place.copy_from_slice(&word.to_le_bytes());
        }
    }
    bytes
}
