//! Input that is damaged, cut or hostile: records and errors with an offset, never a panic.

use std::io::Cursor;

use proptest::prelude::*;
use takt_decode::{Damage, Entry, Error, Fault, FrameReader, FrameWriter, Item, TraceFile, Value};
use takt_decode::{Names, Threads, write_item, write_json};
use takt_tracer::wire::{FileHeader, FrameHeader};

use crate::world::{SUB, Sink, WAKEUP, Wakeup, World, file_header, table};

const FRAME: usize = FrameHeader::SIZE + SUB as usize;

/// A file of many frames, with a number in each record.
fn file() -> Vec<u8> {
    let mut world = World::new(2);
    for number in 0..200u64 {
        world.at((number % 2) as usize, number * 1000, 0xc0, 9);
        Wakeup::emit::<Sink>(WAKEUP, number as u8, 1u8, 2u8);
        world.hand_over();
    }
    world.finish()
}

/// Where the frames of a good file begin.
fn frames(file: &[u8]) -> Vec<usize> {
    (FileHeader::SIZE..file.len()).step_by(FRAME).collect()
}

/// Reads everything there is to read, in every way.
pub(crate) fn read(bytes: &[u8]) -> Result<(Vec<u64>, Vec<Damage>), Error> {
    let table = table();
    let mut trace = TraceFile::open(Cursor::new(bytes))?;
    let mut damage = trace.damage().to_vec();
    assert_eq!(trace.nr_damages(), damage.len() as u64);
    let mut numbers = Vec::new();
    let mut names = Names::new(trace.header().tsc_hz, Threads::new(2));
    let mut text = Vec::new();
    for item in trace.merge(&table) {
        let item = item?;
        write_item(&mut text, &item, &mut names).unwrap();
        write_json(&mut text, &item, &mut names).unwrap();
        match item {
            Item::Record(record) => numbers.extend(record.values.first().and_then(Value::number)),
            Item::Damage(what) => damage.push(what),
            Item::Lost { .. } => {}
        }
    }
    for damage in &damage {
        assert!(damage.offset <= bytes.len() as u64 && !damage.to_string().is_empty());
    }
    Ok((numbers, damage))
}

#[test]
fn a_good_file_has_no_damage() {
    let (numbers, damage) = read(&file()).unwrap();
    assert!(numbers.into_iter().eq(0..200));
    assert_eq!(damage, []);
}

#[test]
fn one_damaged_frame_costs_one_frame() {
    let good = file();
    let frames = frames(&good);
    let per_frame = |bytes: &[u8]| read(bytes).unwrap().0.len();
    for (number, at) in frames.iter().copied().enumerate() {
        // Behind the magic, in each field of the header and in the payload.
        for byte in [0, 3, 4, 5, 6, 8, 11, 12, 16, 23, 24, 100, FRAME - 1] {
            let mut bad = good.clone();
            bad[at + byte] ^= 0x10;
            let (numbers, damage) = read(&bad).unwrap();
            let first = &damage[0];
            assert_eq!(
                first.offset, at as u64,
                "frame {number}, byte {byte}: {first}"
            );
            assert!(!matches!(first.fault, Fault::FrameGap { .. }), "{first}");
            assert!(
                numbers.len() + 27 >= 200 && numbers.len() < 200,
                "{}",
                numbers.len()
            );
            assert!(
                damage
                    .iter()
                    .skip(1)
                    .all(|what| matches!(what.fault, Fault::FrameGap { .. })),
                "{damage:?}"
            );
        }
    }
    assert_eq!(per_frame(&good), 200);
}

#[test]
fn rubbish_between_frames_is_passed_over() {
    let good = file();
    for rubbish in [
        &b"x"[..],
        b"TKF1",
        b"TKF1TKF1TKF",
        &[0; 5000],
        b"TKTKF1\x01\x00\x01\x00\x00\x01\x00\x00",
    ] {
        for at in frames(&good) {
            let bad = [&good[..at], rubbish, &good[at..]].concat();
            let (numbers, damage) = read(&bad).unwrap();
            assert_eq!(numbers.len(), 200);
            assert_eq!(damage.len(), 1);
            assert_eq!(
                (damage[0].offset, damage[0].skipped),
                (at as u64, rubbish.len() as u64)
            );
        }
    }
}

#[test]
fn a_cut_file_keeps_what_is_before_the_cut() {
    let good = file();
    let mut most = 0;
    for cut in (FileHeader::SIZE..good.len()).step_by(13) {
        let (numbers, damage) = read(&good[..cut]).unwrap();
        let whole = (cut - FileHeader::SIZE) / FRAME;
        let rest = (cut - FileHeader::SIZE) % FRAME;
        assert_eq!(damage.len(), usize::from(rest > 0), "{damage:?}");
        if let [damage] = &damage[..] {
            assert_eq!(damage.offset as usize, FileHeader::SIZE + whole * FRAME);
            assert_eq!(damage.skipped as usize, rest);
            assert!(matches!(damage.fault, Fault::Truncated { .. }), "{damage}");
        }
        assert!(numbers.len() >= most);
        most = numbers.len();
    }
    assert!(most > 100);
}

