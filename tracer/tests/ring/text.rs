//! Records that end in a text: what is written is the text, and nothing behind the record.

use takt_tracer::ring::{self, Mode};
use takt_tracer::wire::{SUB_HEADER, SubHeader};

use crate::cpu::Cpu;

const WORD: u32 = 14;
const EXTRA: u32 = 0xfedc_ba98;
/// What was in the ring before.
const OLD: u32 = 0xa5a5_a5a5;

/// The bytes behind time stamp and word of the only record, and those behind the record up to the sub-buffer's end.
fn record(write: impl FnOnce(&Cpu<512, 2>)) -> (Vec<u8>, Vec<u8>) {
    let cpu = Cpu::<512, 2>::new(Mode::Overwrite, 1000);
    // The first record of a ring opens its sub-buffer; it is followed by the one under test.
    ring::record8(cpu.quiet(), 4);
    let header = SubHeader::decode(&cpu.copy(0)).unwrap();
    let at = header.committed() as usize;
    assert!(at > SUB_HEADER as usize);
    for word in &cpu.memory[at / 4..512 / 4] {
        word.store(OLD, std::sync::atomic::Ordering::SeqCst);
    }
    write(&cpu);
    let bytes = cpu.copy(0);
    let end = SubHeader::decode(&bytes).unwrap().committed() as usize;
    assert_eq!(bytes[at + 4..at + 8], WORD.to_le_bytes());
    (bytes[at + 8..end].to_vec(), bytes[end..].to_vec())
}

fn expected(head: &[u32], text: &[u8]) -> Vec<u8> {
    let mut bytes: Vec<u8> = head.iter().flat_map(|word| word.to_le_bytes()).collect();
    bytes.extend((text.len() as u32).to_le_bytes());
    bytes.extend(text);
    bytes
}

#[test]
fn every_length_is_written_as_it_is() {
    for len in 0..=70u8 {
        let text: Vec<u8> = (0..len).map(|at| 0xff - at).collect();
        for (written, head) in [
            (
                record(|cpu| ring::record_text(cpu.quiet(), &text, WORD)),
                &[][..],
            ),
            (
                record(|cpu| ring::record_text1(cpu.quiet(), &text, WORD, EXTRA)),
                &[EXTRA],
            ),
        ] {
            let (bytes, behind) = written;
            let expected = expected(head, &text);
            assert_eq!(bytes[..expected.len()], expected, "{len} bytes");
            assert_eq!(
                bytes.len(),
                expected.len().next_multiple_of(4),
                "{len} bytes"
            );
            assert!(
                behind.chunks(4).all(|word| word == OLD.to_le_bytes()),
                "{len} bytes: written beyond the end"
            );
        }
    }
}