#[test]
fn missing_and_repeated_frames_are_noticed() {
    let good = file();
    let frames = frames(&good);
    let at = frames[4];
    let without = [&good[..at], &good[at + FRAME..]].concat();
    let (_, damage) = read(&without).unwrap();
    assert!(
        matches!(
            damage[..],
            [Damage {
                fault: Fault::FrameGap { .. },
                ..
            }]
        ),
        "{damage:?}"
    );
    let twice = [&good[..at + FRAME], &good[at..]].concat();
    let (numbers, damage) = read(&twice).unwrap();
    assert!(numbers.into_iter().eq(0..200), "nothing is delivered twice");
    assert!(
        damage
            .iter()
            .any(|damage| matches!(damage.fault, Fault::SubOrder { .. })),
        "{damage:?}"
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn any_damage_is_survived(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>(), 0..4u8), 1..20),
    ) {
        let mut bytes = file();
        for (at, value, what) in changes {
            if bytes.is_empty() {
                break;
            }
            let at = at.index(bytes.len());
            match what {
                0 => bytes[at] = value,
                1 => bytes[at] ^= 1 << (value % 8),
                2 => drop(bytes.drain(at..(at + usize::from(value)).min(bytes.len()))),
                _ => drop(bytes.splice(at..at, std::iter::repeat_n(value, usize::from(value)))),
            }
        }
        let _ = read(&bytes);
    }

    #[test]
    fn any_bytes_behind_a_header_are_survived(bytes in prop::collection::vec(any::<u8>(), 0..2000)) {
        let bytes = [&file_header(2).encode()[..], &bytes].concat();
        let mut frames = FrameReader::trace(&bytes[..]).unwrap();
        while let Some(entry) = frames.next_entry().unwrap() {
            prop_assert!(matches!(entry, Entry::Damage(_)));
        }
    }

    #[test]
    fn any_bytes_are_no_file(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        prop_assert!(read(&bytes).is_err());
    }
}

#[test]
fn a_foreign_frame_is_damage_though_its_sum_is_good() {
    let good = FrameHeader::for_payload(1, 0, 0, &[7; SUB as usize]);
    let fault = |header: FrameHeader, payload: &[u8]| {
        let mut header = FrameHeader {
            len: payload.len() as u32,
            ..header
        };
        header.sum = header.sum_over(payload);
        let mut writer = FrameWriter::new(Vec::new(), &file_header(2)).unwrap();
        writer.captured(&header, payload).unwrap();
        let bytes = writer.finish().unwrap();
        let mut frames = FrameReader::trace(&bytes[..]).unwrap();
        let Some(Entry::Damage(damage)) = frames.next_entry().unwrap() else {
            panic!("{header:?} is taken");
        };
        assert_eq!((damage.offset, frames.next_entry().unwrap()), (64, None));
        damage.fault
    };
    let payload = &[7; SUB as usize][..];
    let header = FrameHeader { version: 3, ..good };
    assert_eq!(
        fault(header, payload),
        Fault::Version { found: 3, known: 2 }
    );
    let header = FrameHeader { channel: 0, ..good };
    assert_eq!(
        fault(header, payload),
        Fault::Channel {
            found: 0,
            expected: 1
        }
    );
    let header = FrameHeader { cpu: 2, ..good };
    assert_eq!(
        fault(header, payload),
        Fault::Cpu {
            found: 2,
            nr_cpus: 2
        }
    );
    for len in [0, 8, 255, 257, 512] {
        let found = len as u32;
        assert_eq!(
            fault(good, &vec![7; len]),
            Fault::Length {
                found,
                expected: SUB
            }
        );
    }
    let header = FrameHeader { seq: 3, ..good };
    let gap = Fault::FrameGap {
        cpu: 0,
        expected: 0,
        found: 3,
    };
    let mut writer = FrameWriter::new(Vec::new(), &file_header(2)).unwrap();
    let header = FrameHeader {
        sum: header.sum_over(payload),
        ..header
    };
    writer.captured(&header, payload).unwrap();
    let bytes = writer.finish().unwrap();
    let mut frames = FrameReader::trace(&bytes[..]).unwrap();
    assert!(
        matches!(frames.next_entry().unwrap(), Some(Entry::Damage(damage)) if damage.fault == gap)
    );
    assert!(
        matches!(frames.next_entry().unwrap(), Some(Entry::Frame(frame)) if frame.payload == payload)
    );
}
